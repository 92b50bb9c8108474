// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// Stranger is a live task of this framework that no record is known for.
type Stranger struct {
	TaskID, AgentID, ExecutorID string
	UID                         types.UID
	Since                       time.Time
	Status                      Status

	kill     bool
	killSent time.Time
}

func (l *Ledger) applyStranger(u Update) Change {
	if IsTerminal(u.State) {
		s := l.strangers[u.TaskID]
		if s == nil {
			return Change{Update: u}
		}
		delete(l.strangers, u.TaskID)
		l.ended.add(u.TaskID)
		return Change{Effect: Freed, Task: Task{Pod: Pod{UID: s.UID}}, Update: u}
	}
	if u.State == mesos.TASK_UNREACHABLE || u.State == mesos.TASK_UNKNOWN {
		return Change{Update: u}
	}
	s := l.strangers[u.TaskID]
	if s == nil {
		s = &Stranger{TaskID: u.TaskID, Since: l.options.Clock.Now()}
		s.UID, _, _ = taskinfo.ParseTaskID(u.TaskID)
		l.strangers[u.TaskID] = s
	}
	if u.AgentID != "" {
		s.AgentID = u.AgentID
	}
	if u.ExecutorID != "" {
		s.ExecutorID = u.ExecutorID
	}
	s.Status = u.Status
	if l.ended.has(u.TaskID) {
		s.kill = true // it was written off: a ghost
		return Change{Effect: Progressed, Update: u}
	}
	if t := l.pods[s.UID]; t != nil && l.holds(s, t) {
		l.adopt(t, s)
		return Change{Adopted, *t, u}
	}
	return Change{Effect: Strange, Update: u}
}

// place says where the agent of a stranger is, seen from a pod's record.
type place int

const (
	elsewhere place = iota // on another node
	somewhere              // the agent has made no offer yet, so that its node is not known
	here
)

func (l *Ledger) place(s *Stranger, t *Task) place {
	a := l.agents[s.AgentID]
	switch {
	case s.AgentID == t.AgentID, a != nil && a.node == t.Node && t.Node != "":
		return here
	case a == nil || a.node == "":
		return somewhere
	}
	return elsewhere
}

// holds says whether a stranger is the task that a bound pod without one lacks: an earlier leader has launched it and did
// not come to write that down. It may run on another agent of the node than the task before it.
func (l *Ledger) holds(s *Stranger, t *Task) bool {
	without := t.Bound && (t.State == Unheld || t.State == Claimed) && t.PodGone.IsZero()
	return without && s.UID == t.UID && !s.kill && l.place(s, t) == here
}

// mayHold says whether a stranger may turn out to hold a pod.
func (l *Ledger) mayHold(s *Stranger, t *Task) bool {
	return s.UID == t.UID && !s.kill && l.place(s, t) != elsewhere
}

// adopt gives a pod without a task the live one that was found for it.
func (l *Ledger) adopt(t *Task, s *Stranger) {
	delete(l.strangers, s.TaskID)
	if a := l.agents[s.AgentID]; a != nil {
		l.transfer(t, a)
	}
	t.ID, t.ExecutorID, t.Answered, t.accepted, t.Last = s.TaskID, s.ExecutorID, true, true, s.Status
	l.tasks[t.ID] = t
	to := Running
	if s.Status.State != mesos.TASK_RUNNING {
		to = Starting
	}
	l.move(t, to)
}

// transfer brings the record of a bound pod without a task, and its charge, to another agent of its node.
func (l *Ledger) transfer(t *Task, a *agent) {
	if a.id == t.AgentID {
		return
	}
	if old := l.agents[t.AgentID]; old != nil {
		old.pool(poolOf(t.Need)).discharge(t.Need)
		l.grow(old)
		l.release(old)
	}
	a.pool(poolOf(t.Need)).charge(t.Need)
	t.AgentID = a.id
	l.touch(a)
}

// Recognized gives bound pods without a task those strangers that turn out to be on their nodes, since their agents have
// made an offer.
func (l *Ledger) Recognized() []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Change
	for _, s := range l.strangers {
		if t := l.pods[s.UID]; t != nil && l.holds(s, t) {
			l.adopt(t, s)
			out = append(out, Change{Adopted, *t, Update{t.ID, t.AgentID, t.ExecutorID, t.Last}})
		}
	}
	return out
}

// Second says whether a stranger is a task that its bound pod does not need: the pod has a live one, or the stranger is on
// another node.
func (l *Ledger) Second(s Stranger) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.pods[s.UID]
	return t != nil && t.Bound && (t.State.Live() || l.place(&s, t) == elsewhere)
}

// Strangers returns the live tasks that no record is known for and that nobody has asked to kill yet.
func (l *Ledger) Strangers() []Stranger {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Stranger
	for _, s := range l.strangers {
		if !s.kill {
			out = append(out, *s)
		}
	}
	return out
}

// KillStranger notes the wish that a stranger ends.
func (l *Ledger) KillStranger(taskID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.strangers[taskID]; s != nil {
		s.kill = true
	}
}
