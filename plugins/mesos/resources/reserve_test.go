// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

func TestReserve(t *testing.T) {
	dynamic, static := mesos.Resource_ReservationInfo_DYNAMIC, mesos.Resource_ReservationInfo_STATIC
	holder := Holder{Principal: "p", Cluster: "c1"}
	with := func(role string, change ...func(*mesos.Resource)) mesos.Resource {
		r := res(t, "cpus:1")[0]
		r.AllocationInfo = &mesos.Resource_AllocationInfo{Role: &role}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	reserved := func(kind mesos.Resource_ReservationInfo_Type, role string) func(*mesos.Resource) {
		return func(r *mesos.Resource) {
			r.Reservations = append(r.Reservations, mesos.Resource_ReservationInfo{Type: &kind, Role: &role})
		}
	}
	tests := []struct {
		name string
		r    mesos.Resource
		ok   bool
	}{
		{name: "unreserved", r: with("a/b"), ok: true},
		{name: "reserved for a parent", r: with("a/b", reserved(static, "a")), ok: true},
		{name: "reserved for the role", r: with("a/b", reserved(static, "a/b"))},
		{name: "reserved for the role by refinement", r: with("a/b", reserved(static, "a"), reserved(dynamic, "a/b"))},
		{name: "reserved for the role in the old form", r: with("a", func(r *mesos.Resource) { r.Role = ptr.To("a") })},
		{name: "revocable", r: with("a", func(r *mesos.Resource) { r.Revocable = &mesos.Resource_RevocableInfo{} })},
		{name: "role of everybody", r: with("*")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, ok := holder.Reserve(test.r, "g1")
			if ok != test.ok {
				t.Fatalf("reserved: %v, want %v", ok, test.ok)
			}
			if !ok {
				return
			}
			top := got.Reservations[len(got.Reservations)-1]
			if top.GetRole() != test.r.AllocationInfo.GetRole() || top.GetType() != dynamic || top.GetPrincipal() != "p" {
				t.Errorf("reservation %v", top)
			}
			// What was reserved is found again, and is as it was below.
			bare, held := holder.Bare([]mesos.Resource{got, test.r})
			if len(held) != 1 || held[0].Group != "g1" || !held[0].Resource.Equal(&got) {
				t.Errorf("held: %v", held)
			}
			if !bare[0].Equal(&test.r) || !bare[1].Equal(&test.r) {
				t.Errorf("bare: %v", bare)
			}
		})
	}
	// Reservations of others are left alone, whatever they carry.
	mine, _ := holder.Reserve(with("a"), "g1")
	for _, other := range []Holder{{Principal: "q", Cluster: "c1"}, {Principal: "p", Cluster: "c2"}, {Principal: "p"}, {}} {
		offered := []mesos.Resource{mine}
		if bare, held := other.Bare(offered); len(held) != 0 || cmp.Diff(offered, bare) != "" {
			t.Errorf("%v takes a reservation of %v for its own", other, holder)
		}
	}
	if bare, held := holder.Bare([]mesos.Resource{with("a", reserved(dynamic, "a"))}); len(held) != 0 || len(bare[0].Reservations) != 1 {
		t.Error("a reservation without labels is taken for one of ours")
	}
	none := Holder{Cluster: "c1"}
	if r, ok := none.Reserve(with("a"), "g"); !ok || r.Reservations[0].Principal != nil {
		t.Error("without a principal none is set")
	}
}
