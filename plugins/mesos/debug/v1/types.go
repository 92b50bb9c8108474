// SPDX-License-Identifier: Apache-2.0

// Package v1 is what the scheduler's debug API answers. Fields are added, never renamed or given another meaning; a change
// that breaks a client gets a new version. It is data only, so that clients need nothing of the scheduler.
package v1

import (
	"strconv"
	"strings"
	"time"
)

// APIVersion stands in every answer.
const APIVersion = "debug.kube-mesos.io/v1"

// Root is the path of everything in this version.
const Root = "/mesos/v1"

// TokenHeader carries a bearer token through the API server's pod proxy, which drops the header Authorization.
const TokenHeader = "X-Kube-Mesos-Token"

// Kind says what an answer is.
type Kind struct {
	// APIVersion is debug.kube-mesos.io/v1.
	APIVersion string `json:"apiVersion"`
	// Kind is the name of the answer's type.
	Kind string `json:"kind"`
}

// Amounts are scalar resources: cpus in cores, mem and disk in MiB, gpus in devices. They are exact to a thousandth.
type Amounts struct {
	// CPUs are in cores.
	CPUs float64 `json:"cpus"`
	// Mem is in MiB.
	Mem float64 `json:"mem"`
	// Disk is in MiB.
	Disk float64 `json:"disk"`
	// GPUs are devices.
	GPUs float64 `json:"gpus"`
}

// Status is how the scheduler and its framework are.
type Status struct {
	Kind `json:",inline"`
	// Version is the build of the scheduler, and KubernetesVersion the kube-scheduler that it is.
	Version           string `json:"version"`
	KubernetesVersion string `json:"kubernetesVersion"`
	// Time is when the answer was made, by the scheduler's clock.
	Time time.Time `json:"time"`
	// Started is when the process began.
	Started time.Time `json:"started"`
	// Leading says whether this process runs the framework. One that stands by knows nothing of Mesos.
	Leading bool `json:"leading"`
	// Phase is standby, connecting, subscribed, framework removed or failed over; PhaseSince is when it began.
	Phase      string    `json:"phase"`
	PhaseSince time.Time `json:"phaseSince,omitzero"`
	// Framework is the name and FrameworkID the id of the Mesos framework.
	Framework   string `json:"framework"`
	FrameworkID string `json:"frameworkId"`
	// Master is the address of the master that the framework is subscribed with.
	Master string `json:"master"`
	// Problem is the last error, empty while all is well.
	Problem string `json:"problem,omitempty"`
	// Reconciled says whether the master has said since this process leads which tasks are alive. No pod is scheduled before.
	Reconciled bool `json:"reconciled"`
	// LastEvent is when the master last sent something.
	LastEvent time.Time `json:"lastEvent,omitzero"`
	// RemovalsStopped is when a protective stop on the removal of pods began, absent if there is none; Release says how to end it.
	RemovalsStopped time.Time `json:"removalsStopped,omitzero"`
	Release         string    `json:"release,omitempty"`
	// Roles are the roles that the framework takes offers for.
	Roles []Role `json:"roles"`
	// Offers counts what became of offers.
	Offers Fates `json:"offers"`
	// Tasks counts the records of pods by state.
	Tasks map[string]int `json:"tasks"`
	// Strangers is the number of live tasks of the framework that no pod is known for.
	Strangers int `json:"strangers"`
	// Agents is the number of known agents.
	Agents int `json:"agents"`
	// Waiting counts the pods that wait for offers by reason.
	Waiting map[string]int `json:"waiting"`
	// Args are the plugin's arguments with passwords and values of environment variables left out.
	Args map[string]any `json:"args,omitempty"`
}

