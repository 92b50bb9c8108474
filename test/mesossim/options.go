// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"crypto/tls"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Options describes a cluster. The zero value is one master without agents.
type Options struct {
	// Listen is the address of the first master, "127.0.0.1:0" by default. Further masters take free ports of the host.
	Listen string
	// Masters is the number of masters, 1 by default. The first leads; the others answer 307 until FailOver.
	Masters int
	// Agents are started with the cluster; AddAgent adds more.
	Agents []AgentOptions
	// WorkDir holds the sandboxes of executors. By default it is a temporary folder that Close removes.
	WorkDir string
	// Synthetic is the script for agents that name none. Nil means that these agents run real processes.
	Synthetic *Script
	// Timing holds every delay.
	Timing Timing
	// Clock is the source of time, the system's by default.
	Clock Clock
	// Seed makes the random order of agents in allocation runs repeatable. 0 means 1.
	Seed int64

	// Roles is the master's --roles white list; empty allows any role.
	Roles []string
	// Weights are the role weights of the allocator, 1 by default.
	Weights map[string]float64
	// Quota holds limits by role, as resource text such as "cpus:4;mem:1024".
	Quota map[string]string
	// NoRootSubmissions is --no-root_submissions.
	NoRootSubmissions bool
	// Credentials, when not empty, are the principals and secrets of frameworks, which then must authenticate by HTTP Basic.
	Credentials map[string]string
	// MinAllocatable is --min_allocatable_resources, "cpus:0.01|mem:32" by default.
	MinAllocatable string
	// Region and Zone are the fault domain of the master; empty means none.
	Region, Zone string
	// Hostname is the host name in MasterInfo, the IP by default.
	Hostname string

	// OnProcess, if set, is told of every process group that the default launcher starts, and of its end.
	OnProcess func(pid int, alive bool)
}

// Timing holds the delays of the cluster. A zero field means the default of Mesos, given in brackets.
type Timing struct {
	AllocationInterval time.Duration // pause between two batch runs of the allocator [1s]
	OfferTimeout       time.Duration // an offer not answered by then is rescinded [never]
	Heartbeat          time.Duration // of scheduler and operator streams [15s]
	PingTimeout        time.Duration // agent_ping_timeout [15s]
	MaxPingTimeouts    int           // pings missed before an agent is unreachable [5]
	AgentReregister    time.Duration // agent_reregister_timeout [10m]

	AgentStart           time.Duration // a restarted agent process refuses connections for 75 % of this, then answers 404 and at last 503 [195ms]
	RegistrationBackoff  time.Duration // an agent registers this long after it is ready or has lost the master [750ms at a restart, 0 at the first start; a real one draws up to 1s]
	ExecutorRegistration time.Duration // executor_registration_timeout [1m]
	ExecutorReregister   time.Duration // executor_reregistration_timeout [2s]
	ExecutorShutdown     time.Duration // executor_shutdown_grace_period [5s]
	RecoveryTimeout      time.Duration // recovery_timeout, told to executors [15m]
	SubscriptionBackoff  time.Duration // told to executors as MESOS_SUBSCRIPTION_BACKOFF_MAX [2s]
	ContainerDestroy     time.Duration // until an executor that did not re-register is seen to be dead [1.35s]
	UpdateRetryMin       time.Duration // first resend of an unacknowledged status update [10s]
	UpdateRetryMax       time.Duration // longest pause between resends [10m]

	// MasterDetection is the time that an agent needs to notice a new leader. With ZooKeeper that is nothing; an agent of a
	// stand-alone master notices by the lack of pings.
	MasterDetection time.Duration // [0]
	// MasterRecovery is the time for which a master that begins to lead answers 503.
	MasterRecovery time.Duration // [0]
	// NetworkDelay is added to every message between master and agents, in both directions.
	NetworkDelay time.Duration // [0]
}

