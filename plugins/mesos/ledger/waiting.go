// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// Waiting is a pod that has been tried, or is about to be, and holds no claim. It is never changed once it is in the book: a
// change puts another one in its place.
type Waiting struct {
	Pod      *v1.Pod
	Need     resources.Need
	Priority int32
	Since    time.Time
	// Tried is the version of the snapshot that the pod was last tried with; 0 before the first try.
	Tried   uint64
	TriedAt time.Time
	// Blind says that what the agents have free was not known at the last try, and that this matters for the pod.
	Blind bool
	// Woken is when the pod was last woken, and WokenFor the version that it was woken for.
	Woken    time.Time
	WokenFor uint64
}

// Wait registers a pod as waiting and returns the snapshot to try it with. The two are one step: an offer that comes
// after it finds the pod registered with an older version.
func (l *Ledger) Wait(pod *v1.Pod, need resources.Need, priority int32) *Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	snapshot := l.snapshotNow()
	l.trying = pod.UID
	if t := l.pods[pod.UID]; t != nil {
		return snapshot
	}
	now := l.options.Clock.Now()
	w := l.wait(pod, need, priority, now)
	w.Tried, w.TriedAt, w.Blind = snapshot.Version, now, false
	return snapshot
}

// Enter notes that a pod has entered the scheduling queue and will be tried.
func (l *Ledger) Enter(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entered[uid] = l.options.Clock.Now()
}

// Quiet says whether no more claims on a part of an agent's room are to be expected at this moment, beside queued ones: no pod
// is about to be scheduled, and every claim is among those. It is false when that would take long to find out.
func (l *Ledger) Quiet(agentID string, key PoolKey, queued int) bool {
	const few, soon = 64, time.Minute
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 || len(l.entered) > few || len(l.claims) > few {
		return false
	}
	now := l.options.Clock.Now()
	for uid, since := range l.entered {
		if now.Sub(since) < soon {
			return false
		}
		delete(l.entered, uid) // it was deleted at that moment, or something else keeps it
	}
	n := 0
	for _, t := range l.claims {
		if t.AgentID == agentID && poolOf(t.Need) == key {
			n++
		}
	}
	return n <= queued
}

// Contested says whether room may be kept for another pod than the one with a UID: one that waits was nominated for a node,
// or, where pods are evicted for others, was tried before, so that room may be made for it.
func (l *Ledger) Contested(uid types.UID, evicts bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.nominated
	if evicts {
		of = l.waiting
	}
	_, itself := of[uid]
	return len(of) > 1 || len(of) == 1 && !itself
}

// TriedBlind notes that a waiting pod is being tried without knowing what the agents have free, so that nothing could be
// evicted for it. It is to be tried again when that is known, although no agent has more room then.
func (l *Ledger) TriedBlind(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.waiting[uid]; old != nil {
		w := *old
		w.Blind = true
		l.waiting[uid] = &w
	}
}

// Expect registers a pod that is held back, or was refused, because nothing is known of the agents at present: offers
// have yet to be asked for, or there is no subscription. It counts as not tried.
func (l *Ledger) Expect(pod *v1.Pod, need resources.Need, priority int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pods[pod.UID] != nil {
		return
	}
	l.wait(pod, need, priority, l.options.Clock.Now()).Tried = 0
}

// wait puts a record of a pod in the book, which the caller may complete under the same hold of the lock.
func (l *Ledger) wait(pod *v1.Pod, need resources.Need, priority int32, now time.Time) *Waiting {
	w := &Waiting{Since: now}
	if old := l.waiting[pod.UID]; old != nil {
		*w = *old
	}
	w.Pod, w.Need, w.Priority = pod, need, priority
	l.waiting[pod.UID] = w
	delete(l.entered, pod.UID)
	if delete(l.nominated, pod.UID); pod.Status.NominatedNodeName != "" {
		l.nominated[pod.UID] = w
	}
	return w
}

// unwait takes a pod out of the waiting ones.
func (l *Ledger) unwait(uid types.UID) {
	delete(l.waiting, uid)
	delete(l.nominated, uid)
	delete(l.entered, uid)
}

// NotWaiting notes that a pod no longer waits.
func (l *Ledger) NotWaiting(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unwait(uid)
}

// Queue returns the waiting pods, those of higher priority first, then the ones that wait longer.
func (l *Ledger) Queue() []Waiting {
	waiters := l.Waiters()
	out := make([]Waiting, len(waiters))
	for i, w := range waiters {
		out[i] = *w
	}
	return out
}

// Waiters is Queue without copies: what it returns must not be changed.
func (l *Ledger) Waiters() []*Waiting {
	out, _ := l.waiters()
	slices.SortFunc(out, Order)
	return out
}

// Order compares waiting pods: those of higher priority come first, then the ones that wait longer.
func Order(a, b *Waiting) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Since.Compare(b.Since), cmp.Compare(a.Pod.UID, b.Pod.UID))
}

// Idlers is Waiters, in no order, without the pods that are most likely in their scheduling cycle at this moment. waiting
// counts those, too.
func (l *Ledger) Idlers() (idle []*Waiting, waiting int) {
	all, latest := l.waiters()
	waiting = len(all)
	now := l.options.Clock.Now()
	return slices.DeleteFunc(all, func(w *Waiting) bool {
		within := cycle
		if w.Pod.UID == latest {
			within = longCycle // no other cycle has begun since
		}
		return w.Tried > 0 && now.Sub(w.TriedAt) < within
	}), waiting
}

// A pod that was tried within cycle is taken to be in its scheduling cycle still; the latest one within longCycle, which is
// how long a cycle takes in a large cluster with much to do.
const (
	cycle     = 10 * time.Millisecond
	longCycle = 30 * time.Millisecond
)

func (l *Ledger) waiters() (out []*Waiting, latest types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out = make([]*Waiting, 0, len(l.waiting))
	for _, w := range l.waiting {
		out = append(out, w)
	}
	return out, l.trying
}

// Wake notes that pods are woken for a version, and returns them without those whose records have changed meanwhile.
func (l *Ledger) Wake(waiters []*Waiting, version uint64) (pods []*v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.options.Clock.Now()
	for _, w := range waiters {
		if l.waiting[w.Pod.UID] == w {
			woken := *w
			woken.Woken, woken.WokenFor = now, version
			l.waiting[w.Pod.UID] = &woken
			pods = append(pods, w.Pod)
		}
	}
	return pods
}
