// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// convert handles RESERVE, UNRESERVE, CREATE and DESTROY: it changes the shape of resources in the pool and in the
// agent's total. from are the resources as they are (for the undoing kinds), to as they become (for the others).
func (a *acceptance) convert(op *mesos.Offer_Operation, from, to []mesos.Resource, kind string) {
	given := from
	if given == nil {
		given = to
	}
	fail := func(text string) {
		if op.ID != nil {
			a.m.operationStatus(a.f, op.ID, mesos.OPERATION_ERROR, text)
		}
	}
	if text := validateResourceList(given); text != "" {
		fail(fmt.Sprintf("Invalid %s operation: %s", kind, text))
		return
	}
	changed := newBag(a.inject(given))
	other := make(bag, len(changed))
	for i := range changed {
		other[i] = changed[i]
		shape := *changed[i].shape
		if kind == "CREATE" || kind == "DESTROY" {
			shape.Disk = withoutVolume(shape.Disk)
			shape.Shared = nil
		} else {
			if len(shape.Reservations) == 0 {
				fail(fmt.Sprintf("Invalid %s operation: Resource %s is not dynamically reserved", kind, changed[i].text()))
				return
			}
			top := shape.Reservations[len(shape.Reservations)-1]
			if top.GetType() != mesos.Resource_ReservationInfo_DYNAMIC {
				fail(fmt.Sprintf("Invalid %s operation: Resource %s is not dynamically reserved", kind, changed[i].text()))
				return
			}
			if kind == "RESERVE" {
				if text := a.reservable(&changed[i], &top); text != "" {
					fail("Invalid RESERVE operation: " + text)
					return
				}
			}
			shape.Reservations = shape.Reservations[:len(shape.Reservations)-1]
		}
		other[i].shape, other[i].key = &shape, keyOf(&shape)
	}
	before, after := other, changed
	if kind == "UNRESERVE" || kind == "DESTROY" {
		before, after = changed, other
	}
	if !a.pool.contains(before) {
		fail(fmt.Sprintf("Invalid %s operation: %s does not contain %s", kind, a.pool.inOfferOrder().text(), before.text()))
		return
	}
	a.pool = a.pool.minus(before).plus(after)
	a.m.alloc.convert(a.f, a.v, before, after)
	if op.ID != nil {
		a.m.operationStatusOf(a.f, a.v, op.ID, mesos.OPERATION_FINISHED, "")
	}
}

// reservable is what operation::validate says of one resource of a RESERVE whose topmost reservation is top.
func (a *acceptance) reservable(r *resource, top *mesos.Resource_ReservationInfo) string {
	if principal := a.f.principalOrEmpty(); principal != "" {
		switch {
		case top.Principal == nil:
			return fmt.Sprintf("A reserve operation was attempted by principal '%s', but there is a reserved resource in the request with no principal set", principal)
		case top.GetPrincipal() != principal:
			return fmt.Sprintf("A reserve operation was attempted by authenticated principal '%s', which does not match a reserved resource in the request with principal '%s'", principal, top.GetPrincipal())
		}
	}
	if r.key.role != top.GetRole() {
		return fmt.Sprintf("A reserve operation was attempted for a resource with role '%s', but the resource was allocated to role '%s'", top.GetRole(), r.key.role)
	}
	return ""
}

func (f *framework) principalOrEmpty() string { return f.info.GetPrincipal() }

func withoutVolume(d *mesos.Resource_DiskInfo) *mesos.Resource_DiskInfo {
	if d == nil || d.Source == nil {
		return nil
	}
	return &mesos.Resource_DiskInfo{Source: d.Source}
}
