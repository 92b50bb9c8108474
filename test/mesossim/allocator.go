// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"slices"
	"sort"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// The allocator is Mesos' hierarchical one: in a run, each agent's free resources go whole to the first eligible
// framework in DRF order of roles and frameworks. A batch looks at all agents that have something free; events look at the
// agents concerned.
type allocator struct {
	m        *master
	free     map[*agentView]struct{} // active agents with something free
	total    map[string]int64        // scalars of all agents, by name
	roles    map[string]*share       // of all frameworks together
	minimum  []bag
	pending  bool
	whole    bool // the pending run looks at all agents
	touched  map[*agentView]struct{}
	stop     func()
	finished bool
}

// share is what DRF compares.
type share struct {
	scalars     map[string]int64
	allocations int
}

// refusal is an offer filter.
type refusal struct {
	resources bag // without allocation
	until     time.Time
}

func newAllocator(m *master) *allocator {
	al := &allocator{m: m, free: map[*agentView]struct{}{}, total: map[string]int64{}, roles: map[string]*share{}, touched: map[*agentView]struct{}{}}
	for _, group := range strings.Split(m.c.opts.MinAllocatable, "|") {
		rs, err := ParseResources(group)
		if err == nil {
			al.minimum = append(al.minimum, newBag(rs))
		}
	}
	al.scheduleBatch()
	return al
}

func (al *allocator) end() {
	al.finished = true
	al.stop()
}

func (al *allocator) scheduleBatch() {
	al.stop = al.m.c.after(al.m.c.timing.AllocationInterval, func() {
		if al.finished {
			return
		}
		al.run(al.candidates(nil))
		al.scheduleBatch()
	})
}

// request asks for an event-driven run over the agents, or over all with nil. Requests of one moment make one run.
func (al *allocator) request(v *agentView) {
	if v == nil {
		al.whole = true
	} else {
		al.touched[v] = struct{}{}
	}
	if al.pending {
		return
	}
	al.pending = true
	al.m.c.post(func() {
		if al.finished {
			return
		}
		only := al.touched
		if al.whole {
			only = nil
		}
		al.pending, al.whole, al.touched = false, false, map[*agentView]struct{}{}
		al.run(al.candidates(only))
	})
}

// candidates lists the agents that have something free, in random order.
func (al *allocator) candidates(only map[*agentView]struct{}) []*agentView {
	var out []*agentView
	if only != nil {
		for v := range only {
			if _, ok := al.free[v]; ok {
				out = append(out, v)
			}
		}
	} else {
		out = make([]*agentView, 0, len(al.free))
		for v := range al.free {
			out = append(out, v)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].serial < out[j].serial })
	al.m.c.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// update keeps the set of agents with free resources.
func (al *allocator) update(v *agentView) {
	if v.offerable() && len(v.free) > 0 && al.m.agents[v.id] == v {
		al.free[v] = struct{}{}
	} else {
		delete(al.free, v)
	}
}

// run is one allocation over the agents. Each framework gets one OFFERS event with all its offers.
func (al *allocator) run(agents []*agentView) {
	m := al.m
	m.c.records.counters.Allocations++
	var frameworks []*framework // in order of their first offer
	offers := map[*framework][]mesos.Offer{}
	order := al.order()
	limits := al.headrooms()
	for _, v := range agents {
		for changed := true; changed && len(v.free) > 0; {
			changed = false
			for _, slot := range order {
				resources := al.eligible(slot, v, limits[slot.role])
				if len(resources) == 0 {
					continue
				}
				allocated := resources.allocated(slot.role)
				al.allocate(slot.f, v, allocated)
				if len(offers[slot.f]) == 0 {
					frameworks = append(frameworks, slot.f)
				}
				if l := limits[slot.role]; l != nil {
					l.take(resources)
				}
				offers[slot.f] = append(offers[slot.f], m.makeOffer(slot.f, v, slot.role, allocated))
				if len(order) > 1 {
					order = al.order()
				}
				changed = len(v.free) > 0
				break
			}
		}
	}
	for _, f := range frameworks {
		f.send(&scheduler.Event{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: offers[f]}})
	}
	m.inverseRun()
}

// slot is a framework in one of its roles.
type slot struct {
	f    *framework
	role string
}

// order lists all active slots: roles by DRF, within a role its frameworks by DRF.
func (al *allocator) order() []slot {
	byRole := map[string][]*framework{}
	for _, f := range al.m.frameworks {
		if !f.active || !f.connected {
			continue
		}
		for _, role := range f.roles {
			if !f.suppressed[role] {
				byRole[role] = append(byRole[role], f)
			}
		}
	}
	if len(byRole) == 0 {
		return nil
	}
	var out []slot
	for _, role := range al.sortRoles(byRole) {
		frameworks := byRole[role]
		sort.Slice(frameworks, func(i, j int) bool {
			return al.less(frameworks[i].share[role], frameworks[i].id, 1, frameworks[j].share[role], frameworks[j].id, 1)
		})
		for _, f := range frameworks {
			out = append(out, slot{f, role})
		}
	}
	return out
}

// roleNode is a node of the tree of hierarchical roles.
type roleNode struct {
	path     string
	share    *share
	children []*roleNode
	leaf     bool
}

