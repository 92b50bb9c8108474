// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlanIsTheSeeds(t *testing.T) {
	all := cmp.AllowUnexported(fault{})
	for seed := range uint64(50) {
		a, b := draw(seed, agentCount, 25*time.Second), draw(seed, agentCount, 25*time.Second)
		if diff := cmp.Diff(a, b, all); diff != "" {
			t.Fatalf("seed %d gives two plans (-first,+second):\n%s", seed, diff)
		}
		if cmp.Equal(a, draw(seed+1, agentCount, 25*time.Second), all) {
			t.Errorf("seeds %d and %d give the same plan", seed, seed+1)
		}
		for i, f := range a {
			if i > 0 && f.at < a[i-1].at {
				t.Errorf("seed %d: %s comes before the fault before it", seed, f)
			}
			if f.agent < 0 || f.agent >= agentCount {
				t.Errorf("seed %d: %s strikes an agent that is not there", seed, f)
			}
		}
	}
}

// TestPlansHoldEveryKind guards against a kind that is never drawn, or drawn and never carried out.
func TestPlansHoldEveryKind(t *testing.T) {
	drawn := map[string]bool{}
	for seed := range uint64(200) {
		for _, f := range draw(seed, agentCount, 25*time.Second) {
			drawn[f.kind] = true
		}
	}
	for _, k := range kinds {
		if !drawn[k.name] {
			t.Errorf("no plan holds %s", k.name)
		}
	}
}
