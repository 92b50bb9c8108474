// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"k8s.io/utils/ptr"
)

// beginnings bring the task of pod `p` on S1 into a state that an update can meet. The record carries what an update
// finds: what is already known of the ACCEPT decides what the master's word on a launch means.
var beginnings = []struct {
	name string
	make func(b *book) Task
}{
	{"launching, ACCEPT unanswered", func(b *book) Task {
		b.mustClaim("p", needOf(1000, 1024), "S1")
		b.mustBatch("S1", "p")
		return b.task("p")
	}},
	{"launching, ACCEPT answered", func(b *book) Task { return b.launch("p", needOf(1000, 1024), "S1") }},
	{"launching, killed", func(b *book) Task {
		t := b.launch("p", needOf(1000, 1024), "S1")
		b.Release(t.UID)
		return b.task("p")
	}},
	{"unclear", func(b *book) Task {
		b.mustClaim("p", needOf(1000, 1024), "S1")
		b.Unclear(b.mustBatch("S1", "p"))
		return b.task("p")
	}},
	{"unclear, fenced", func(b *book) Task {
		b.mustClaim("p", needOf(1000, 1024), "S1")
		b.Unclear(b.mustBatch("S1", "p"))
		b.Fenced([]string{b.task("p").ID})
		return b.task("p")
	}},
	{"starting, not bound", func(b *book) Task {
		t := b.launch("p", needOf(1000, 1024), "S1")
		b.says(t.ID, "S1", mesos.TASK_STARTING)
		return b.task("p")
	}},
	{"starting, not bound, killed", func(b *book) Task {
		t := b.launch("p", needOf(1000, 1024), "S1")
		b.says(t.ID, "S1", mesos.TASK_STARTING)
		b.Release(t.UID)
		return b.task("p")
	}},
	{"unreachable, not bound", func(b *book) Task {
		t := b.launch("p", needOf(1000, 1024), "S1")
		b.says(t.ID, "S1", mesos.TASK_STARTING)
		b.because(t.ID, "S1", mesos.TASK_UNREACHABLE, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REMOVED)
		return b.task("p")
	}},
	{"ended before it was bound", func(b *book) Task {
		t := b.launch("p", needOf(1000, 1024), "S1")
		b.says(t.ID, "S1", mesos.TASK_FAILED)
		return b.task("p")
	}},
	{"running, bound", func(b *book) Task { return b.run("p", needOf(1000, 1024), "S1") }},
	{"running, bound, killed", func(b *book) Task {
		t := b.run("p", needOf(1000, 1024), "S1")
		b.Kill(t.UID)
		return b.task("p")
	}},
	{"running, bound, pod gone", func(b *book) Task {
		t := b.run("p", needOf(1000, 1024), "S1")
		b.PodGone(t.UID)
		return b.task("p")
	}},
	{"unreachable, bound", func(b *book) Task {
		t := b.run("p", needOf(1000, 1024), "S1")
		b.because(t.ID, "S1", mesos.TASK_UNREACHABLE, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REMOVED)
		return b.task("p")
	}},
	{"restored", func(b *book) Task {
		b.Restore(Task{Pod: ledgerPod("p"), Need: needOf(1000, 1024), AgentID: "S1", Node: "node-S1", ID: "p.1"})
		return b.task("p")
	}},
	{"launching anew for a bound pod", func(b *book) Task {
		b.Restore(Task{Pod: ledgerPod("p"), Need: needOf(1000, 1024), AgentID: "S1", Node: "node-S1"})
		b.Reclaim("p")
		b.Sent(b.mustBatch("S1", "p"))
		return b.task("p")
	}},
	{"ended with its pod", func(b *book) Task {
		t := b.run("p", needOf(1000, 1024), "S1")
		b.says(t.ID, "S1", mesos.TASK_FINISHED)
		return b.task("p")
	}},
}

// outcome is what is left of a record.
type outcome struct {
	Effect Effect
	State  State
	Gone   bool
}