// Role is a Mesos role of the framework.
type Role struct {
	// Name is the name of the role.
	Name string `json:"name"`
	// Suppressed says whether the master was asked to send no offers for it, since no pod waits.
	Suppressed bool `json:"suppressed"`
	// Revived is when offers were last asked for, and Answered when some last came.
	Revived  time.Time `json:"revived,omitzero"`
	Answered time.Time `json:"answered,omitzero"`
	// SilentSince is since when nothing was offered although it may be, absent while something is: others use the agents, or a
	// quota of the role is used up.
	SilentSince time.Time `json:"silentSince,omitzero"`
}

// Fates count offers: received = held + accepted + declined + rescinded + lost.
type Fates struct {
	Received  int64 `json:"received"`
	Held      int64 `json:"held"`
	Accepted  int64 `json:"accepted"`
	Declined  int64 `json:"declined"`
	Rescinded int64 `json:"rescinded"`
	// Lost offers died with their subscription.
	Lost int64 `json:"lost"`
}

// List says how much of a list an answer holds.
type List struct {
	// Total is the number of items that match, and Truncated says that not all of them are here: see the parameter limit.
	Total     int  `json:"total"`
	Truncated bool `json:"truncated,omitempty"`
}

// OfferList is the answer to /offers: the offers in hand.
type OfferList struct {
	Kind  `json:",inline"`
	List  `json:",inline"`
	Items []Offer `json:"items"`
}

// Offer is an offer in hand.
type Offer struct {
	ID      string `json:"id"`
	AgentID string `json:"agentId"`
	Node    string `json:"node"`
	Role    string `json:"role"`
	// AgeSeconds is how long it has been held.
	AgeSeconds float64 `json:"ageSeconds"`
	// Amounts are regular resources, Revocable ones that Mesos may take back.
	Amounts   Amounts `json:"amounts"`
	Revocable Amounts `json:"revocable"`
	// Ports are the offered ranges, as Mesos writes them.
	Ports string `json:"ports"`
	// Claimed says that claims of pods stand on it, so that it is not declined.
	Claimed bool `json:"claimed"`
	// Trouble says why it is not used, empty if it may be.
	Trouble string `json:"trouble,omitempty"`
}

// AgentList is the answer to /agents.
type AgentList struct {
	Kind  `json:",inline"`
	List  `json:",inline"`
	Items []Agent `json:"items"`
}

// Agent is a Mesos agent that has made an offer, or runs a task of ours.
type Agent struct {
	ID       string `json:"id"`
	Hostname string `json:"hostname"`
	// Node is the Kubernetes node of the same host; Serves says that its room comes from this agent.
	Node   string `json:"node"`
	Serves bool   `json:"serves"`
	// Trouble is unreachable, draining, ambiguous or failing, empty if there is none; Gone says that the master has removed the agent.
	Trouble string `json:"trouble,omitempty"`
	Gone    bool   `json:"gone,omitempty"`
	// MaintenanceStart is the start of its maintenance window, MaintenanceSeconds its length, 0 for one without end.
	MaintenanceStart   time.Time `json:"maintenanceStart,omitzero"`
	MaintenanceSeconds float64   `json:"maintenanceSeconds,omitempty"`
	// Attributes are the agent's, as Mesos writes them, and Region and Zone its fault domain.
	Attributes map[string]string `json:"attributes,omitempty"`
	Region     string            `json:"region,omitempty"`
	Zone       string            `json:"zone,omitempty"`
	// Offers and Tasks are numbers.
	Offers int `json:"offers"`
	Tasks  int `json:"tasks"`
	// Offered is what is on offer, Claimed what pods without a task hold of that, Running what tasks of ours hold.
	Offered Amounts `json:"offered"`
	Claimed Amounts `json:"claimed"`
	Running Amounts `json:"running"`
	// LastOffered is what was on offer when an offer last came, at LastOfferedAt: it may have been declined since.
	LastOffered   Amounts   `json:"lastOffered"`
	LastOfferedAt time.Time `json:"lastOfferedAt,omitzero"`
	// Most is the most that was seen of the agent: offered and held by us at one time.
	Most Amounts `json:"most"`
	// Overcommit is what the agent and pods outside Mesos together have too much of on the node, absent if nothing; Advice says
	// what to change.
	Overcommit *Amounts `json:"overcommit,omitempty"`
	Advice     string   `json:"advice,omitempty"`
	// Pools are the room by role.
	Pools []Pool `json:"pools,omitempty"`
}

