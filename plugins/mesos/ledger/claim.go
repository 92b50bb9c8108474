// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// ErrNoRoom says that the node's agent no longer has the room that a snapshot showed.
var ErrNoRoom = errors.New("no room in Mesos offers any more")

// ErrUnsettled says that an earlier task of the pod has not ended yet.
var ErrUnsettled = errors.New("an earlier Mesos task of this pod has not ended yet")

// Claim sets a pod's need aside on a node's agent. A second Claim of a pod that has one moves nothing.
func (l *Ledger) Claim(pod Pod, need resources.Need, node string) error {
	return l.claim(pod, need, node, false)
}

func (l *Ledger) claim(pod Pod, need resources.Need, node string, tentative bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.pods[pod.UID]; t != nil {
		if t.State == Claimed && t.Node == node && t.ID == "" {
			t.tentative = t.tentative && tentative
			return nil
		}
		return fmt.Errorf("%w: %s is %s", ErrUnsettled, t.ID, t.State)
	}
	a := l.current(node)
	if a == nil {
		return fmt.Errorf("%w: no agent serves node %s", ErrNoRoom, node)
	}
	now := l.options.Clock.Now()
	l.fillView(&l.scratch, a, now)
	if reason := l.scratch.Fit(need, 0, now); reason != Fits {
		return fmt.Errorf("%w: %s", ErrNoRoom, reason)
	}
	need, ok := need.Choose(a.pool(poolOf(need)).freePorts(now))
	if !ok {
		return fmt.Errorf("%w: %s", ErrNoRoom, ReasonPorts)
	}
	l.add(&Task{Pod: pod, Need: need, AgentID: a.id, Node: node, State: Claimed, ClaimedAt: now, tentative: tentative}, a)
	if !tentative {
		l.unwait(pod.UID)
	}
	return nil
}

func (l *Ledger) add(t *Task, a *agent) {
	t.ChangedAt = l.options.Clock.Now()
	l.pods[t.UID] = t
	l.count(t, noState, t.State)
	if t.ID != "" {
		l.tasks[t.ID] = t
		if t.State.Sent() {
			a.tasks[t.ID] = t
		}
	}
	if t.State.charged() {
		a.pool(poolOf(t.Need)).charge(t.Need)
	}
	var since time.Time
	if w := l.waiting[t.UID]; w != nil {
		since = w.Since
	}
	l.observe(Added, t, t.State, since)
	l.version++
	l.touch(a)
}

// Release gives a claim back that was not sent to Mesos. A task that was or may have been sent becomes one to kill, and
// stays charged until it has ended. It may be called without a claim and more than once. A pod that is bound keeps its
// task.
func (l *Ledger) Release(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.pods[uid]
	switch {
	case t == nil || t.Bound:
	case t.State == Claimed || t.State == Terminal:
		l.forget(t)
	default:
		l.kill(t, nil)
	}
}

// Bound notes that a pod is bound with its present task. It says whether the task is still the pod's. If the task has
// ended by an accident while the Binding was on its way, the pod is Unheld from now on.
func (l *Ledger) Bound(uid types.UID, taskID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.pods[uid]
	if t == nil || t.ID != taskID {
		return false
	}
	if !t.Bound && t.State == Terminal && EndingOf(t.Last, false) != PodsEnd {
		delete(l.tasks, t.ID)
		t.Bound = true
		l.move(t, Unheld)
		return true
	}
	if !t.Bound {
		l.observe(WasBound, t, t.State, t.ChangedAt)
		if t.killSent.IsZero() {
			t.KillSince, t.KillGrace = time.Time{}, nil // it was to end because nobody seemed to bind the pod
		}
	}
	t.Bound = true
	delete(l.inFlight, t.UID)
	t.changed()
	return true
}

// Unbound notes that a pod certainly is not bound by us after all; its task is to be killed.
func (l *Ledger) Unbound(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.pods[uid]; t != nil {
		t.Bound = false
		if t.State.Sent() {
			l.inFlight[uid] = t
		}
		l.kill(t, nil)
	}
}

// PodGone notes that a pod was deleted, or that it is complete. What it only claimed or was charged for is free; a task
// that Mesos may know is killed by and by, if its executor does not report its end before.
func (l *Ledger) PodGone(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unwait(uid)
	t := l.pods[uid]
	if t == nil || !t.PodGone.IsZero() {
		return
	}
	t.PodGone = l.options.Clock.Now()
	l.heed[t.UID] = t
	l.observe(Left, t, t.State, t.ChangedAt)
	switch {
	case t.State == Unheld || t.State == Terminal:
		l.forget(t)
	case t.State == Claimed && t.Bound:
		l.forget(t)
	default:
		// A claim in its binding cycle is released by Unreserve, which knows whether the ACCEPT has gone out.
		t.changed()
	}
}

