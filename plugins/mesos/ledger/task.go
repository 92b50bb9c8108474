// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// State is how far a pod's hold on Mesos resources has come.
type State int

const (
	// Claimed: room is set aside in the ledger; nothing was sent to Mesos.
	Claimed State = iota
	// Launching: an ACCEPT with the task is on its way or answered; no status has come.
	Launching
	// Unclear: the ACCEPT's answer was lost. The task may exist. It is settled by an answer after a fence.
	Unclear
	// Restored: a record on a bound pod names the task; Mesos has not confirmed it since this process leads.
	Restored
	// Starting: the executor has the task.
	Starting
	// Running: the pod runs.
	Running
	// Unreachable: the master cannot reach the agent, or does not know the task at present. The task may live.
	Unreachable
	// Unheld: the pod is bound and has no task. Its need is charged to its node until a new task holds it or it stops.
	Unheld
	// Terminal: the task has ended, and the pod with it.
	Terminal
)

// noState is none of them.
const noState State = -1

var stateNames = [...]string{"Claimed", "Launching", "Unclear", "Restored", "Starting", "Running", "Unreachable", "Unheld", "Terminal"}

func (s State) String() string { return stateNames[s] }

// Live says whether a Binding may be sent: the executor has the task and nothing bad was heard of it.
func (s State) Live() bool { return s == Starting || s == Running }

// Sent says whether Mesos may know the task.
func (s State) Sent() bool { return s >= Launching && s <= Unreachable }

// charged says whether the ledger itself must keep the need out of the agent's headroom: Mesos does not yet, or no
// longer.
func (s State) charged() bool { return s == Claimed || s == Unheld }

// Pod is what the ledger knows of a pod.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	Priority        int32
	Created         time.Time
	Grace           time.Duration
	// Gang is the UID of the pod's group if its claim is to be held by a reservation, else "".
	Gang string
}

// Task is a pod's hold on Mesos resources, from the claim to the end. Its fields are copies; only the ledger writes them.
type Task struct {
	Pod
	Need    resources.Need
	AgentID string
	Node    string
	// ID is the Mesos task id of the present attempt; "" until the first ACCEPT.
	ID         string
	ExecutorID string
	State      State
	// Bound says that the pod is bound to Node and that we did it.
	Bound bool
	// KillSince is when the task was first to be killed, zero if it is not; KillGrace goes into the KILL, nil stands for
	// the pod's own grace.
	KillSince time.Time
	KillGrace *time.Duration
	// PodGone is when the pod was seen to be deleted or complete, zero while it is there.
	PodGone time.Time
	// RescindedAt is when an offer that the claim stood on was withdrawn.
	RescindedAt time.Time
	// ClaimedAt is when the present claim was made.
	ClaimedAt time.Time
	// ChangedAt is when State last changed.
	ChangedAt time.Time
	// Last is the last status that changed the task; it says why a task ended.
	Last Status
	// Answered says that Mesos has said something of the task since the present subscription.
	Answered bool
	// Offers are the ids that the attempt's ACCEPT named, for the fence of an Unclear one.
	Offers []string
	// Attempts counts the ACCEPTs that named the pod, Refusals those of them that were not processed.
	Attempts, Refusals int

	// accepted says that the master has processed the ACCEPT, or can no longer do so: its word on the task counts.
	accepted bool
	killSent time.Time
	watch    chan<- struct{} // who waits for a change of the record; nil if nobody does
	// tentative says that the claim only tries whether a gang fits: see Try.
	tentative bool
}

// Status is what a Mesos update says, without what is only transport.
type Status struct {
	State   mesos.TaskState
	Source  mesos.TaskStatus_Source
	Reason  mesos.TaskStatus_Reason
	HasWhy  bool // Reason is set
	Message string
}

// String writes a status for a person: `TASK_FAILED (REASON_EXECUTOR_TERMINATED): Executor terminated`.
func (s Status) String() string {
	out := s.State.String()
	if s.HasWhy {
		out += " (" + s.Reason.String() + ")"
	}
	if s.Message != "" {
		out += ": " + s.Message
	}
	return out
}

// changed wakes who waits for the task.
func (t *Task) changed() {
	if t.watch == nil {
		return
	}
	select {
	case t.watch <- struct{}{}:
	default: // it has yet to see the change before
	}
	t.watch = nil
}