// Pool is the room of an agent for one role, of regular or of revocable resources.
type Pool struct {
	Role      string  `json:"role"`
	Revocable bool    `json:"revocable,omitempty"`
	Offered   Amounts `json:"offered"`
	Claimed   Amounts `json:"claimed"`
	// Headroom is what new pods may claim. It may be negative for a moment.
	Headroom Amounts `json:"headroom"`
	// Ports are free ranges, as Mesos writes them.
	Ports string `json:"ports"`
	// Executor is the id of the executor that new tasks use, empty if the next launch starts one.
	Executor string `json:"executor,omitempty"`
}

// TaskList is the answer to /tasks.
type TaskList struct {
	Kind  `json:",inline"`
	List  `json:",inline"`
	Items []Task `json:"items"`
}

// Task is a pod's hold on Mesos resources, from its claim to its end.
type Task struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is Claimed, Launching, Unclear, Restored, Starting, Running, Unreachable, Unheld or Terminal; StateSince is when it began.
	State      string    `json:"state"`
	StateSince time.Time `json:"stateSince"`
	// TaskID is the id of the Mesos task, empty before the first launch.
	TaskID     string `json:"taskId"`
	AgentID    string `json:"agentId"`
	ExecutorID string `json:"executorId"`
	Node       string `json:"node"`
	Role       string `json:"role"`
	// Amounts and Ports are what it holds.
	Amounts Amounts `json:"amounts"`
	Ports   []int32 `json:"ports,omitempty"`
	// Bound says that the pod is bound to the node with this task.
	Bound bool `json:"bound"`
	// Status, Reason and Message are the last that Mesos said of it.
	Status  string `json:"status,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Attempts counts the launches that named the pod.
	Attempts int `json:"attempts"`
	// KillSince is when the task was first to be killed, and PodGone when its pod was seen to be gone.
	KillSince time.Time `json:"killSince,omitzero"`
	PodGone   time.Time `json:"podGone,omitzero"`
}

// PodList is the answer to /pods: the pods that wait, those of higher priority first.
type PodList struct {
	Kind  `json:",inline"`
	List  `json:",inline"`
	Items []WaitingPod `json:"items"`
}

// WaitingPod is a pod that waits for Mesos offers.
type WaitingPod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	Priority  int32     `json:"priority"`
	Since     time.Time `json:"since"`
	Role      string    `json:"role"`
	// Need and Ports are what the pod asks for.
	Need  Amounts `json:"need"`
	Ports []int32 `json:"ports,omitempty"`
	// Reason says in a few words what most nodes lack, Message what is asked for and where it nearly fits, with amounts.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Pod is the answer to /pods/NAMESPACE/NAME: one pod's journey.
type Pod struct {
	Kind      `json:",inline"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Created is when the pod was made.
	Created time.Time `json:"created,omitzero"`
	// Summary says in one sentence where the pod is.
	Summary string `json:"summary"`
	// Role, Need and Ports are what the pod asks for.
	Role  string  `json:"role,omitempty"`
	Need  Amounts `json:"need"`
	Ports []int32 `json:"ports,omitempty"`
	// Task is what holds the pod's resources, absent if nothing does.
	Task *Task `json:"task,omitempty"`
	// Waiting is there while the pod waits, and Verdicts says then for each node what is missing, nearest fit first.
	Waiting  *WaitingPod `json:"waiting,omitempty"`
	Verdicts []Verdict   `json:"verdicts,omitempty"`
	// Steps are what happened to the pod since this process leads. Of a long journey the middle is left out: OmittedSteps.
	Steps        []Step `json:"steps"`
	OmittedSteps int    `json:"omittedSteps,omitempty"`
}