// expected restates design.md: sections 4 (M8, M9, M12) and 5. accepted says whether the master's word on the launch
// counts already.
func expected(t Task, s Status) outcome {
	same := outcome{Nothing, t.State, false}
	moved := func(to State) outcome {
		if to == t.State {
			return same
		}
		return outcome{Progressed, to, false}
	}
	if t.State == Terminal {
		return same
	}
	masterAnswers := s.HasWhy && s.Reason == mesos.REASON_RECONCILIATION && s.Source == mesos.SOURCE_MASTER
	denies := masterAnswers && (s.State == mesos.TASK_GONE || s.State == mesos.TASK_UNKNOWN || s.State == mesos.TASK_LOST)
	if denies && (t.State == Unclear || t.State == Launching && !t.accepted) {
		return same // the ACCEPT may still come
	}
	killed := !t.KillSince.IsZero()
	ended := func() outcome {
		switch {
		case !t.Bound && !killed:
			return moved(Terminal)
		case !t.Bound:
			return outcome{Freed, Terminal, true}
		case !t.PodGone.IsZero():
			return outcome{Ended, Terminal, true}
		}
		switch EndingOf(s, killed) {
		case PodsEnd:
			return outcome{Ended, Terminal, false}
		case OperatorsWill:
			return outcome{Withdrawn, Unheld, false}
		}
		return outcome{Lost, Unheld, false}
	}
	started := t.State == Starting || t.State == Running || t.State == Unreachable
	switch s.State {
	case mesos.TASK_ERROR:
		if started {
			return same
		}
		return ended()
	case mesos.TASK_DROPPED:
		if started && s.HasWhy && s.Reason == mesos.REASON_INVALID_OFFERS {
			return same
		}
		return ended()
	case mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED, mesos.TASK_LOST, mesos.TASK_GONE, mesos.TASK_GONE_BY_OPERATOR:
		return ended()
	case mesos.TASK_STAGING:
		if t.State == Restored || t.State == Unreachable || t.State == Unclear {
			if t.Bound {
				return moved(Starting)
			}
			return moved(Launching)
		}
		return same
	case mesos.TASK_UNKNOWN:
		if !masterAnswers {
			return same
		}
		fallthrough
	case mesos.TASK_UNREACHABLE:
		switch {
		case t.State == Unreachable:
			return same
		case t.Bound:
			return outcome{Parted, Unreachable, false}
		}
		return moved(Unreachable)
	case mesos.TASK_STARTING:
		if t.State == Running {
			return same
		}
		return moved(Starting)
	case mesos.TASK_KILLING:
		if s.HasWhy && s.Reason == mesos.REASON_AGENT_DRAINING && t.Bound {
			return outcome{Withdrawn, Running, false}
		}
		return moved(Running)
	case mesos.TASK_RUNNING:
		return moved(Running)
	}
	return same // a state from the future
}

// Apply is total: every state, from every source, for every reason, meets every state of a record, with and without the
// ids that an update may lack, and once more after that.
func TestApplyIsTotal(t *testing.T) {
	states := []mesos.TaskState{99, -1}
	for s := range mesos.TaskState_name {
		states = append(states, mesos.TaskState(s))
	}
	var reasons []*mesos.TaskStatus_Reason
	for r := range mesos.TaskStatus_Reason_name {
		reasons = append(reasons, mesos.TaskStatus_Reason(r).Enum())
	}
	reasons = append(reasons, nil, ptr.To(mesos.TaskStatus_Reason(999)))
	sources := []*mesos.TaskStatus_Source{nil, mesos.SOURCE_MASTER.Enum(), mesos.SOURCE_AGENT.Enum(), mesos.SOURCE_EXECUTOR.Enum()}
	n := 0
	for _, begin := range beginnings {
		t.Run(begin.name, func(t *testing.T) {
			for _, state := range states {
				for _, source := range sources {
					for _, reason := range reasons {
						b := newBook(t)
						b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
						record := begin.make(b)
						status := &mesos.TaskStatus{TaskID: mesos.TaskID{Value: record.ID}, State: &state, Source: source, Reason: reason}
						if n++; n%2 == 0 {
							status.AgentID, status.ExecutorID, status.UUID = &mesos.AgentID{Value: "S1"}, &mesos.ExecutorID{Value: record.ExecutorID}, []byte("0123456789abcdef")
						}
						u := UpdateOf(status)
						want := expected(record, u.Status)
						change := b.apply(u)
						got := outcome{Effect: change.Effect, State: change.Task.State}
						after, ok := b.Task("p")
						got.Gone = !ok
						if ok && after.State != change.Task.State {
							t.Fatalf("%v: the change says %s, the book %s", status, change.Task.State, after.State)
						}
						if got != want {
							t.Fatalf("%v\n got %+v\nwant %+v", status, got, want)
						}
						if state == mesos.TASK_KILLING && ok && !after.Bound && after.State.Live() && after.KillSince.IsZero() {
							t.Fatalf("%v: a pod may be bound with a task that is about to end", status)
						}
						// The same once more changes nothing that has ended, and brings nobody back to life.
						again := b.apply(u)
						last, still := b.Task("p")
						if IsTerminal(u.State) && want.Effect != Nothing && (again.Effect == Lost || again.Effect == Ended || again.Effect == Withdrawn || again.Effect == Freed) {
							t.Fatalf("%v: a repeat of the end counts again: %v", status, again.Effect)
						}
						if still && ok && last.State != after.State {
							t.Fatalf("%v: a repeat moves %s to %s", status, after.State, last.State)
						}
						if u.State == mesos.TASK_UNKNOWN && again.Effect == Parted {
							t.Fatalf("%v: parted twice", status)
						}
					}
				}
			}
		})
	}
	t.Logf("%d combinations", n)
}