// move changes the state of a task and keeps the charge on its pool in step.
func (l *Ledger) move(t *Task, to State) {
	if t.State == to {
		return
	}
	a := l.agents[t.AgentID]
	if a != nil && t.State.charged() != to.charged() {
		p := a.pool(poolOf(t.Need))
		if to.charged() {
			p.charge(t.Need)
			l.touch(a)
		} else {
			p.discharge(t.Need)
			l.grow(a)
		}
	}
	from, since := t.State, t.ChangedAt
	t.State, t.ChangedAt = to, l.options.Clock.Now()
	l.count(t, from, to)
	l.observe(Moved, t, from, since)
	if to == Unclear {
		l.heed[t.UID] = t
	}
	if a != nil && t.ID != "" {
		if to.Sent() {
			a.tasks[t.ID] = t
		} else {
			delete(a.tasks, t.ID)
		}
	}
	if from != Claimed || to != Launching { // that a claim is on its way is what who waits for it expects
		t.changed()
	}
}

// count keeps the number of records by state, and the sets of claims and of launches in flight, when a record goes from one
// state to another; noState stands for no record.
func (l *Ledger) count(t *Task, from, to State) {
	if from != noState {
		l.counts[from]--
	}
	if to != noState {
		l.counts[to]++
	}
	switch {
	case from.Sent() == to.Sent():
	case to.Sent() && !t.Bound:
		l.inFlight[t.UID] = t
	default:
		delete(l.inFlight, t.UID)
	}
	switch Claimed {
	case from:
		delete(l.claims, t.UID)
	case to:
		l.claims[t.UID] = t
	}
}

// heeded returns the records that time alone may ask something for: those to be killed, those whose pod is gone, and
// launches that have to be fenced. They are few, whatever runs.
func (l *Ledger) heeded() map[types.UID]*Task {
	for uid, t := range l.heed {
		if t.KillSince.IsZero() && t.PodGone.IsZero() && t.State != Unclear {
			delete(l.heed, uid)
		}
	}
	return l.heed
}

// Counts returns the number of records by state.
func (l *Ledger) Counts() [Terminal + 1]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// forget drops a record and everything that leads to it.
func (l *Ledger) forget(t *Task) {
	if a := l.agents[t.AgentID]; a != nil {
		if t.State.charged() {
			a.pool(poolOf(t.Need)).discharge(t.Need)
			l.grow(a)
		}
		delete(a.tasks, t.ID)
		l.release(a)
	}
	if l.pods[t.UID] == t {
		delete(l.pods, t.UID)
		delete(l.heed, t.UID)
		l.count(t, t.State, noState)
	}
	if t.ID != "" {
		delete(l.tasks, t.ID)
	}
	from, since := t.State, t.ChangedAt
	t.State = Terminal
	l.observe(Dropped, t, from, since)
	t.changed()
}

// release forgets an agent that the master has removed and that nothing names any more.
func (l *Ledger) release(a *agent) {
	if !a.gone || len(a.tasks) > 0 || len(a.offers) > 0 {
		return
	}
	for _, p := range a.pools {
		if !p.claimed.IsZero() || len(p.ports) > 0 {
			return
		}
	}
	delete(l.agents, a.id)
	kept := l.byNode[a.node][:0:0]
	for _, other := range l.byNode[a.node] {
		if other != a {
			kept = append(kept, other)
		}
	}
	if len(kept) == 0 {
		delete(l.byNode, a.node)
	} else {
		l.byNode[a.node] = kept
	}
	l.touch(a)
}

// Task returns the record of a pod; ok is false if there is none.
func (l *Ledger) Task(uid types.UID) (Task, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.pods[uid]; t != nil {
		return *t, true
	}
	return Task{}, false
}

// Watch returns the record of a pod and, unless its task lives, sends on wake, which should have room for one, when it next
// changes; that a claim begins to be launched is no change. One at a time may watch a pod: a later one takes the place of the one
// before. ok is false if there is no record.
func (l *Ledger) Watch(uid types.UID, wake chan<- struct{}) (_ Task, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.pods[uid]
	if t == nil {
		return Task{}, false
	}
	if !t.State.Live() {
		t.watch = wake
	}
	return *t, true
}

// Tasks returns the records of all pods.
func (l *Ledger) Tasks() []Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Task, 0, len(l.pods))
	for _, t := range l.pods {
		out = append(out, *t)
	}
	return out
}

// DefaultGrace is Kubernetes' default for terminationGracePeriodSeconds.
const DefaultGrace = 30 * time.Second

// GraceOf turns terminationGracePeriodSeconds into a duration that cannot overflow.
func GraceOf(seconds int64) time.Duration {
	const most = int64(1 << 31)
	return time.Duration(max(0, min(seconds, most))) * time.Second
}
