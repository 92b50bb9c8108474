// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"slices"
	"time"
)

// Cgroup is what the cgroups of the host say of a pod's containers.
type Cgroup int

// The answers of a look at the cgroups.
const (
	// CgroupUnknown: not looked at yet.
	CgroupUnknown Cgroup = iota
	// CgroupInvisible: this host shows no cgroups of a kubelet.
	CgroupInvisible
	// CgroupPopulated: processes of the pod exist.
	CgroupPopulated
	// CgroupEmpty: the pod has no cgroup, or no process is in it.
	CgroupEmpty
)

// Config is what the machine is told once. Zero durations mean what the flag of the same name says.
type Config struct {
	// Node is the name of this node.
	Node string
	// BindTimeout is how long a task waits for its pod, counted only while pods can be watched.
	BindTimeout time.Duration
	// ForceDeleteAfter is how long after the end of its grace a pod's object is removed by force; 0 is never.
	ForceDeleteAfter time.Duration
	// KillMargin is how long after the end of its grace a pod whose cgroups cannot be seen counts as stopped.
	KillMargin time.Duration
	// ShutdownGrace is how long the agent waits after SHUTDOWN; 0 if it did not say.
	ShutdownGrace time.Duration
	// Settle is how long after the removal of a pod's object, of which no container was ever seen, its cgroup must be
	// absent: the kubelet may just have been starting it.
	Settle time.Duration
	// Retention is how long ended tasks are remembered.
	Retention time.Duration
	// MaxEnded bounds the number of ended tasks that are remembered.
	MaxEnded int
	// NewUUID returns 16 fresh random bytes.
	NewUUID func() []byte
}

// Delete is a pod that is to be deleted.
type Delete struct {
	// TaskID is the task for whose sake this happens.
	TaskID string
	// Namespace, Name and UID are the pod's; UID is a precondition of the deletion.
	Namespace, Name, UID string
	// Grace is the grace in seconds. It is 0 only if the object is to be removed without the kubelet's word.
	Grace int64
}

// DeleteResult is how a deletion went.
type DeleteResult int

// Results of a deletion.
const (
	// DeleteAccepted: the API server took it.
	DeleteAccepted DeleteResult = iota
	// DeleteGone: there is no pod with this UID.
	DeleteGone
	// DeleteFailed: anything else; it is tried again.
	DeleteFailed
)

// Lookup is the question whether a pod is bound to this node, which the API server itself has to answer: the view of
// the pods may lag behind.
type Lookup struct {
	// TaskID is the task for whose sake this happens.
	TaskID string
	// Namespace and Name are the pod's, empty if they are not known; UID is.
	Namespace, Name, UID string
}

// ReasonReleased is the reason of a Warning about a task that was ended though nobody confirmed that its pod has stopped.
const ReasonReleased = "MesosTaskReleased"

// Warning is something that the owner of a pod should hear of.
type Warning struct {
	Namespace, Name, UID string
	Reason, Message      string
}

// Output is what is to be done after a Step. Changed is to be made durable before anything else happens.
type Output struct {
	// Changed are the tasks whose record changed, Forgotten the ids of those that need no record any more.
	Changed   []*Task
	Forgotten []string
	// Updates are new status updates, in order.
	Updates []*Update
	// Deletes are pods to delete now.
	Deletes []Delete
	// Lookups are pods to look for now.
	Lookups []Lookup
	// Warnings are new warnings.
	Warnings []Warning
	// Wake is when Step wants to be called again, if nothing happens before; zero means never.
	Wake time.Time
}

// Machine holds the executor's tasks. It is not safe for concurrent use.
type Machine struct {
	cfg      Config
	tasks    map[string]*Task    // all that are remembered, by id
	byUID    map[string][]*Task  // the same, by pod UID
	active   map[string]*Task    // those that a Step must look at
	pods     map[string]Pod      // the pods of this node, by UID
	dirty    map[string]*Task    // those whose record changed
	gone     map[string]struct{} // those whose record is to go
	killing  bool                // the framework knows TASK_KILLING
	shutdown bool                // all tasks are to end
	synced   bool                // the view of the pods is current
	seenFor  time.Duration       // how long it has been current, in total
	last     time.Time           // the last Step
	pruned   time.Time           // the last look for tasks to forget
	order    uint64              // the last Task.Order
	seq      uint64              // the last Update.Seq
	out      Output
}

// New returns a machine that goes on with the tasks of an earlier one.
func New(cfg Config, tasks []*Task) *Machine {
	m := &Machine{
		cfg:    cfg,
		tasks:  map[string]*Task{},
		byUID:  map[string][]*Task{},
		active: map[string]*Task{},
		pods:   map[string]Pod{},
		dirty:  map[string]*Task{},
		gone:   map[string]struct{}{},
	}
	slices.SortFunc(tasks, func(a, b *Task) int { return cmp.Compare(a.Order, b.Order) })
	for _, t := range tasks {
		m.add(t)
		m.order = max(m.order, t.Order)
		for _, u := range t.Pending {
			m.seq = max(m.seq, u.Seq)
		}
	}
	return m
}

