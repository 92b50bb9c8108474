// SPDX-License-Identifier: Apache-2.0

// Package machine decides what the executor does: which status updates its Mesos tasks get and which pods are deleted.
// It is told what happened (a LAUNCH or KILL of the agent, a pod that changed, what the pod's cgroup says, how a
// deletion went) and answers with what to do. It does no I/O, starts no goroutine, keeps no clock, and takes every
// input in every state.
//
// The rules, in short: a task follows the one pod with the UID that its TaskInfo names. It is STARTING from its LAUNCH
// on, RUNNING once the pod's containers have started, and ends when they have stopped, which the pod's cgroup says and
// only where cgroups cannot be seen the API server. A KILL is a wish that is kept until the task has ended.
package machine