// Resize changes what a pod without a task is to be held with. A task that Mesos has cannot be resized.
func (l *Ledger) Resize(uid types.UID, amounts resources.Amounts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.pods[uid]
	if t == nil || t.State != Unheld || t.Need.Amounts == amounts {
		return
	}
	if a := l.agents[t.AgentID]; a != nil {
		p := a.pool(poolOf(t.Need))
		p.claimed = p.claimed.Sub(t.Need.Amounts).Add(amounts)
		l.grow(a)
	}
	t.Need.Amounts = amounts
}

// Reclaim turns an Unheld record into a claim for a new attempt on the agent that serves the pod's node now, without
// asking for room: its pod runs there and uses the room already. ok is false if the pod is not Unheld, and while a live task
// of it is known that may hold it.
func (l *Ledger) Reclaim(uid types.UID) (t Task, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	if r == nil || r.State != Unheld || !r.PodGone.IsZero() {
		return Task{}, false
	}
	for _, stranger := range l.strangers {
		if l.mayHold(stranger, r) {
			return Task{}, false
		}
	}
	if a := l.current(r.Node); a != nil {
		l.transfer(r, a)
	}
	r.ClaimedAt = l.options.Clock.Now()
	l.move(r, Claimed)
	return *r, true
}

// GiveUp turns the claim of a bound pod back into Unheld after an attempt to hold it anew has failed.
func (l *Ledger) GiveUp(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.pods[uid]; t != nil && t.State == Claimed && t.Bound {
		l.move(t, Unheld)
	}
}

// kill notes the wish that a task ends. It is state, not a message: KILL is sent until the task has ended.
func (l *Ledger) kill(t *Task, grace *time.Duration) {
	if t.KillSince.IsZero() {
		t.KillSince = l.options.Clock.Now()
		l.observe(KillWanted, t, t.State, t.ChangedAt)
	}
	l.heed[t.UID] = t
	if grace != nil && (t.KillGrace == nil || *grace < *t.KillGrace) {
		t.KillGrace = grace
		t.killSent = time.Time{}
	}
	t.changed()
}

// Kill notes the wish that a pod's task ends.
func (l *Ledger) Kill(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.pods[uid]; t != nil && t.State != Terminal {
		l.kill(t, nil)
	}
}

// Doomed is a task that is to be killed.
type Doomed struct {
	TaskID, AgentID string
	Grace           *time.Duration
}

// Dooms returns the tasks to send a KILL for now: those to be killed, and those whose pod has been gone for longer than
// patience, unless a KILL went out within the last repeat.
func (l *Ledger) Dooms(patience, repeat time.Duration) []Doomed {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.options.Clock.Now()
	var out []Doomed
	for _, t := range l.heeded() {
		if !t.State.Sent() || t.State == Unclear {
			continue // an Unclear launch is fenced first: a KILL says nothing of an ACCEPT that may still come
		}
		gone := !t.PodGone.IsZero() && (!t.Bound || now.Sub(t.PodGone) >= patience)
		if t.KillSince.IsZero() && !gone || now.Sub(t.killSent) < repeat {
			continue
		}
		t.killSent = now
		grace := t.KillGrace
		if grace == nil { // 0 would be a deletion by force, which nobody has asked for
			own := max(t.Grace, time.Second)
			grace = &own
		}
		out = append(out, Doomed{t.ID, t.AgentID, grace})
	}
	for _, s := range l.strangers {
		if s.kill && now.Sub(s.killSent) >= repeat {
			s.killSent = now
			out = append(out, Doomed{TaskID: s.TaskID, AgentID: s.AgentID})
		}
	}
	return out
}

// Settled says whether a pod may be scheduled: no earlier task of it may still live. If not, why tells what is waited
// for.
func (l *Ledger) Settled(uid types.UID) (why string, settled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.pods[uid]; t != nil {
		switch t.State {
		case Unreachable:
			return fmt.Sprintf("an earlier Mesos task of this pod may live on node %s, whose agent the master cannot reach or does not know: waiting until the master can tell", t.Node), false
		case Restored, Launching, Unclear:
			return fmt.Sprintf("an earlier Mesos task of this pod may have been launched on node %s: waiting for the master's word", t.Node), false
		}
		return fmt.Sprintf("waiting for the end of this pod's earlier Mesos task on node %s", t.Node), false
	}
	for _, s := range l.strangers {
		if s.UID == uid {
			return "waiting for the end of a Mesos task that was launched for this pod before", false
		}
	}
	return "", true
}