// sortRoles walks the tree of roles, at each level in DRF order.
func (al *allocator) sortRoles(active map[string][]*framework) []string {
	root := &roleNode{}
	nodes := map[string]*roleNode{"": root}
	for _, role := range sortedKeys(active) {
		parent := root
		parts := strings.Split(role, "/")
		for i := range parts {
			path := strings.Join(parts[:i+1], "/")
			n := nodes[path]
			if n == nil {
				n = &roleNode{path: path, share: al.subtree(path)}
				nodes[path] = n
				parent.children = append(parent.children, n)
			}
			parent = n
		}
		parent.leaf = true
	}
	var out []string
	var walk func(n *roleNode)
	walk = func(n *roleNode) {
		if n.leaf && len(n.children) == 0 {
			out = append(out, n.path)
			return
		}
		children := n.children
		if n.leaf { // the role's own frameworks compete with those of its sub-roles
			children = append(slices.Clone(children), &roleNode{path: n.path, share: al.roles[n.path], leaf: true})
		}
		sort.SliceStable(children, func(i, j int) bool {
			return al.less(children[i].share, children[i].path, al.weight(children[i].path), children[j].share, children[j].path, al.weight(children[j].path))
		})
		for _, child := range children {
			walk(child)
		}
	}
	walk(root)
	return out
}

// subtree sums the allocations of a role and all below it.
func (al *allocator) subtree(path string) *share {
	sum := &share{scalars: map[string]int64{}}
	for role, s := range al.roles {
		if role == path || strings.HasPrefix(role, path+"/") {
			sum.allocations += s.allocations
			for name, v := range s.scalars {
				sum.scalars[name] += v
			}
		}
	}
	return sum
}

func (al *allocator) weight(role string) float64 {
	if w, ok := al.m.registry.weights[role]; ok && w > 0 {
		return w
	}
	return 1
}

// less compares dominant shares, then the number of allocations, then the names.
func (al *allocator) less(a *share, aName string, aWeight float64, b *share, bName string, bWeight float64) bool {
	x, y := al.dominant(a)/aWeight, al.dominant(b)/bWeight
	if x != y {
		return x < y
	}
	var m, n int
	if a != nil {
		m = a.allocations
	}
	if b != nil {
		n = b.allocations
	}
	if m != n {
		return m < n
	}
	return aName < bName
}

func (al *allocator) dominant(s *share) float64 {
	if s == nil {
		return 0
	}
	dominant := 0.0
	for name, v := range s.scalars {
		if total := al.total[name]; total > 0 {
			dominant = max(dominant, float64(v)/float64(total))
		}
	}
	return dominant
}

// eligible returns what of the agent's free resources the slot may be offered now.
func (al *allocator) eligible(s slot, v *agentView, limit *headroom) bag {
	f := s.f
	if !f.constraints.allow(s.role, &v.info) {
		return nil
	}
	if v.hasGPUs && !f.has(mesos.FrameworkInfo_Capability_GPU_RESOURCES) {
		return nil
	}
	if al.remote(v) && !f.has(mesos.FrameworkInfo_Capability_REGION_AWARE) {
		return nil
	}
	resources := v.free
	if v.plain && len(al.m.registry.quota) == 0 {
		// nothing to be stripped: the common case, without a copy
	} else {
		resources = v.free.filter(func(r *resource) bool {
			if owner := r.reservedFor(); owner != "" && owner != s.role && !strings.HasPrefix(s.role, owner+"/") {
				return false
			}
			if r.key.revocable && !f.has(mesos.FrameworkInfo_Capability_REVOCABLE_RESOURCES) {
				return false
			}
			if r.key.shared && !f.has(mesos.FrameworkInfo_Capability_SHARED_RESOURCES) {
				return false
			}
			return len(r.shape.Reservations) < 2 || f.has(mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT)
		})
		if limit != nil {
			resources = limit.shrink(resources)
		}
	}
	if len(resources) == 0 || !al.allocatable(f, s.role, resources) || al.filtered(f, s.role, v, resources) {
		return nil
	}
	return resources
}

func (al *allocator) remote(v *agentView) bool {
	mine, its := al.m.c.opts.Region, v.info.GetDomain().GetFaultDomain()
	return mine != "" && its != nil && its.Region.Name != mine
}

// allocatable says whether resources reach one of the minimums.
func (al *allocator) allocatable(f *framework, role string, resources bag) bool {
	if filters, ok := f.info.OfferFilters[role]; ok && filters.MinAllocatableResources != nil {
		groups := filters.MinAllocatableResources.Quantities
		if len(groups) == 0 {
			return true
		}
		for _, group := range groups {
			all := true
			for name, v := range group.Quantities {
				all = all && resources.scalar(name) >= toMilli(v.Value)
			}
			if all {
				return true
			}
		}
		return false
	}
	if len(al.minimum) == 0 {
		return true
	}
	for _, group := range al.minimum {
		all := true
		for i := range group {
			all = all && resources.scalar(group[i].key.name) >= group[i].milli
		}
		if all {
			return true
		}
	}
	return false
}

// filtered says whether an offer filter blocks: it does if what was refused contains what is to be offered.
func (al *allocator) filtered(f *framework, role string, v *agentView, resources bag) bool {
	refusals := f.filters[role][v.id]
	if len(refusals) == 0 {
		return false
	}
	now := al.m.now()
	live := refusals[:0]
	blocked := false
	for _, r := range refusals {
		if now.After(r.until) { // a filter that ends with this very batch still blocks it
			continue
		}
		live = append(live, r)
		blocked = blocked || r.resources.contains(resources)
	}
	f.filters[role][v.id] = live
	return blocked
}
