// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Restore takes the record of a bound pod into the book when this process begins to lead. Mesos has to confirm the task;
// until then, and while Mesos is silent, the pod is left alone. An empty id means that the pod is ours and no task of it
// is known.
func (l *Ledger) Restore(t Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pods[t.UID] != nil {
		return
	}
	a := l.agentOf(t.AgentID, t.Node)
	restored := &Task{Pod: t.Pod, Need: t.Need, AgentID: t.AgentID, Node: t.Node, ID: t.ID, ExecutorID: t.ExecutorID, Bound: true, State: Restored, accepted: true}
	if t.ID == "" {
		restored.State = Unheld
	}
	l.add(restored, a)
	if s := l.strangers[t.ID]; s != nil && t.ID != "" { // Mesos spoke of it first
		delete(l.strangers, t.ID)
		if s.kill {
			l.kill(restored, nil)
		}
		l.apply(restored, Update{t.ID, s.AgentID, s.ExecutorID, s.Status})
	}
}

// RestoreLaunch takes a launch into the book that an earlier leader had in flight: the task may live, and its pod is not
// bound. It is to be killed, and until it has ended the pod is not launched again.
func (l *Ledger) RestoreLaunch(t Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pods[t.UID] != nil {
		return
	}
	restored := &Task{Pod: t.Pod, Need: t.Need, AgentID: t.AgentID, Node: t.Node, ID: t.ID, State: Restored, accepted: true}
	l.add(restored, l.agentOf(t.AgentID, t.Node))
	l.kill(restored, nil)
}

// Flight is a launch that Mesos may know while its pod is not bound.
type Flight struct{ TaskID, AgentID, Node string }

// InFlight returns the launches of which nothing but this book tells, in no order: once a pod is bound, the pod does.
func (l *Ledger) InFlight() []Flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Flight, 0, len(l.inFlight))
	for _, t := range l.inFlight {
		out = append(out, Flight{t.ID, t.AgentID, t.Node})
	}
	return out
}

// Replaced ends the tasks of agents that Mesos cannot reach while another agent of the same node makes offers: the old
// one has lost its identity and cannot come back with them.
func (l *Ledger) Replaced() []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Change
	for _, agents := range l.byNode {
		if len(agents) < 2 || agents[0].gone || agents[0].offered.IsZero() || agents[0].trouble != NoTrouble {
			continue
		}
		for _, old := range agents[1:] {
			if old.trouble == AgentAmbiguous {
				continue
			}
			for _, t := range old.tasks {
				if t.State != Unreachable {
					continue
				}
				s := Status{State: mesos.TASK_GONE, Source: mesos.SOURCE_MASTER, Message: "another Mesos agent serves the node now"}
				effect := l.end(t, old, s)
				out = append(out, Change{effect, *t, Update{t.ID, old.id, t.ExecutorID, s}})
			}
		}
	}
	return out
}

// Parted returns by role when Mesos last lost sight of a task whose node no other agent serves yet. The agent may come back
// under another id, which an offer of it would tell. So would it of a live task on an agent that has made no offer yet, which
// may hold a bound pod.
func (l *Ledger) Parted() map[string]time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]time.Time{}
	for _, s := range l.strangers {
		if t := l.pods[s.UID]; t != nil && t.Bound && l.mayHold(s, t) && s.Since.After(out[t.Need.Role]) {
			out[t.Need.Role] = s.Since
		}
	}
	if l.counts[Unreachable] == 0 {
		return out
	}
	for _, t := range l.pods {
		if t.State != Unreachable || !t.PodGone.IsZero() || !t.ChangedAt.After(out[t.Need.Role]) {
			continue
		}
		if a := l.current(t.Node); a == nil || a.id == t.AgentID || a.offered.IsZero() {
			out[t.Need.Role] = t.ChangedAt
		}
	}
	return out
}

