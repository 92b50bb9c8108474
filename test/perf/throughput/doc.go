// SPDX-License-Identifier: Apache-2.0

// Package throughput measures the scheduler with the plugin against stock kube-scheduler, on kube-scheduler's own
// benchmark harness (test/integration/scheduler_perf). Each workload runs stock and with Mesos in turns, several pairs,
// each run in a process of its own with a fresh etcd and API server; the figures are medians, and the ratio is that of
// the pairs' ratios. The Mesos cluster is
// bin/mesos-sim, a process of its own too, with one agent for each node. Stock is the default profile without preemption
// and default spreading, as in the profile that the product ships. With Mesos it is that shipped profile: Mesos ranks the
// nodes in place of NodeResourcesFit and NodeResourcesBalancedAllocation, which do not score there.
//
// A pod counts when it is bound and, with Mesos, its task runs. One line a workload:
//
//	throughput: workload=<w> nodes=<n> pods=<p> stock=<pods/s> mesos=<pods/s> ratio=<r>
//
// It is a module of its own because the harness needs the API server's modules, which the product does not. Run it from
// its folder, or all with `make bench`:
//
//	PATH=$PWD/../../../.tools:$PATH go test -run TestThroughput -v -timeout=60m . [-args -workloads=basic-500 -pairs=3]
package throughput
