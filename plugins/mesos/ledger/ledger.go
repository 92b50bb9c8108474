// SPDX-License-Identifier: Apache-2.0

// Package ledger is the one book of what Mesos offers and what pods of ours hold: agents, offers, claims, tasks and
// their states, waiting pods. It stands under one lock, does no I/O, starts no goroutine and takes its clock as an
// argument, so that every rule in it is a table test.
//
// Claims and tasks are one record, a Task, that belongs to a pod's UID: the hand-over from claim to task is where such
// systems lose things.
package ledger

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// Options are the fixed properties of a ledger.
type Options struct {
	Clock clock.PassiveClock
	// NodeName returns the node that an agent serves; "" when the offer does not tell.
	NodeName func(*mesos.Offer) string
	// Executor describes the executors that will be launched.
	Executor taskinfo.Executor
	// ReturnTime is how long the rest of an accepted offer is expected back. Pods may be reserved on it meanwhile.
	ReturnTime time.Duration
	// Observe hears each step of each pod's journey, if it is set. It is called under the ledger's lock: it must be short,
	// and must not call the ledger.
	Observe func(Step)
}

// Ledger is safe for use by many goroutines. Nothing it does waits for anything but its own lock.
type Ledger struct {
	options Options

	mu           sync.Mutex
	version      uint64 // grows with every change of headroom
	connected    bool
	reconciling  bool
	subscription int // counts subscriptions: offers die with theirs
	agents       map[string]*agent
	byNode       map[string][]*agent
	offers       map[string]*offer
	rescinded    *recent // offers rescinded before they were seen
	pods         map[types.UID]*Task
	claims       map[types.UID]*Task // those of pods that are Claimed
	inFlight     map[types.UID]*Task // those that Mesos may know while their pods are not bound
	counts       [Terminal + 1]int
	tasks        map[string]*Task
	ended        *recent // task ids that ended: terminal is final
	// endedExecutors are ids of executors that ended, or whose launch failed. An id is used once.
	endedExecutors *recent
	strangers      map[string]*Stranger
	freed          []Change // see Freed
	waiting        map[types.UID]*Waiting
	nominated      map[types.UID]*Waiting  // those of them that are nominated for a node
	entered        map[types.UID]time.Time // pods in the scheduling queue that have yet to be tried, and since when
	trying         types.UID               // the pod whose scheduling cycle was the last to begin
	attempt        int64
	sending        int // batches whose ACCEPT has no answer yet
	fates          Fates
	holder         atomic.Pointer[resources.Holder]
	reserved       map[hold]struct{} // see Held

	heed     map[types.UID]*Task // see heeded
	timed    map[string]*agent   // those that time alone changes something for: rests of offers to come, windows to end
	dirty    []*agent            // those that have changed since the last snapshot
	scratch  View                // of the agent that is claimed on: a claim needs no view of its own
	snapshot atomic.Pointer[Snapshot]
}

// How many ids of ended tasks and of unseen rescinded offers are remembered.
const (
	rememberEnded     = 1 << 17
	rememberRescinded = 1 << 10
	rememberExecutors = 1 << 14
)

// New returns an empty ledger.
func New(options Options) *Ledger {
	l := &Ledger{
		options:   options,
		agents:    map[string]*agent{},
		byNode:    map[string][]*agent{},
		offers:    map[string]*offer{},
		rescinded: newRecent(rememberRescinded),
		pods:      map[types.UID]*Task{},
		claims:    map[types.UID]*Task{},
		inFlight:  map[types.UID]*Task{},
		tasks:     map[string]*Task{},
		ended:     newRecent(rememberEnded),

		endedExecutors: newRecent(rememberExecutors),
		strangers:      map[string]*Stranger{},
		waiting:        map[types.UID]*Waiting{},
		nominated:      map[types.UID]*Waiting{},
		entered:        map[types.UID]time.Time{},
		reserved:       map[hold]struct{}{},
		heed:           map[types.UID]*Task{},
		timed:          map[string]*agent{},
	}
	l.snapshot.Store(emptySnapshot)
	return l
}

// Fates counts what became of offers: Received = Held + Accepted + Declined + Rescinded + Lost at any time.
type Fates struct {
	Received, Held, Accepted, Declined, Rescinded, Lost int64
}

// Fates returns the counts since the ledger was made.
func (l *Ledger) Fates() Fates {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fates
	f.Held = int64(len(l.offers))
	return f
}

// SetConnected says whether the framework is subscribed. Offers die with the subscription; so does what was expected
// to come back.
func (l *Ledger) SetConnected(connected bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connected = connected
	l.version++
	if connected {
		l.subscription++
		return
	}
	l.fates.Lost += int64(len(l.offers))
	l.offers = map[string]*offer{}
	for _, a := range l.agents {
		a.offers = map[string]*offer{}
		for _, p := range a.pools {
			p.forgetOffers()
		}
		l.touch(a)
	}
}

// Connected says whether the framework is subscribed.
func (l *Ledger) Connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.connected
}

// Subscription returns the number of the present subscription, 0 if there is none.
func (l *Ledger) Subscription() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.connected {
		return 0
	}
	return l.subscription
}

// touch notes that an agent has changed.
func (l *Ledger) touch(a *agent) {
	if !a.dirty {
		a.dirty = true
		l.dirty = append(l.dirty, a)
	}
	a.info = nil
}

// grow notes that an agent has more room than before, or may be used again.
func (l *Ledger) grow(a *agent) {
	l.version++
	a.grew = l.version
	l.touch(a)
}

// nextAttempt returns a number for a task id that no earlier life of the scheduler has used for the same pod.
func (l *Ledger) nextAttempt() int64 {
	l.attempt = max(l.attempt+1, l.options.Clock.Now().UnixMilli())
	return l.attempt
}

// recent remembers the last n strings added.
type recent struct {
	ring []string
	next int
	set  map[string]struct{}
}

func newRecent(n int) *recent {
	return &recent{ring: make([]string, 0, 16), set: map[string]struct{}{}, next: -n}
}

func (r *recent) add(s string) {
	if _, ok := r.set[s]; ok {
		return
	}
	r.set[s] = struct{}{}
	if r.next < 0 { // not full yet
		r.ring = append(r.ring, s)
		r.next++
		return
	}
	delete(r.set, r.ring[r.next])
	r.ring[r.next] = s
	r.next = (r.next + 1) % len(r.ring)
}

func (r *recent) has(s string) bool { _, ok := r.set[s]; return ok }

// PoolKey names the part of an agent's room that a pod may use: one role's offers, regular or revocable resources.
type PoolKey struct {
	Role      string
	Revocable bool
}

func poolOf(n resources.Need) PoolKey { return PoolKey{Role: n.Role, Revocable: n.Revocable} }