func TestUpdateOf(t *testing.T) {
	if got := UpdateOf(&mesos.TaskStatus{}); got.State != mesos.TASK_UNKNOWN || got.HasWhy {
		t.Errorf("a status without a state: %+v", got)
	}
	future := &mesos.TaskStatus{State: ptr.To(mesos.TaskState(77)), Source: mesos.SOURCE_MASTER.Enum(), Reason: mesos.REASON_RECONCILIATION.Enum()}
	if got := UpdateOf(future); got.State != mesos.TASK_UNKNOWN || got.HasWhy {
		t.Errorf("a state from the future must not read as the master's TASK_UNKNOWN: %+v", got)
	}
}

// TestEndingOf has a line for each row of the table of design.md, section 5.
func TestEndingOf(t *testing.T) {
	why := func(state mesos.TaskState, source mesos.TaskStatus_Source, reason mesos.TaskStatus_Reason, message ...string) Status {
		return Status{State: state, Source: source, Reason: reason, HasWhy: true, Message: fmt.Sprint(message)}
	}
	executor := func(state mesos.TaskState) Status { return Status{State: state, Source: mesos.SOURCE_EXECUTOR} }
	const m, a, x = mesos.SOURCE_MASTER, mesos.SOURCE_AGENT, mesos.SOURCE_EXECUTOR
	tests := []struct {
		name   string
		status Status
		killed bool
		want   Ending
	}{
		{"executor: FINISHED", executor(mesos.TASK_FINISHED), false, PodsEnd},
		{"executor: FAILED", executor(mesos.TASK_FAILED), false, PodsEnd},
		{"executor: KILLED", executor(mesos.TASK_KILLED), false, PodsEnd},
		{"executor: KILLED as asked", executor(mesos.TASK_KILLED), true, PodsEnd},

		{"executor ended", why(mesos.TASK_FAILED, a, mesos.REASON_EXECUTOR_TERMINATED), false, Accident},
		{"executor ended, gone", why(mesos.TASK_GONE, a, mesos.REASON_EXECUTOR_TERMINATED), false, Accident},
		{"executor not back in time", why(mesos.TASK_GONE, a, mesos.REASON_EXECUTOR_REREGISTRATION_TIMEOUT), false, Accident},
		{"executor never came", why(mesos.TASK_FAILED, a, mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT), false, Accident},
		{"agent restarted", why(mesos.TASK_DROPPED, a, mesos.REASON_AGENT_RESTARTED), false, Accident},
		{"agent does not know the task", why(mesos.TASK_DROPPED, a, mesos.REASON_RECONCILIATION), false, Accident},
		{"master says the agent does not know the task", why(mesos.TASK_GONE, m, mesos.REASON_RECONCILIATION), false, Accident},
		{"container limit: memory", why(mesos.TASK_FAILED, a, mesos.REASON_CONTAINER_LIMITATION_MEMORY), false, Accident},
		{"container limit: disk", why(mesos.TASK_FAILED, a, mesos.REASON_CONTAINER_LIMITATION_DISK), false, Accident},
		{"container not launched", why(mesos.TASK_FAILED, a, mesos.REASON_CONTAINER_LAUNCH_FAILED), false, Accident},
		{"container not updated", why(mesos.TASK_GONE, a, mesos.REASON_CONTAINER_UPDATE_FAILED), false, Accident},
		{"collected", why(mesos.TASK_DROPPED, a, mesos.REASON_GC_ERROR), false, Accident},
		{"framework removed", why(mesos.TASK_GONE, m, mesos.REASON_FRAMEWORK_REMOVED), false, Accident},
		{"re-hold refused", why(mesos.TASK_ERROR, m, mesos.REASON_TASK_INVALID), false, Accident},
		{"re-hold dropped", why(mesos.TASK_DROPPED, m, mesos.REASON_INVALID_OFFERS), false, Accident},
		{"lost for no reason", Status{State: mesos.TASK_LOST, Source: m}, false, Accident},
		{"another agent id at the address", why(mesos.TASK_LOST, m, mesos.REASON_AGENT_REMOVED, "Agent node-a removed: a new agent registered at the same address"), false, Accident},

		{"drained", why(mesos.TASK_KILLED, x, mesos.REASON_AGENT_DRAINING), false, OperatorsWill},
		{"drained and marked gone", why(mesos.TASK_GONE_BY_OPERATOR, x, mesos.REASON_AGENT_DRAINING), false, OperatorsWill},
		{"marked gone", why(mesos.TASK_GONE_BY_OPERATOR, m, mesos.REASON_AGENT_REMOVED_BY_OPERATOR), false, OperatorsWill},
		{"marked gone, as reconciliation says it", why(mesos.TASK_GONE_BY_OPERATOR, m, mesos.REASON_RECONCILIATION), false, OperatorsWill},
		{"agent unregistered", why(mesos.TASK_LOST, m, mesos.REASON_AGENT_REMOVED, "Agent node-a removed: the agent unregistered"), false, OperatorsWill},
		{"machine down", why(mesos.TASK_LOST, m, mesos.REASON_AGENT_REMOVED, "Agent node-a removed: Operator initiated 'Machine DOWN'"), false, OperatorsWill},
		{"preempted", why(mesos.TASK_FAILED, a, mesos.REASON_CONTAINER_PREEMPTED), false, OperatorsWill},
		{"KILLED not by us", Status{State: mesos.TASK_KILLED, Source: a}, false, OperatorsWill},
		{"KILLED by the agent as asked", Status{State: mesos.TASK_KILLED, Source: a}, true, PodsEnd},

		{"unreachable", why(mesos.TASK_UNREACHABLE, m, mesos.REASON_AGENT_REMOVED), false, NotEnded},
		{"unknown", why(mesos.TASK_UNKNOWN, m, mesos.REASON_RECONCILIATION), false, NotEnded},
		{"killing", why(mesos.TASK_KILLING, x, mesos.REASON_AGENT_DRAINING), false, NotEnded},
		{"running", executor(mesos.TASK_RUNNING), false, NotEnded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := EndingOf(tt.status, tt.killed); got != tt.want {
				t.Errorf("EndingOf(%s) = %d, want %d", tt.status, got, tt.want)
			}
		})
	}
}

