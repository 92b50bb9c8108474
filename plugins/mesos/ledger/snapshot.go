// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

var emptyOffered resources.Offered

// Snapshot is the state of all agents at one moment. It is immutable; making the next one costs what changed since.
type Snapshot struct {
	Version   uint64
	Connected bool
	index     map[string]int32 // node name -> place; shared by snapshots until a node comes or goes
	chunks    []*chunk
	grown     uint64 // counts how often index was replaced
}

const chunkSize = 32

// chunk is a part of a snapshot that is copied as a whole when one of its views changes.
type chunk struct {
	views [chunkSize]*View
	notes [chunkSize]uint64 // see Note
	floor floor
}

// copied returns a copy to change. c may be nil.
func (c *chunk) copied() *chunk {
	if c == nil {
		return &chunk{}
	}
	made := &chunk{views: c.views}
	for i := range c.notes {
		made.notes[i] = atomic.LoadUint64(&c.notes[i])
	}
	return made
}

// set puts a view into its place, where nothing is noted any more.
func (c *chunk) set(at int32, v *View) { c.views[at], c.notes[at] = v, 0 }

var emptySnapshot = &Snapshot{index: map[string]int32{}}

// View is what Filter and Score see of the agent of one node.
type View struct {
	AgentID, Node string
	Trouble       Trouble
	Unavailable   Unavailability
	Grew          uint64
	Offers        int
	GPUs          bool // the agent has GPUs on offer
	pools         []poolView
	first         [1]poolView // where pools are, unless there are several
}

type poolView struct {
	PoolKey
	headroom, total resources.Amounts
	ready           resources.Amounts // of headroom, what live offers hold: it need not be waited for
	ports           resources.PortSet
	offers          int // live or expected
	open            bool
	last            resources.Amounts // of the last offers, for people
	lastAt          time.Time
	executor        resources.Amounts // of an executor that the next launch has to pay for
}

// Reason says why a need does not fit. The set is small and has no amounts in it, since kube-scheduler makes a histogram
// of reasons.
type Reason string

// The reasons of Filter.
const (
	Fits              Reason = ""
	ReasonNoAgent     Reason = "no Mesos agent is known for the node"
	ReasonNoOffer     Reason = "no offer from this Mesos agent"
	ReasonCPUs        Reason = "Insufficient cpus in Mesos offers"
	ReasonMem         Reason = "Insufficient mem in Mesos offers"
	ReasonDisk        Reason = "Insufficient disk in Mesos offers"
	ReasonGPUs        Reason = "Insufficient gpus in Mesos offers"
	ReasonPorts       Reason = "host port not in the offered ranges"
	ReasonUnreachable Reason = "Mesos agent is unreachable"
	ReasonDraining    Reason = "Mesos agent is draining"
	ReasonAmbiguous   Reason = "more than one Mesos agent claims to be this node"
	ReasonFailing     Reason = "launches on this Mesos agent failed, it is tried again later"
	ReasonMaintenance Reason = "Mesos agent is in a maintenance window, or soon will be"
)

// Snapshot returns the state of all agents now.
func (l *Ledger) Snapshot() *Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snapshotNow()
}

func (l *Ledger) snapshotNow() *Snapshot {
	old := l.snapshot.Load()
	if len(l.dirty) == 0 && old.Connected == l.connected {
		return old
	}
	now := l.options.Clock.Now()
	next := &Snapshot{Version: l.version, Connected: l.connected, index: old.index, chunks: slices.Clone(old.chunks), grown: old.grown}
	ownIndex := false
	for _, changed := range l.dirty {
		changed.dirty = false
		node := changed.node
		at, known := next.index[node]
		a := l.current(node)
		if !known {
			if a == nil {
				continue
			}
			if !ownIndex { // once, however many nodes are new
				next.index, ownIndex = maps.Clone(next.index), true
				next.grown++
			}
			at = next.place(node)
		}
		c := int(at / chunkSize)
		if next.chunks[c] == nil || c < len(old.chunks) && next.chunks[c] == old.chunks[c] {
			next.chunks[c] = next.chunks[c].copied()
		}
		var v *View
		if a != nil {
			v = l.viewOf(a, now)
		}
		next.chunks[c].set(at%chunkSize, v)
	}
	for c, made := range next.chunks {
		if c >= len(old.chunks) || made != old.chunks[c] {
			made.setFloor()
		}
	}
	clear(l.dirty) // it must keep no agent
	l.dirty = l.dirty[:0]
	l.snapshot.Store(next)
	return next
}

// place gives a new node a place; the index must be the snapshot's own. Places of nodes that are gone stay empty; a node that comes back takes its own.
func (s *Snapshot) place(node string) int32 {
	at := int32(len(s.index))
	s.index[node] = at
	if int(at)/chunkSize >= len(s.chunks) {
		s.chunks = append(s.chunks, nil)
	}
	return at
}

// Node returns the view of a node's agent, nil if none is known.
func (s *Snapshot) Node(name string) *View {
	at, ok := s.index[name]
	if !ok {
		return nil
	}
	return s.At(at)
}

