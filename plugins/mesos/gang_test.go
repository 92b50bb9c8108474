// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestGate(t *testing.T) {
	group := types.NamespacedName{Namespace: "ns", Name: "group"}
	launched := errors.New("not launched")
	tests := []struct {
		name    string
		arrive  []types.UID
		enough  int
		fail    error
		want    error
		waiting bool
	}{
		{name: "enough members live", arrive: []types.UID{"a", "b"}, enough: 2},
		{name: "the same member twice is one", arrive: []types.UID{"a", "a"}, enough: 2, waiting: true},
		{name: "one fails before", arrive: []types.UID{"a"}, enough: 2, fail: launched, want: launched},
		{name: "one fails when enough live", arrive: []types.UID{"a", "b"}, enough: 2, fail: launched},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var g gangs
			b := g.enter(group)
			for _, uid := range test.arrive {
				g.arrive(b, uid, test.enough)
			}
			if test.fail != nil {
				g.fail(group, b, test.fail)
			}
			if test.waiting {
				if closed(b.open) || closed(b.failed) {
					t.Fatal("the gate is settled, it should wait")
				}
				g.leave(group, b)
				return
			}
			if err := b.wait(t.Context(), time.Minute); !errors.Is(err, test.want) || test.want != nil && !errors.Is(err, errGang) {
				t.Errorf("wait returned %v, want %v", err, test.want)
			}
			if test.want != nil && g.enter(group) == b {
				t.Error("a member that enters after a failure meets the failed gate")
			}
			g.leave(group, b)
		})
	}
}

func TestGateIsForgotten(t *testing.T) {
	var g gangs
	group := types.NamespacedName{Namespace: "ns", Name: "group"}
	first, second := g.enter(group), g.enter(group)
	if first != second {
		t.Fatal("two members meet two gates")
	}
	g.leave(group, first)
	g.leave(group, second)
	if len(g.gates) != 0 {
		t.Errorf("%d gates are left", len(g.gates))
	}
}
