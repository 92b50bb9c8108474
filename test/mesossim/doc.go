// SPDX-License-Identifier: Apache-2.0

// Package mesossim is a Mesos cluster on loopback: one or more masters with the v1 scheduler and operator APIs over
// HTTP, and agents that run real executor processes (or synthetic ones, which are a script of task states and cost no
// process). It follows Mesos 1.12 to the word: what a real master refuses is refused with its status and text, and
// what a real master drops silently is dropped silently. Recordings of a real one are replayed against it (see
// Conformance).
//
//	cluster, err := mesossim.Start(ctx, mesossim.Options{
//		Agents: []mesossim.AgentOptions{
//			{Name: "agent-1", Resources: "cpus:8;mem:16384;disk:100000;ports:[31000-32000]", Attributes: "rack:r1"},
//			{Name: "agent-2", Synthetic: &mesossim.Script{}},
//		},
//	})
//	if err != nil { ... }
//	defer cluster.Close() // ends every executor's process group too
//	scheduler := start(cluster.URL()) // "127.0.0.1:port" of the leading master
//
//	err = cluster.Wait(ctx, func() bool { return cluster.CountLive() == 12 })
//	cluster.Agent("agent-1").Kill()    // SIGKILL of the agent process; its executors live on
//	cluster.Agent("agent-1").Restart() // back with the same id
//	for _, task := range cluster.Tasks() { fmt.Println(task.ID, task.Agent, task.State, task.History) }
//
// # State
//
// Everything that a test asserts comes from the records of the master and the agents: [Cluster.Tasks] (with the history
// of all their states, never forgotten), [Cluster.LiveTasks], [Cluster.Frameworks], [Cluster.Offers], [Cluster.Agents],
// [Cluster.Executors] (with process ids) and [Cluster.Counters]. They return copies and may be called at any time.
// [Cluster.Wait] evaluates a condition again whenever the state has changed.
//
// # Executors
//
// By default an agent starts the command of ExecutorInfo in a sandbox, in a process group of its own, with the environment
// that a real agent gives, and with stdout and stderr as files in the sandbox ([Executor.Directory]). [AgentOptions.Launcher]
// replaces that. [AgentOptions.Synthetic] (or [Options.Synthetic] for all) answers for executors without any process; the
// zero [Script] says TASK_STARTING and TASK_RUNNING at once and TASK_KILLED after a KILL. Command tasks and the default
// executor of task groups are played by the agent itself.
//
// # Time
//
// Every delay is a field of [Timing]; its zero value means the default of Mesos. With [Options.Clock] set to a
// [TestClock] no timer fires but by TestClock.Advance.
//
// # Faults
//
// [AgentHandle] ends, stops, restarts, replaces, cuts off and slows down agents, and kills executors; [Cluster.FailOver]
// changes the leader (with or without its registry); [Cluster.Faults] cuts, chops and silences streams, loses, delays and
// doubles updates and calls, loses launches, and rescinds offers; [Cluster.StartRival] runs a framework that competes
// for offers. [Cluster.ServeControl] offers the same over HTTP, and so does the command mesos-sim with --control:
//
//	curl 127.0.0.1:5056/state
//	curl 127.0.0.1:5056/fault -d '{"action": "fail-over", "wipeRegistry": true}'
//	curl 127.0.0.1:5056/fault -d '{"action": "call", "call": "ACCEPT", "what": "loseAnswer"}'
//
// # Conformance
//
// testdata/recordings holds what a real Mesos 1.12 said. TestConformanceRecorded replays each file with a clock of its own
// and compares status codes, headers, events with all their fields, and their order and delays; TestConformanceInProtobuf
// does the same in protobuf; TestConformanceDescribed holds the scenarios that nobody recorded. A verbose run ends with
//
//	conformance: 115 of 115 recorded, 15 of 15 described
//
// With MESOS_URL set TestConformanceReal compares a real master with those recordings that can be repeated from outside.
//
// # Where it is not Mesos
//
// Two calls that make a real master abort are refused or ignored: a call of type UNKNOWN, and TASK_UNREACHABLE or
// TASK_UNKNOWN from an executor. Offer constraints are read from JSON calls only. Operations other than launches are done
// at once and keep no status; resource providers, CSI, images and isolators do not exist; the fetcher only looks
// whether local files are there.
package mesossim
