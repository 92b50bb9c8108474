// SPDX-License-Identifier: Apache-2.0

// Package perf measures the product as a whole and prints one line a measurement, mostly as ratios in one run. No figure is
// asserted: they depend on the machine and on what else it does.
//
//	path:     create -> TASK_RUNNING and bound, real API server and scheduler process, few and many agents
//	ceiling:  the plugin's own part (ledger, launcher, session) against a bare client, the simulator a process of its own
//	latency:  one pod at a time while idle, against the same launch by a bare client
//	economy:  what a second framework gets, and what we hold and ask for
//	recovery: a restart with many bound pods
//	scale:    10,000 agents and 100,000 tasks in one process against a tenth of that (make bench-scale)
//
// throughput/ compares with stock kube-scheduler.
package perf
