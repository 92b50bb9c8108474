// SPDX-License-Identifier: Apache-2.0

// Package chaos proves the invariants of the design under faults.
//
// A run is a whole system of its own (two scheduler processes, a simulated Mesos cluster with several masters and
// agents, real executors, kwok nodes or hollow kubelets) on an API server that runs share one after the other. A seeded
// workload is created, scaled and deleted all the time while a seeded plan of faults strikes, several at once. They strike
// the programs (killed, stopped, killed right before or after a call of theirs is handled), masters, agents and executors,
// every message between them, the requests to the API server (through a proxy: refused, slow, lost, stored but not
// answered), nodes and kubelets; and there are operators who drain, maintain, remove and tear down, and other frameworks
// that take room. Clocks do not jump: what is measured here is measured with clocks that only run on, and to the programs a
// SIGSTOP is a jump of those. Then the faults end, the system settles, and the invariants are checked from records that are
// not the scheduler's: etcd's history of all pods, the API server's audit log, the master's history of all tasks, the
// agents' executors, and what the programs logged.
//
//	I1  at the end every bound pod has exactly one live task, and every live task exactly one bound pod
//	I2  no pod ever has two live tasks; a Binding is sent only while its task is live
//	I3  a task holds what its pod needs; what runs on a node never exceeds what its agent has
//	I4  no healthy pod is removed by the scheduler or an executor, unless an operator took its agent or framework away
//	I5  no offer is held for ever, and every offer is accounted for
//	I6  an executor ends a task no earlier than the pod's containers have stopped
//	I7  nothing panics, nothing races, nothing waits for ever
package chaos
