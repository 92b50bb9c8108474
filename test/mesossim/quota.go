// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// quota holds a role's limits in thousandths, by resource name.
type quota struct {
	limits     map[string]int64
	guarantees map[string]int64
}

func parseQuota(text string) *quota {
	q := &quota{limits: map[string]int64{}, guarantees: map[string]int64{}}
	rs, err := ParseResources(text)
	if err != nil {
		return q
	}
	for i := range rs {
		q.limits[rs[i].Name] = toMilli(rs[i].GetScalar().GetValue())
	}
	return q
}

// headroom is what a role may still get under its limits.
type headroom struct{ left map[string]int64 }

// headrooms computes the room below each limited role's limits; roles without limits are absent.
func (al *allocator) headrooms() map[string]*headroom {
	if len(al.m.registry.quota) == 0 {
		return nil
	}
	out := map[string]*headroom{}
	for role, q := range al.m.registry.quota {
		if len(q.limits) == 0 {
			continue
		}
		h := &headroom{left: map[string]int64{}}
		used := al.subtree(role).scalars
		for name, limit := range q.limits {
			h.left[name] = max(limit-used[name], 0)
		}
		out[role] = h
	}
	return out
}

// shrink cuts limited scalars down to what is left; what has no limit passes while any limited resource is left.
func (h *headroom) shrink(b bag) bag {
	left := map[string]int64{}
	for name, v := range h.left {
		left[name] = v
	}
	var limited, free bag
	for i := range b {
		r := b[i]
		room, ok := left[r.key.name]
		if !ok || r.key.kind != mesos.SCALAR {
			free = append(free, r)
			continue
		}
		if room <= 0 {
			continue
		}
		if r.milli > room {
			r.milli = room
		}
		left[r.key.name] -= r.milli
		limited = append(limited, r)
	}
	if len(limited) == 0 {
		return nil
	}
	return append(free, limited...)
}

func (h *headroom) take(b bag) {
	for i := range b {
		if _, ok := h.left[b[i].key.name]; ok && b[i].key.kind == mesos.SCALAR {
			h.left[b[i].key.name] -= b[i].milli
		}
	}
}

// enforceQuota rescinds offers until no role holds more than its limits.
func (m *master) enforceQuota(role string) {
	q := m.registry.quota[role]
	if q == nil {
		return
	}
	over := func() bool {
		used := m.alloc.subtree(role).scalars
		for name, limit := range q.limits {
			if used[name] > limit {
				return true
			}
		}
		return false
	}
	for _, o := range sortedOffers(m.offers) {
		if o.role != role && !hasPrefixRole(o.role, role) {
			continue
		}
		if !over() {
			return
		}
		m.rescind(o)
	}
}

func hasPrefixRole(role, parent string) bool {
	return len(role) > len(parent) && role[:len(parent)] == parent && role[len(parent)] == '/'
}