// Verdict says whether a pod fits a node as far as Mesos is concerned.
type Verdict struct {
	Node    string `json:"node"`
	AgentID string `json:"agentId,omitempty"`
	// Fits says that the node's agent has room for the pod. Why is the reason if not.
	Fits bool   `json:"fits"`
	Why  string `json:"why,omitempty"`
	// Free is what new pods of the role may claim there, Offered what is on offer, FreePorts the free ranges.
	Free      Amounts `json:"free"`
	Offered   Amounts `json:"offered"`
	FreePorts string  `json:"freePorts,omitempty"`
	// LastOffered is what was on offer when an offer for the role last came, at LastOfferedAt: it may have been declined since.
	LastOffered   Amounts   `json:"lastOffered"`
	LastOfferedAt time.Time `json:"lastOfferedAt,omitzero"`
	// Matches says whether the pod's own selector, affinity and tolerations allow the node.
	Matches bool `json:"matches"`
}

// Step is one step of a journey.
type Step struct {
	Time time.Time `json:"time"`
	// What is waiting, claimed, found, state, bound, kill, gone, released or event.
	What string `json:"what"`
	// State is the state that was reached; see Task.
	State   string `json:"state,omitempty"`
	Node    string `json:"node,omitempty"`
	AgentID string `json:"agentId,omitempty"`
	TaskID  string `json:"taskId,omitempty"`
	// Status, Reason and Message are what Mesos said, or those of a Kubernetes event.
	Status  string `json:"status,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// EventList is the answer to /events: what happened lately, the newest last.
type EventList struct {
	Kind  `json:",inline"`
	List  `json:",inline"`
	Items []Event `json:"items"`
}

// Event is something that happened.
type Event struct {
	// Seq grows by one with each event of this process; the parameter after takes it.
	Seq int64 `json:"seq"`
	// Namespace and Pod are empty for what is not about a pod.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Step      `json:",inline"`
}

// Series is the answer to /series: samples of the last hour, the newest last.
type Series struct {
	Kind `json:",inline"`
	// StepSeconds is the time between two samples.
	StepSeconds float64  `json:"stepSeconds"`
	Items       []Sample `json:"items"`
}

// Sample is the state at one moment, and rates and latencies since the sample before.
type Sample struct {
	Time    time.Time `json:"time"`
	Offers  int64     `json:"offers"`
	Waiting int       `json:"waiting"`
	Running int       `json:"running"`
	// LaunchesPerSecond counts tasks that got their first status, EndsPerSecond records that were dropped.
	LaunchesPerSecond float64 `json:"launchesPerSecond"`
	EndsPerSecond     float64 `json:"endsPerSecond"`
	// LaunchP50 and LaunchP90 are seconds from the claim to the stored Binding; absent if no pod was bound.
	LaunchP50 *float64 `json:"launchP50,omitempty"`
	LaunchP90 *float64 `json:"launchP90,omitempty"`
	// CPUs that are on offer, claimed and held by tasks.
	OfferedCPUs float64 `json:"offeredCpus"`
	ClaimedCPUs float64 `json:"claimedCpus"`
	RunningCPUs float64 `json:"runningCpus"`
}

// Error is the answer to a request that failed.
type Error struct {
	Kind `json:",inline"`
	// Code is the HTTP status, Message says what is wrong and what would be right.
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Accepted is the answer to a request to do something.
type Accepted struct {
	Kind    `json:",inline"`
	Message string `json:"message"`
}

// String writes the amounts that are not zero as Mesos does: `cpus:0.5;mem:128`.
func (a Amounts) String() string {
	var parts []string
	for _, p := range []struct {
		name  string
		value float64
	}{{"cpus", a.CPUs}, {"mem", a.Mem}, {"disk", a.Disk}, {"gpus", a.GPUs}} {
		if p.value != 0 {
			parts = append(parts, p.name+":"+strconv.FormatFloat(p.value, 'f', -1, 64))
		}
	}
	return strings.Join(parts, ";")
}
