// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"math"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// This file is the allocator's book-keeping: who holds what.

// allocate charges resources, which are allocated to a role, to a framework.
func (al *allocator) allocate(f *framework, v *agentView, allocated bag) {
	v.free = v.free.minus(allocated.allocated(""))
	al.charge(f, allocated, 1)
	al.update(v)
}

// readmit charges resources of tasks and executors that came with a re-registering agent.
func (al *allocator) readmit(f *framework, v *agentView, allocated bag) {
	v.free = v.free.minus(allocated.allocated(""))
	al.charge(f, allocated, 0)
	al.update(v)
}

// charge adds to the books of framework and role; count is 1 for an allocation of the allocator's own.
func (al *allocator) charge(f *framework, allocated bag, count int) {
	for i := range allocated {
		r := &allocated[i]
		al.book(f, r.key.role, r.key.name, r.key.kind, r.milli)
		if i == 0 && count > 0 {
			al.shareOf(f, r.key.role).allocations++
			al.roles[r.key.role].allocations++
		}
	}
	if len(allocated) > 0 { // all of it is allocated to one role
		role := allocated[0].key.role
		f.used[role] = f.used[role].plus(allocated)
	}
}

func (al *allocator) shareOf(f *framework, role string) *share {
	if f.share[role] == nil {
		f.share[role] = &share{scalars: map[string]int64{}}
	}
	if al.roles[role] == nil {
		al.roles[role] = &share{scalars: map[string]int64{}}
	}
	return f.share[role]
}

func (al *allocator) book(f *framework, role, name string, kind mesos.Value_Type, milli int64) {
	s := al.shareOf(f, role)
	if kind == mesos.SCALAR {
		s.scalars[name] += milli
		al.roles[role].scalars[name] += milli
	}
}

// recover takes resources back, and refuses them for a time if filters are given.
func (al *allocator) recover(f *framework, v *agentView, resources bag, filters *mesos.Filters) {
	if len(resources) == 0 {
		return
	}
	role := resources[0].key.role
	for i := range resources {
		r := &resources[i]
		al.book(f, r.key.role, r.key.name, r.key.kind, -r.milli)
	}
	f.used[role] = f.used[role].minus(resources)
	if al.m.agents[v.id] != v {
		return
	}
	plain := resources.allocated("")
	v.free = v.free.plus(plain)
	al.update(v)
	if filters == nil || !f.active {
		return
	}
	d := refuseDuration(filters)
	if d == 0 {
		return
	}
	d = max(d, al.m.c.timing.AllocationInterval)
	byAgent := f.filters[role]
	if byAgent == nil {
		byAgent = map[string][]refusal{}
		f.filters[role] = byAgent
	}
	byAgent[v.id] = append(byAgent[v.id], refusal{resources: plain, until: al.m.now().Add(d)})
}

func refuseDuration(filters *mesos.Filters) time.Duration {
	s := filters.GetRefuseSeconds()
	const year = 365 * 24 * time.Hour
	switch {
	case math.IsNaN(s) || s < 0:
		return 5 * time.Second
	case s > year.Seconds():
		return year
	}
	return time.Duration(s * float64(time.Second))
}

// addFramework makes a new framework take part.
func (al *allocator) addFramework(f *framework) {
	for _, role := range f.roles {
		al.shareOf(f, role)
	}
	if f.active {
		al.request(nil)
	}
}

// rolesChanged forgets filters and suppression of roles that the framework has given up. It triggers no run.
func (al *allocator) rolesChanged(f *framework, old []string) {
	for _, role := range old {
		if !slices.Contains(f.roles, role) {
			delete(f.filters, role)
			delete(f.suppressed, role)
		}
	}
}

// revive clears filters and suppression and looks at all agents. A role that the framework does not have makes the
// whole call void.
func (al *allocator) revive(f *framework, roles []string) {
	if !al.known(f, roles) {
		return
	}
	if len(roles) == 0 {
		roles = f.roles
	}
	for _, role := range roles {
		delete(f.filters, role)
		delete(f.suppressed, role)
	}
	clear(f.inverseFilters)
	al.request(nil)
}

func (al *allocator) suppress(f *framework, roles []string) {
	if !al.known(f, roles) {
		return
	}
	if len(roles) == 0 {
		roles = f.roles
	}
	for _, role := range roles {
		f.suppressed[role] = true
	}
}

func (al *allocator) known(f *framework, roles []string) bool {
	for _, role := range roles {
		if validateRole(role) != "" || !slices.Contains(f.roles, role) {
			return false
		}
	}
	return true
}

// addAgent makes an agent take part; what runs on it is charged by readmit before.
func (al *allocator) addAgent(v *agentView) {
	for i := range v.total {
		if v.total[i].key.kind == mesos.SCALAR {
			al.total[v.total[i].key.name] += v.total[i].milli
		}
	}
	v.classify()
	al.update(v)
	al.request(v)
}

func (al *allocator) removeAgent(v *agentView) {
	for i := range v.total {
		if v.total[i].key.kind == mesos.SCALAR {
			al.total[v.total[i].key.name] -= v.total[i].milli
		}
	}
	delete(al.free, v)
	delete(al.touched, v)
	for _, f := range al.m.frameworks {
		for _, byAgent := range f.filters {
			delete(byAgent, v.id)
		}
		delete(f.inverseFilters, v.id)
	}
}

// convert changes the shape of resources that a framework holds in an ACCEPT under way.
func (al *allocator) convert(f *framework, v *agentView, before, after bag) {
	role := before[0].key.role
	v.total = v.total.minus(before.allocated("")).plus(after.allocated(""))
	v.classify()
	f.used[role] = f.used[role].minus(before).plus(after)
}