func (m *Machine) add(t *Task) {
	m.tasks[t.ID] = t
	m.byUID[t.Ref.UID] = append(m.byUID[t.Ref.UID], t)
	m.active[t.ID] = t
	delete(m.gone, t.ID)
}

func (m *Machine) remove(t *Task) {
	delete(m.tasks, t.ID)
	delete(m.active, t.ID)
	delete(m.dirty, t.ID)
	m.gone[t.ID] = struct{}{}
	same := slices.DeleteFunc(m.byUID[t.Ref.UID], func(o *Task) bool { return o == t })
	if len(same) == 0 {
		delete(m.byUID, t.Ref.UID)
		return
	}
	m.byUID[t.Ref.UID] = same
}

func (m *Machine) touch(t *Task) { m.dirty[t.ID] = t }

// Step looks at every task that may have something to do and returns what is to be done. It is to be called after any
// number of inputs, and when the time of the last Output.Wake has come.
func (m *Machine) Step(now time.Time) Output {
	if m.synced && !m.last.IsZero() && now.After(m.last) {
		m.seenFor += now.Sub(m.last)
	}
	m.last = now
	m.out = Output{}
	for _, t := range m.sortedActive() {
		m.advance(t, now)
	}
	m.prune(now)
	for _, t := range m.dirty {
		m.out.Changed = append(m.out.Changed, t)
	}
	slices.SortFunc(m.out.Changed, func(a, b *Task) int { return cmp.Compare(a.Order, b.Order) })
	for id := range m.gone {
		m.out.Forgotten = append(m.out.Forgotten, id)
	}
	slices.Sort(m.out.Forgotten)
	clear(m.dirty)
	clear(m.gone)
	out := m.out
	m.out = Output{}
	return out
}

func (m *Machine) sortedActive() []*Task {
	tasks := make([]*Task, 0, len(m.active))
	for _, t := range m.active {
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, func(a, b *Task) int { return cmp.Compare(a.Order, b.Order) })
	return tasks
}

// wake asks for a Step at t.
func (m *Machine) wake(t time.Time) {
	if m.out.Wake.IsZero() || t.Before(m.out.Wake) {
		m.out.Wake = t
	}
}

// prune forgets ended tasks: those that are acknowledged and old, and the oldest acknowledged ones above the bound.
func (m *Machine) prune(now time.Time) {
	if !m.pruned.IsZero() && now.Sub(m.pruned) < m.cfg.Retention/60 && len(m.tasks)-len(m.active) <= m.cfg.MaxEnded {
		return
	}
	m.pruned = now
	var ended []*Task
	pending := 0
	for id, t := range m.tasks {
		pending += len(t.Pending)
		if _, busy := m.active[id]; !busy && t.Ended() {
			ended = append(ended, t)
		}
	}
	slices.SortFunc(ended, func(a, b *Task) int { return a.EndedAt.Compare(b.EndedAt) })
	excess := len(ended) - m.cfg.MaxEnded
	for _, t := range ended {
		switch {
		case len(t.Pending) == 0 && (excess > 0 || now.Sub(t.EndedAt) >= m.cfg.Retention), pending > maxPending:
			pending -= len(t.Pending)
			excess--
			m.remove(t)
		}
	}
}

// Tasks returns every task that is remembered, oldest first: what a compacted journal holds.
func (m *Machine) Tasks() []*Task {
	tasks := make([]*Task, 0, len(m.tasks))
	for _, t := range m.tasks {
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, func(a, b *Task) int { return cmp.Compare(a.Order, b.Order) })
	return tasks
}

// Live returns how many tasks have not ended.
func (m *Machine) Live() int {
	n := 0
	for _, t := range m.active {
		if !t.Ended() {
			n++
		}
	}
	return n
}

// Current says whether the view of the pods is current.
func (m *Machine) Current() bool { return m.synced }

// PendingUpdates returns how many updates are not acknowledged.
func (m *Machine) PendingUpdates() int {
	n := 0
	for _, t := range m.tasks {
		n += len(t.Pending)
	}
	return n
}

// Probes returns the UIDs of pods whose cgroups matter. Those in ending are to be looked at often, and at once if
// fresh; of those in started it is only of interest whether they ever have a process.
func (m *Machine) Probes() (ending, started []string, fresh bool) {
	for _, t := range m.sortedActive() {
		switch {
		case t.Ended() || t.Pod == nil:
		case !t.GoneAt.IsZero() || t.Pod.Deleting || t.Pod.final() || t.Kill != nil:
			ending = append(ending, t.Ref.UID)
			fresh = fresh || t.cgroup.state == CgroupUnknown
		case !t.Populated:
			started = append(started, t.Ref.UID)
		}
	}
	return ending, started, fresh
}