// Each calls f for every known agent until it returns false.
func (s *Snapshot) Each(f func(*View) bool) {
	for _, c := range s.chunks {
		if c == nil {
			continue
		}
		for _, v := range c.views {
			if v != nil && !f(v) {
				return
			}
		}
	}
}

func (l *Ledger) viewOf(a *agent, now time.Time) *View {
	v := &View{}
	v.pools = v.first[:0]
	l.fillView(v, a, now)
	return v
}

// fillView makes v the view of an agent. It uses the memory of v's pools again.
func (l *Ledger) fillView(v *View, a *agent, now time.Time) {
	*v = View{AgentID: a.id, Node: a.node, Trouble: a.trouble, Unavailable: a.unavailable, Grew: a.grew, Offers: len(a.offers), pools: v.pools[:0]}
	for _, p := range a.pools {
		pv := poolView{PoolKey: p.key, headroom: p.headroom(l.options.Executor.Amounts, now), ports: p.freePorts(now), open: !p.claimed.IsZero()}
		pv.last, pv.lastAt = p.last, p.lastAt
		pv.total, pv.ready = p.offered.Amounts, p.offered.Amounts.Sub(p.claimed)
		switch p.executor.phase {
		case noExecutor:
			pv.executor = l.options.Executor.Amounts
			pv.ready = pv.ready.Sub(pv.executor)
		case executorLaunching:
			pv.ready = resources.Amounts{} // its answer has to come first
		}
		for _, o := range a.offers {
			if o.role == p.key.Role {
				pv.offers++
			}
		}
		if now.Before(p.until) && !p.expected.Empty() {
			pv.offers++
			pv.total = pv.total.Add(p.expected.Amounts)
		}
		v.GPUs = v.GPUs || pv.total.GPUs > 0
		v.pools = append(v.pools, pv)
	}
	slices.SortFunc(v.pools, func(x, y poolView) int {
		if x.Role != y.Role {
			return map[bool]int{true: -1, false: 1}[x.Role < y.Role]
		}
		return map[bool]int{true: 1, false: -1}[x.Revocable]
	})
}

func (v *View) pool(key PoolKey) *poolView {
	for i := range v.pools {
		if v.pools[i].PoolKey == key {
			return &v.pools[i]
		}
	}
	return nil
}

// Fit says whether the agent has room for a need, and if not, why. lead is how long before a maintenance window the
// agent gets no new tasks. It takes no lock and allocates nothing.
func (v *View) Fit(need resources.Need, lead time.Duration, now time.Time) Reason {
	return v.FitWith(need, lead, now, resources.Amounts{}, nil)
}

// FitWith is Fit with amounts and ports given back, as if tasks had ended.
func (v *View) FitWith(need resources.Need, lead time.Duration, now time.Time, extra resources.Amounts, extraPorts resources.PortSet) Reason {
	if v == nil {
		return ReasonNoAgent
	}
	switch v.Trouble {
	case AgentUnreachable:
		return ReasonUnreachable
	case AgentDraining:
		return ReasonDraining
	case AgentAmbiguous:
		return ReasonAmbiguous
	case AgentFailing:
		return ReasonFailing
	}
	if v.Unavailable.Covers(now, lead) {
		return ReasonMaintenance
	}
	p := v.pool(poolOf(need))
	room, ports, offers := extra, extraPorts, 0
	if p != nil {
		room = room.Add(p.headroom)
		offers = p.offers
	}
	if offers == 0 && extra.IsZero() {
		return ReasonNoOffer
	}
	switch {
	case need.CPUs > room.CPUs && need.CPUs > 0:
		return ReasonCPUs
	case need.Mem > room.Mem && need.Mem > 0:
		return ReasonMem
	case need.Disk > room.Disk && need.Disk > 0:
		return ReasonDisk
	case need.GPUs > room.GPUs && need.GPUs > 0:
		return ReasonGPUs
	}
	if need.AnyPorts > 0 && (p == nil || p.ports.Count() < need.AnyPorts+len(need.Ports)) {
		return ReasonPorts
	}
	for _, port := range need.Ports {
		if !(p != nil && p.ports.Has(port)) && !ports.Has(port) {
			return ReasonPorts
		}
	}
	return Fits
}

// Room returns what is on offer and what is free of it for a need's role, and whether claims stand on it already.
func (v *View) Room(need resources.Need) (total, free resources.Amounts, open bool) {
	if p := v.pool(poolOf(need)); p != nil {
		return p.total, p.headroom, p.open
	}
	return resources.Amounts{}, resources.Amounts{}, false
}

// Ready says whether a claim for a need could be launched at once: live offers hold it, beside the claims that stand on them
// already, and no answer has to be waited for.
func (v *View) Ready(need resources.Need) bool {
	p := v.pool(poolOf(need))
	return p != nil && !need.Amounts.IsZero() && need.Amounts.FitsIn(p.ready)
}

// Ports returns the free ports for a need's role.
func (v *View) Ports(need resources.Need) resources.PortSet {
	if p := v.pool(poolOf(need)); p != nil {
		return p.ports
	}
	return nil
}
