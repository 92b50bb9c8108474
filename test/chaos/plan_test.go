// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

func TestPlanIsTheSeeds(t *testing.T) {
	all := cmp.AllowUnexported(fault{})
	for seed := range uint64(50) {
		a, b := draw(seed, kwokSize, 25*time.Second), draw(seed, kwokSize, 25*time.Second)
		if diff := cmp.Diff(a, b, all); diff != "" {
			t.Fatalf("seed %d gives two plans (-first,+second):\n%s", seed, diff)
		}
		if cmp.Equal(a, draw(seed+1, kwokSize, 25*time.Second), all) {
			t.Errorf("seeds %d and %d give the same plan", seed, seed+1)
		}
		for i, f := range a {
			if i > 0 && f.at < a[i-1].at {
				t.Errorf("seed %d: %s comes before the fault before it", seed, f)
			}
			if f.agent < 0 || f.agent >= kwokSize.agents {
				t.Errorf("seed %d: %s strikes an agent that is not there", seed, f)
			}
		}
	}
}

// TestEveryKindIsCarriedOut guards against a kind that is drawn and strikes nobody.
func TestEveryKindIsCarriedOut(t *testing.T) {
	in := &injector{world: &world{c: &cluster.Cluster{}, sim: &mesossim.Cluster{}}}
	actions := in.actions()
	for _, k := range kinds {
		if actions[k.name] == nil {
			t.Errorf("%s is not carried out", k.name)
		}
		delete(actions, k.name)
	}
	for name := range actions {
		t.Errorf("%s is never drawn", name)
	}
}

// TestPlansHoldEveryKind guards against a kind that is never drawn.
func TestPlansHoldEveryKind(t *testing.T) {
	drawn := map[string]bool{}
	for seed := range uint64(200) {
		for _, size := range []size{kwokSize, hollowSize} {
			for _, f := range draw(seed, size, 25*time.Second) {
				drawn[f.kind] = true
			}
		}
	}
	for _, k := range kinds {
		if !drawn[k.name] {
			t.Errorf("no plan holds %s", k.name)
		}
	}
}