func TestC37_DuplicateLateAndReorderedUpdates(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
	task := b.launch("p", needOf(1000, 1024), "S1")
	var effects []Effect
	first := time.Time{}
	say := func(c Change) {
		effects = append(effects, c.Effect)
		if now := b.task("p"); now.State == Running && first.IsZero() {
			first = now.ChangedAt
		}
		b.clock.Step(time.Second)
	}
	late := func(s mesos.TaskState) Change {
		return b.because(task.ID, "S1", s, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
	}
	say(b.says(task.ID, "S1", mesos.TASK_STARTING))
	b.Bound("p", task.ID)
	say(b.says(task.ID, "S1", mesos.TASK_RUNNING))
	say(b.says(task.ID, "S1", mesos.TASK_RUNNING))
	if got := b.task("p").ChangedAt; !got.Equal(first) {
		t.Errorf("a repeat moves the start from %v to %v", first, got)
	}
	say(b.says(task.ID, "S1", mesos.TASK_FAILED))
	say(b.says(task.ID, "S1", mesos.TASK_FAILED))
	say(late(mesos.TASK_RUNNING))
	say(late(mesos.TASK_GONE))
	if diff := cmp.Diff([]Effect{Progressed, Progressed, Nothing, Ended, Nothing, Nothing, Nothing}, effects); diff != "" {
		t.Errorf("effects (-want,+got):\n%s", diff)
	}
	if got := b.task("p"); got.State != Terminal || got.Last.State != mesos.TASK_FAILED {
		t.Errorf("%s, %s", got.State, got.Last)
	}

	// Once more with an empty memory: nobody is brought to life, nobody fails, and the late RUNNING is a task that nobody
	// knows until the end that follows is heard.
	b = newBook(t)
	effects = nil
	for _, s := range []mesos.TaskState{mesos.TASK_FAILED, mesos.TASK_FAILED, mesos.TASK_RUNNING, mesos.TASK_GONE} {
		effects = append(effects, b.says(task.ID, "S1", s).Effect)
	}
	if diff := cmp.Diff([]Effect{Nothing, Nothing, Strange, Freed}, effects); diff != "" {
		t.Errorf("effects after a restart (-want,+got):\n%s", diff)
	}
	if len(b.Tasks()) != 0 || len(b.Strangers()) != 0 {
		t.Errorf("left: %v %v", b.Tasks(), b.Strangers())
	}
}

// Defect 3 of the 2015 system: a task that ends before anything else was heard of it.
func TestEndBeforeAnyOtherWord(t *testing.T) {
	for _, state := range []mesos.TaskState{mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED} {
		b := newBook(t)
		b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
		task := b.launch("p", needOf(1000, 1024), "S1")
		b.says(task.ID, "S1", state)
		if got := b.task("p"); got.State != Terminal {
			t.Errorf("%s: %s", state, got.State)
		}
		b.Release("p")
		b.none("p")
		b.Restore(Task{Pod: ledgerPod("q"), Need: needOf(1, 1), AgentID: "S1", Node: "node-S1", ID: "q.1"})
		if c := b.says("q.1", "S1", state); c.Effect != Ended {
			t.Errorf("%s of a task that was taken over: %v", state, c.Effect)
		}
		b.audit()
	}
}

// A task that was lost while its Binding was on its way leaves a bound pod without one, which has to be held anew.
func TestLostWhileBinding(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(b *book, id string)
		want State
	}{
		{"by an accident", func(b *book, id string) {
			b.because(id, "S1", mesos.TASK_FAILED, mesos.SOURCE_AGENT, mesos.REASON_EXECUTOR_TERMINATED)
		}, Unheld},
		{"with the pod", func(b *book, id string) { b.says(id, "S1", mesos.TASK_FAILED) }, Terminal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBook(t)
			b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
			task := b.launch("p", needOf(1000, 1024), "S1")
			b.says(task.ID, "S1", mesos.TASK_STARTING)
			tt.end(b, task.ID)
			if !b.Bound("p", task.ID) {
				t.Fatal("the task is the pod's")
			}
			b.audit()
			if got := b.task("p"); got.State != tt.want || !got.Bound {
				t.Errorf("%s, want %s", got.State, tt.want)
			}
			b.clock.Step(10 * time.Second)
			if diff := cmp.Diff(uids("p"), b.Troubled(10*time.Second)); diff != "" {
				t.Errorf("troubled (-want,+got):\n%s", diff)
			}
		})
	}
}

// An operator's drain has no executor kill what is being bound: such a task is given up before the Binding is sent.
func TestKillingBeforeBinding(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
	task := b.launch("p", needOf(1000, 1024), "S1")
	b.because(task.ID, "S1", mesos.TASK_KILLING, mesos.SOURCE_EXECUTOR, mesos.REASON_AGENT_DRAINING)
	if b.task("p").KillSince.IsZero() {
		t.Error("the pod would be bound with a task that is about to end")
	}
	if got := b.fit("S1", needOf(1, 1)); got != ReasonDraining {
		t.Errorf("a draining agent: %q", got)
	}
}
