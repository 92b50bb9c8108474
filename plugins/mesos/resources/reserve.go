// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// Holder is in whose name room is reserved dynamically for pods that wait for each other.
type Holder struct {
	// Principal is the framework's, "" if it has none. The master wants it in reservations if the framework has one.
	Principal string
	// Cluster tells the reservations of one Kubernetes cluster from those of others in the same role.
	Cluster string
}

// Held is an offered resource with a reservation of ours on top, as it was offered.
type Held struct {
	// Group names whom it is reserved for.
	Group    string
	Resource mesos.Resource
}

// Reserve returns a resource, which is named as it is offered, with a reservation for a group on top. ok is false for what
// cannot be reserved: revocable resources, those of the role *, and those reserved for the role already, which no other
// role is offered anyway. The master wants the reservation's role to be the one that the resource is allocated to, and
// reservations that lie on each other to be for ever narrower roles (src/master/validation.cpp).
func (h Holder) Reserve(r mesos.Resource, group string) (reserved mesos.Resource, ok bool) {
	role := r.GetAllocationInfo().GetRole()
	if r.Revocable != nil || role == "" || role == "*" || r.Reservation != nil || r.Role != nil && *r.Role != "*" {
		return r, false
	}
	if n := len(r.Reservations); n > 0 && !strings.HasPrefix(role, r.Reservations[n-1].GetRole()+"/") {
		return r, false
	}
	dynamic := mesos.Resource_ReservationInfo_DYNAMIC
	info := mesos.Resource_ReservationInfo{Type: &dynamic, Role: &role, Labels: &mesos.Labels{Labels: []mesos.Label{
		{Key: wellknown.GangReservationLabel, Value: &group}, {Key: wellknown.ClusterReservationLabel, Value: &h.Cluster},
	}}}
	if h.Principal != "" {
		info.Principal = &h.Principal
	}
	r.Role = nil
	r.Reservations = append(append([]mesos.Resource_ReservationInfo(nil), r.Reservations...), info)
	return r, true
}

// groupOf returns whom a resource is reserved for by this holder; ok is false if it is not.
func (h Holder) groupOf(r *mesos.Resource) (group string, ok bool) {
	if len(r.Reservations) == 0 {
		return "", false
	}
	top := &r.Reservations[len(r.Reservations)-1]
	if top.GetType() != mesos.Resource_ReservationInfo_DYNAMIC || top.GetPrincipal() != h.Principal {
		return "", false
	}
	cluster := ""
	for _, l := range top.GetLabels().GetLabels() {
		switch l.Key {
		case wellknown.GangReservationLabel:
			group = l.GetValue()
		case wellknown.ClusterReservationLabel:
			cluster = l.GetValue()
		}
	}
	return group, group != "" && cluster != "" && cluster == h.Cluster
}

// Bare returns what is offered without this holder's own reservations, which it returns aside: UNRESERVE gives them back in
// the very ACCEPT that uses the resources, so that they count as if they were not there. offered is not changed.
func (h Holder) Bare(offered []mesos.Resource) (bare []mesos.Resource, held []Held) {
	bare = offered
	for i := range offered {
		group, ok := h.groupOf(&offered[i])
		if !ok {
			continue
		}
		if held == nil {
			bare = append([]mesos.Resource(nil), offered...)
		}
		held = append(held, Held{group, offered[i]})
		below := offered[i].Reservations[:len(offered[i].Reservations)-1]
		bare[i].Reservations = append([]mesos.Resource_ReservationInfo(nil), below...)
	}
	return bare, held
}
