// SPDX-License-Identifier: Apache-2.0

package ledger

import "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"

// floor is what every agent of a chunk has. It tells that a pod fits all agents without a look at each of them, which in a
// cluster with room is the common case and most of what Filter would cost.
type floor struct {
	agents int
	calm   bool // no agent is in trouble or has a maintenance window
	pools  []poolFloor
	first  [1]poolFloor // where pools are, unless there are several
}

// poolFloor is the least headroom of a pool, and how many agents have the pool with an offer in it.
type poolFloor struct {
	PoolKey
	agents int
	least  resources.Amounts
}

// setFloor works out a chunk's floor.
func (c *chunk) setFloor() {
	f := &c.floor
	*f = floor{calm: true}
	f.pools = f.first[:0]
	for _, v := range c.views {
		if v == nil {
			continue
		}
		f.agents++
		f.calm = f.calm && v.Trouble == NoTrouble && v.Unavailable.Start.IsZero()
		for i := range v.pools {
			if v.pools[i].offers > 0 {
				f.add(&v.pools[i])
			}
		}
	}
}

func (f *floor) add(p *poolView) {
	for i := range f.pools {
		if known := &f.pools[i]; known.PoolKey == p.PoolKey {
			known.agents++
			known.least = known.least.Min(p.headroom)
			return
		}
	}
	f.pools = append(f.pools, poolFloor{p.PoolKey, 1, p.headroom})
}

// holds says whether a need fits each agent of the chunk.
func (f *floor) holds(need resources.Need) bool {
	if f.agents == 0 {
		return true
	}
	for i := range f.pools {
		if p := &f.pools[i]; p.PoolKey == poolOf(need) {
			return f.calm && p.agents == f.agents && need.Amounts.FitsIn(p.least)
		}
	}
	return false
}

// AllFit says whether a need certainly fits every agent of the snapshot; false says nothing. whole says that every node that
// has a place has an agent. Ports are not looked at: a need with ports is left to a look at each agent.
func (s *Snapshot) AllFit(need resources.Need) (fits, whole bool) {
	if len(need.Ports) > 0 || need.AnyPorts > 0 {
		return false, false
	}
	agents := 0
	for _, c := range s.chunks {
		if !c.floor.holds(need) {
			return false, false
		}
		agents += c.floor.agents
	}
	return true, agents == len(s.index)
}

// Place returns where a node's agent is found in this and every later snapshot, for At. Places are given once; Places
// counts, so that who keeps some can tell whether there are more.
func (s *Snapshot) Place(node string) (place int32, known bool) {
	place, known = s.index[node]
	return place, known
}

// Places grows whenever a node gets a place.
func (s *Snapshot) Places() uint64 { return s.grown }

// At is Node for a place; the place must be of this or an earlier snapshot.
func (s *Snapshot) At(place int32) *View { return s.chunks[place/chunkSize].views[place%chunkSize] }

// Note is a number that who uses snapshots may keep beside a view, such as what was worked out from it. It is 0 at first, is
// handed on to later snapshots, and begins anew when the view changes: to read it costs less than a look at the view. Any
// goroutine may read and write it, so it has to tell what it stands for.
func (s *Snapshot) Note(place int32) *uint64 {
	return &s.chunks[place/chunkSize].notes[place%chunkSize]
}
