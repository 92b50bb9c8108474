// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Amounts are resources as numbers: cpus in shares of a core, mem and disk in MiB.
type Amounts struct {
	CPUs, Mem, Disk, GPUs float64
	// Ports are the ranges of port numbers, in order.
	Ports []PortRange
	// Raw is the same as the master holds it, with reservations and allocation.
	Raw []mesos.Resource
}

// A PortRange is all numbers from Begin to End, both included.
type PortRange struct{ Begin, End uint64 }

// A Task is what the cluster knows of a task that a framework tried to launch. Ended tasks stay listed for ever.
type Task struct {
	ID, Name    string
	FrameworkID string
	// Agent is the name and AgentID the id of the agent.
	Agent, AgentID string
	ExecutorID     string
	// State is what the master holds: the latest state that an agent told it, or what it made up itself.
	State mesos.TaskState
	// Removed says that the task is no longer in the master's table: its end was acknowledged, or its agent or framework is gone.
	Removed bool
	// Lost is when it was clear that neither a master nor an agent knows the task: its launch got lost, and then the master
	// that had sent it ended; or the agent's work folder was wiped. It is zero while somebody may know it.
	Lost      time.Time
	Resources Amounts
	// Limits are TaskInfo.limits by the name of the resource; a limit may be infinite.
	Limits map[string]float64
	Labels map[string]string
	Data   []byte
	// Launched is when the master accepted it; zero if it refused it.
	Launched time.Time
	// History lists every change, oldest first.
	History []Transition
}

// Live says whether the task may still run: it was launched, has not ended, and somebody knows it.
func (t Task) Live() bool { return !t.Launched.IsZero() && !terminal(t.State) && t.Lost.IsZero() }

// A Transition is one state that a task took.
type Transition struct {
	At time.Time // when the master heard of it
	// Said is the time that the update itself names; zero if it names none. An agent keeps an update back until the one before is
	// acknowledged.
	Said    time.Time
	State   mesos.TaskState
	Source  string // SOURCE_MASTER, SOURCE_AGENT or SOURCE_EXECUTOR; empty if no update told it
	Reason  string // as REASON_..., empty if none
	Message string
	// Delivered says that an update with this state was written to a stream of the framework.
	Delivered bool
	// Acknowledged says that the framework acknowledged it.
	Acknowledged bool
}

// A Framework is what the leading master knows of a framework.
type Framework struct {
	ID   string
	Info mesos.FrameworkInfo
	// Connected: a stream is open. Active: it gets offers. Recovered: known only from agents, after a master failover.
	Connected, Active, Recovered bool
	// Removed frameworks cannot subscribe again.
	Removed         bool
	StreamID        string
	SuppressedRoles []string
	Registered      time.Time
	Reregistered    time.Time
	// Subscribes counts SUBSCRIBE calls that were accepted.
	Subscribes int
}

// An Offer is an outstanding offer.
type Offer struct {
	ID, FrameworkID, Agent, AgentID, Role string
	Resources                             Amounts
	Made                                  time.Time
}

// An AgentState is what the cluster knows of an agent.
type AgentState struct {
	Name, ID, Hostname string
	// Endpoint is the address of the executor API, empty for synthetic agents.
	Endpoint string
	// Running: the agent process runs. Stopped: by SIGSTOP. Registered, Connected, Unreachable, Gone, Deactivated, Draining: at
	// the leading master.
	Running, Stopped, Registered, Connected, Unreachable, Gone, Deactivated, Draining bool
	Total, Used, Offered, Free                                                        Amounts
}

// An Executor is an executor of an agent.
type Executor struct {
	ID, FrameworkID, Agent string
	ContainerID            string
	// Pid is the process id, also the process group's; 0 for synthetic executors.
	Pid int
	// State is REGISTERING, RUNNING, TERMINATING or TERMINATED.
	State string
	// Connected says that its event stream is open.
	Connected bool
	// Tasks are the ids of the tasks queued for it or launched on it and not ended.
	Tasks []string
	// Directory is its sandbox; its output is in stdout and stderr there.
	Directory string
}

// Counters count since the start of the cluster, over all leaders.
type Counters struct {
	// Offers made, and what became of them. Made = Accepted + Declined + Rescinded + Lost + Invalidated + outstanding. Lost were taken back
	// because their framework disconnected, failed over or was removed; Invalidated were named in an invalid ACCEPT.
	OffersMade, OffersAccepted, OffersDeclined, OffersRescinded, OffersLost, OffersInvalidated int
	// Calls counts scheduler calls that were answered 2xx, by type ("REVIVE", "SUPPRESS", ...); Refused those that were not.
	Calls, Refused map[string]int
	// TasksLaunched counts tasks that passed validation.
	TasksLaunched int
	// Updates counts status updates written to frameworks, by state.
	Updates map[string]int
	// Acknowledged counts acknowledgements that reached the agent and were new.
	Acknowledged int
	// Allocations counts runs of the allocator.
	Allocations int
}