// Troubled returns the bound pods that have been without a live task for at least a time. Events bring them up at once;
// this is the backstop.
func (l *Ledger) Troubled(since time.Duration) []types.UID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts[Unheld]+l.counts[Terminal] == 0 {
		return nil
	}
	now := l.options.Clock.Now()
	var out []types.UID
	for _, t := range l.pods {
		if t.Bound && (t.State == Unheld || t.State == Terminal) && now.Sub(t.ChangedAt) >= since {
			out = append(out, t.UID)
		}
	}
	return out
}

// Resubscribed begins a new round of reconciliation. A new subscription is a fence, too: the master refuses calls of the
// old one, so no ACCEPT sent before can be processed any more.
func (l *Ledger) Resubscribed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tasks {
		t.Answered = false
		if t.State == Unclear {
			l.move(t, Launching)
		}
		if t.State == Launching {
			t.accepted = true
		}
	}
}

// Reconciling says whether it is still unknown which tasks live. While it is, no bound pod is launched for anew: another
// leader may have done so while this process was not subscribed.
func (l *Ledger) Reconciling(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reconciling = yes
}

// AskAll makes every task that Mesos may know one to ask for again.
func (l *Ledger) AskAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tasks {
		t.Answered = false
	}
}

// Query is one task to ask the master for.
type Query struct{ TaskID, AgentID string }

// Unanswered returns the tasks that Mesos has said nothing of since the subscription began, always with their agent: the
// master looks them up by it. Tasks whose ACCEPT is on its way are left out.
func (l *Ledger) Unanswered() []Query {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Query
	for _, t := range l.tasks {
		if !t.Answered && t.accepted && t.State.Sent() && t.State != Unclear {
			out = append(out, Query{t.ID, t.AgentID})
		}
	}
	return out
}

// Stuck returns the tasks that have been launching for longer than limit without a status: the launch may have been lost
// between master and agent.
func (l *Ledger) Stuck(limit time.Duration) []Query {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.options.Clock.Now()
	var out []Query
	for _, t := range l.tasks {
		if t.State == Launching && t.accepted && now.Sub(t.ChangedAt) >= limit {
			out = append(out, Query{t.ID, t.AgentID})
		}
	}
	return out
}

// forgetAfter is how long a task of a pod that is gone, or was never bound, is kept while the master does not know it. An
// agent that is to come back has done so by then: the master gives it ten minutes.
const forgetAfter = 15 * time.Minute

// Expire does what only time brings: rests of offers that did not come back stop to count, and records of pods that are
// gone or not bound, whose tasks the master does not know, are dropped. Should such a task turn up again it is a ghost.
func (l *Ledger) Expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.options.Clock.Now()
	for id, a := range l.timed {
		l.expireWindow(a, now)
		waits := l.expireFailing(a, now) || a.unavailable.Duration > 0
		for _, p := range a.pools {
			switch {
			case p.until.IsZero():
			case now.Before(p.until):
				waits = true
			default:
				p.until = time.Time{}
				p.expected = emptyOffered
				l.touch(a)
			}
		}
		if !waits {
			delete(l.timed, id)
		}
	}
	for _, t := range l.heeded() {
		if t.State != Unreachable || t.Last.State != mesos.TASK_UNKNOWN {
			continue
		}
		if !t.PodGone.IsZero() && now.Sub(t.PodGone) > forgetAfter || !t.Bound && !t.KillSince.IsZero() && now.Sub(t.ChangedAt) > forgetAfter {
			l.ended.add(t.ID)
			l.forget(t)
		}
	}
}

// FrameworkGone notes that the master has removed the framework: every task has ended. It returns the bound pods that
// have none now.
func (l *Ledger) FrameworkGone() []Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Task
	for _, t := range l.pods {
		if !t.State.Sent() {
			continue
		}
		s := Status{State: mesos.TASK_GONE, Source: mesos.SOURCE_MASTER, Reason: mesos.REASON_FRAMEWORK_REMOVED, HasWhy: true, Message: "Framework has been removed"}
		if l.end(t, l.agents[t.AgentID], s); t.State == Unheld {
			out = append(out, *t)
		}
	}
	l.strangers = map[string]*Stranger{}
	for _, a := range l.agents {
		for _, p := range a.pools {
			p.executor = executor{digest: p.executor.digest}
		}
		l.touch(a)
	}
	return out
}
