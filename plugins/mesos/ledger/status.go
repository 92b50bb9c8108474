// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Update is one status of one task as Mesos sends it.
type Update struct {
	TaskID, AgentID, ExecutorID string
	Status
}

// UpdateOf reads a TaskStatus. A state that this code does not know counts as TASK_UNKNOWN: nothing is done for it.
func UpdateOf(s *mesos.TaskStatus) Update {
	u := Update{TaskID: s.TaskID.Value, Status: Status{
		State: mesos.TASK_UNKNOWN, Source: s.GetSource(), Reason: s.GetReason(), HasWhy: s.Reason != nil, Message: s.GetMessage(),
	}}
	if s.State != nil {
		if _, known := mesos.TaskState_name[int32(*s.State)]; known {
			u.State = *s.State
		} else {
			u.HasWhy = false // whatever the reason means there, it is not that of a TASK_UNKNOWN
		}
	}
	if s.AgentID != nil {
		u.AgentID = s.AgentID.Value
	}
	if s.ExecutorID != nil {
		u.ExecutorID = s.ExecutorID.Value
	}
	return u
}

// Ending says what the end of a bound pod's task means for the pod.
type Ending int

const (
	// NotEnded: the state is not terminal.
	NotEnded Ending = iota
	// PodsEnd: our executor reports the end of the pod's containers.
	PodsEnd
	// Accident: the executor, its container or the agent lost the task; the pod may well run. It is to be held anew.
	Accident
	// OperatorsWill: somebody wants the task off this agent; so the pod has to go.
	OperatorsWill
)

// IsTerminal says whether Mesos treats a state as an end.
func IsTerminal(s mesos.TaskState) bool {
	switch s {
	case mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED, mesos.TASK_LOST, mesos.TASK_ERROR, mesos.TASK_DROPPED,
		mesos.TASK_GONE, mesos.TASK_GONE_BY_OPERATOR:
		return true
	}
	return false
}

// replacedAgent is in the message of the master when an agent has registered anew at the address of an old one
// (src/master/master.cpp).
const replacedAgent = "a new agent registered at the same address"

// EndingOf classifies a status of a bound pod's task. killed says that we asked for the task's end.
func EndingOf(s Status, killed bool) Ending {
	if !IsTerminal(s.State) {
		return NotEnded
	}
	if s.HasWhy {
		switch s.Reason {
		case mesos.REASON_AGENT_DRAINING, mesos.REASON_AGENT_REMOVED_BY_OPERATOR, mesos.REASON_CONTAINER_PREEMPTED:
			return OperatorsWill
		case mesos.REASON_AGENT_REMOVED:
			// Unregistered, or its machine is down; a lost connection is TASK_UNREACHABLE. An agent that comes back with a
			// new id is nobody's will: its pods run on.
			if !strings.Contains(s.Message, replacedAgent) {
				return OperatorsWill
			}
		}
	}
	switch s.State {
	case mesos.TASK_FINISHED:
		return PodsEnd
	case mesos.TASK_GONE_BY_OPERATOR:
		return OperatorsWill
	case mesos.TASK_KILLED:
		if s.Source == mesos.SOURCE_EXECUTOR || killed {
			return PodsEnd
		}
		return OperatorsWill
	case mesos.TASK_FAILED:
		if s.Source == mesos.SOURCE_EXECUTOR {
			return PodsEnd
		}
	}
	return Accident
}

// Effect says what an update means to those who keep pods and tasks in step.
type Effect int

const (
	// Nothing has changed.
	Nothing Effect = iota
	// Progressed: the task's state changed, and nobody but who waits for it has to do anything.
	Progressed
	// Freed: a task of a pod that is not bound has ended after it was given up; the pod may be scheduled again.
	Freed
	// Ended: a bound pod's task has ended with the pod.
	Ended
	// Lost: a bound pod has lost its task by an accident.
	Lost
	// Withdrawn: a bound pod has lost, or is losing, its task by an operator's or Mesos' will.
	Withdrawn
	// Parted: a bound pod's task cannot be reached at present.
	Parted
	// Adopted: a live task was found for a bound pod that had none.
	Adopted
	// Strange: a live task was heard of that no pod is known for.
	Strange
)

// Change is what Apply did.
type Change struct {
	Effect Effect
	Task   Task
	Update Update
}

// Apply brings an update into the book. It is total: any state from any source, repeated, late or unknown, has a
// meaning, and terminal is final for a task id.
func (l *Ledger) Apply(u Update) Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tasks[u.TaskID]
	if t == nil {
		return l.applyStranger(u)
	}
	if t.State == Terminal {
		return Change{Nothing, *t, u}
	}
	before := t.State
	effect := l.apply(t, u)
	if effect == Nothing && t.State != before {
		effect = Progressed
	}
	return Change{effect, *t, u}
}