// AgentOptions describes one agent.
type AgentOptions struct {
	// Name names the agent in this package, and is its host name unless Hostname is set.
	Name string
	// Hostname is what AgentInfo.hostname and Offer.hostname say.
	Hostname string
	// Listen is the address of the agent's executor API, "127.0.0.1:0" by default. Synthetic agents do not listen.
	Listen string
	// TLS, if set, makes the executor API take https only (LIBPROCESS_SSL_ENABLED without _SUPPORT_DOWNGRADE). A real agent
	// says nothing of it to executors either: that is for ExecutorEnvironment, or for the framework.
	TLS *tls.Config
	// Resources is text in Mesos' own form: "cpus:8;mem:16384;disk:10000;ports:[31000-32000]", reservations as "cpus(role):2",
	// revocable ones as "cpus{REV}:2". Empty means cpus:8;mem:16384;disk:100000;ports:[31000-32000].
	Resources string
	// Attributes is text such as "rack:r1;level:10;slots:[1-4]".
	Attributes string
	// Region and Zone are the agent's fault domain; empty means none.
	Region, Zone string
	// Isolation names the isolators that the agent has loaded (--isolation). Those that change what a framework sees are
	// cgroups/cpu and cgroups/mem: with them it takes tasks with limits of cpus and mem (TaskInfo.limits), which it else refuses.
	Isolation []string
	// Synthetic, if set, makes the agent answer for its executors without any process.
	Synthetic *Script
	// Launcher starts executors, by default as processes in their own process groups.
	Launcher Launcher
	// ExecutorEnvironment replaces PATH and adds to what an executor's environment holds (--executor_environment_variables).
	ExecutorEnvironment map[string]string
	// Delay is added to every message that the agent receives or sends (a slow agent).
	Delay time.Duration
	// ExecutorReregister overrides Timing.ExecutorReregister for this agent.
	ExecutorReregister time.Duration
}

// A Script says how a synthetic executor treats its tasks. The zero value answers a launch with TASK_STARTING and
// TASK_RUNNING, and a KILL with TASK_KILLED, all at once.
type Script struct {
	// Launch are the states after a launch; nil means STARTING, RUNNING.
	Launch []Step
	// Kill are the states after a KILL; nil means KILLED.
	Kill []Step
	// For, if set, gives the script of a single task and wins over Launch and Kill when it returns true.
	For func(task *mesos.TaskInfo) (Script, bool)
}

// A Step is one status update of a synthetic executor.
type Step struct {
	// After is the pause before the update, counted from the step before.
	After time.Duration
	// State is what is reported.
	State mesos.TaskState
	// Message is put into the update.
	Message string
}

// Defaults of Mesos.
const (
	defaultResources      = "cpus:8;mem:16384;disk:100000;ports:[31000-32000]"
	defaultMinAllocatable = "cpus:0.01|mem:32"
)

func (t Timing) withDefaults() Timing {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&t.AllocationInterval, time.Second)
	def(&t.Heartbeat, 15*time.Second)
	def(&t.PingTimeout, 15*time.Second)
	if t.MaxPingTimeouts == 0 {
		t.MaxPingTimeouts = 5
	}
	def(&t.AgentReregister, 10*time.Minute)
	def(&t.AgentStart, 195*time.Millisecond)
	def(&t.RegistrationBackoff, 750*time.Millisecond)
	def(&t.ExecutorRegistration, time.Minute)
	def(&t.ExecutorReregister, 2*time.Second)
	def(&t.ExecutorShutdown, 5*time.Second)
	def(&t.RecoveryTimeout, 15*time.Minute)
	def(&t.SubscriptionBackoff, 2*time.Second)
	def(&t.ContainerDestroy, 1350*time.Millisecond)
	def(&t.UpdateRetryMin, 10*time.Second)
	def(&t.UpdateRetryMax, 10*time.Minute)
	return t
}

func (o Options) withDefaults() Options {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Masters <= 0 {
		o.Masters = 1
	}
	if o.MinAllocatable == "" {
		o.MinAllocatable = defaultMinAllocatable
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	o.Timing = o.Timing.withDefaults()
	return o
}
