// SPDX-License-Identifier: Apache-2.0

// Package mesossim is a Mesos cluster on loopback: one or more masters with the v1 scheduler and operator APIs over
// HTTP, and agents that run real executor processes (or synthetic ones, which are a script of task states and cost no
// process). It follows Mesos 1.12 to the word: what a real master refuses is refused with its status and text, and
// what a real master drops silently is dropped silently.
//
//	cluster, err := mesossim.Start(ctx, mesossim.Options{
//		Agents: []mesossim.AgentOptions{
//			{Name: "agent-1", Resources: "cpus:8;mem:16384;disk:100000;ports:[31000-32000]", Attributes: "rack:r1"},
//			{Name: "agent-2", Synthetic: &mesossim.Script{}},
//		},
//	})
//	if err != nil { ... }
//	defer cluster.Close()
//	scheduler := start(cluster.URL()) // "127.0.0.1:port" of the leading master
//
//	err = cluster.Wait(ctx, func() bool { return len(cluster.LiveTasks()) == 12 })
//	cluster.Agent("agent-1").Kill()    // SIGKILL of the agent process; its executors live on
//	cluster.Agent("agent-1").Restart() // back with the same id
//	for _, task := range cluster.Tasks() { fmt.Println(task.ID, task.Agent, task.State, task.History) }
//
// # State
//
// Everything that a test asserts comes from the records of the master and the agents: [Cluster.Tasks] (with the history
// of all their states, never forgotten), [Cluster.Frameworks], [Cluster.Offers], [Cluster.Agents],
// [Cluster.Executors] (with process ids) and [Cluster.Counters]. They return copies and may be called at any time.
// [Cluster.Wait] re-evaluates a condition whenever the state has changed.
//
// # Time
//
// Every delay is a field of [Timing]; its zero value means the default of Mesos. With [Options.Clock] set to a
// [TestClock] no timer fires but by TestClock.Advance.
//
// # Faults
//
// [AgentHandle] ends, stops, restarts, replaces and cuts off agents; [Cluster.FailOver] changes the leader;
// [Cluster.Faults] cuts and silences streams, loses, delays and doubles updates and calls.
package mesossim