func (l *Ledger) apply(t *Task, u Update) Effect {
	s := u.Status
	fromReconciliation := s.Source == mesos.SOURCE_MASTER && s.Reason == mesos.REASON_RECONCILIATION && s.HasWhy
	doubtful := fromReconciliation && (s.State == mesos.TASK_GONE || s.State == mesos.TASK_UNKNOWN || s.State == mesos.TASK_LOST)
	if doubtful && (t.State == Unclear || t.State == Launching && !t.accepted) {
		return Nothing // the ACCEPT may still come: only an answer after a fence counts
	}
	t.Answered = true
	a := l.agents[t.AgentID]

	switch {
	case IsTerminal(s.State):
		notLaunched := s.State == mesos.TASK_ERROR || s.State == mesos.TASK_DROPPED && s.Reason == mesos.REASON_INVALID_OFFERS && s.HasWhy
		if notLaunched && (t.State.Live() || t.State == Unreachable) {
			return Nothing // a launch was refused, but this task is known to have started
		}
		return l.end(t, a, s)
	case s.State == mesos.TASK_STAGING:
		t.accepted = true
		if t.State == Restored || t.State == Unreachable || t.State == Unclear {
			t.Last = s
			l.move(t, map[bool]State{true: Starting, false: Launching}[t.Bound])
		}
		return Nothing
	case s.State == mesos.TASK_UNREACHABLE || s.State == mesos.TASK_UNKNOWN:
		if s.State == mesos.TASK_UNKNOWN && !fromReconciliation {
			return Nothing // a state that this code does not know
		}
		if a != nil {
			l.notRegistered(a)
			if s.State == mesos.TASK_UNREACHABLE {
				l.setTrouble(a, AgentUnreachable)
			}
		}
		if t.State == Unreachable {
			return Nothing
		}
		t.Last = s
		l.move(t, Unreachable)
		if t.Bound {
			return Parted
		}
		return Nothing
	}

	// STARTING, RUNNING and KILLING: the executor has the task.
	t.accepted = true
	if a != nil {
		id := t.ExecutorID
		if id == "" {
			id, t.ExecutorID = u.ExecutorID, u.ExecutorID
		}
		l.executorSeen(a, id)
		if t.State == Launching {
			l.noteSuccess(a)
		}
		if t.State == Unreachable && a.trouble == AgentUnreachable {
			l.setTrouble(a, NoTrouble)
		}
	}
	draining := s.State == mesos.TASK_KILLING && s.HasWhy && s.Reason == mesos.REASON_AGENT_DRAINING
	if draining && a != nil {
		l.setTrouble(a, AgentDraining)
	}
	to := Running
	if s.State == mesos.TASK_STARTING && t.State != Running {
		to = Starting
	}
	t.Last = s
	l.move(t, to)
	switch {
	case draining && t.Bound:
		return Withdrawn
	case s.State == mesos.TASK_KILLING && !t.Bound && t.KillSince.IsZero():
		l.kill(t, nil) // no pod is bound with a task that is about to end
	}
	return Nothing
}

// endsExecutor says whether a reason for a task's end means that its executor has ended, too.
func endsExecutor(s Status) bool {
	if !s.HasWhy {
		return false
	}
	switch s.Reason {
	case mesos.REASON_EXECUTOR_TERMINATED, mesos.REASON_EXECUTOR_UNREGISTERED, mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT,
		mesos.REASON_EXECUTOR_REREGISTRATION_TIMEOUT, mesos.REASON_CONTAINER_LAUNCH_FAILED, mesos.REASON_CONTAINER_LIMITATION,
		mesos.REASON_CONTAINER_LIMITATION_MEMORY, mesos.REASON_CONTAINER_LIMITATION_DISK, mesos.REASON_CONTAINER_PREEMPTED,
		mesos.REASON_CONTAINER_UPDATE_FAILED, mesos.REASON_GC_ERROR:
		return true
	}
	return false
}

// end brings a terminal status into the book.
func (l *Ledger) end(t *Task, a *agent, s Status) Effect {
	l.ended.add(t.ID)
	if a != nil {
		delete(a.tasks, t.ID)
		if t.State == Launching && launchFailed(s) {
			l.noteFailure(a)
		}
		if s.Source == mesos.SOURCE_EXECUTOR {
			l.executorSeen(a, t.ExecutorID)
		}
		switch {
		case s.State == mesos.TASK_DROPPED && LimitsRefused(s):
			l.neverStarted(a, t.ExecutorID)
		case endsExecutor(s):
			l.executorEnded(a, t.ExecutorID)
		}
		l.unstartedExecutor(a, t.ExecutorID)
		if s.HasWhy && s.Reason == mesos.REASON_AGENT_DRAINING {
			l.setTrouble(a, AgentDraining)
		}
	}
	t.Last = s
	if !t.Bound {
		if t.KillSince.IsZero() {
			l.move(t, Terminal) // who waits for the launch decides
			return Nothing
		}
		l.forget(t)
		return Freed
	}
	if !t.PodGone.IsZero() {
		l.forget(t)
		return Ended
	}
	ending := EndingOf(s, !t.KillSince.IsZero())
	if ending == PodsEnd {
		l.move(t, Terminal)
		return Ended
	}
	delete(l.tasks, t.ID)
	l.move(t, Unheld)
	if ending == OperatorsWill {
		return Withdrawn
	}
	for _, stranger := range l.strangers {
		if l.holds(stranger, t) {
			l.adopt(t, stranger)
			return Adopted
		}
	}
	return Lost
}

// unstartedExecutor forgets an executor that was to be launched when the last task of its ACCEPT has ended without a
// sign of it.
func (l *Ledger) unstartedExecutor(a *agent, executorID string) {
	for _, p := range a.pools {
		if p.executor.phase != executorLaunching || p.executor.id != executorID {
			continue
		}
		for _, other := range a.tasks {
			if other.ExecutorID == executorID {
				return
			}
		}
		l.executorEnded(a, executorID)
	}
}

// Retry turns a Terminal task of a pod in Bind back into a claim for another attempt. ok is false when the agent is gone, or
// when the pod is to be given up.
func (l *Ledger) Retry(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.pods[uid]
	if t == nil || t.State != Terminal || t.Bound || !t.KillSince.IsZero() || !t.PodGone.IsZero() {
		return false
	}
	if a := l.agents[t.AgentID]; a == nil || a.gone { // a task that has ended keeps no record of its agent
		return false
	}
	delete(l.tasks, t.ID)
	t.ID, t.Offers, t.ClaimedAt, t.RescindedAt = "", nil, l.options.Clock.Now(), time.Time{}
	l.move(t, Claimed)
	return true
}
