// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
)

// When very many pods wait, a few are told at a time what for, and each comes to it.
func TestFewAreToldAtOnce(t *testing.T) {
	w := newWorld(t, false)
	w.offer("O1", "n", 1, 1024)
	const pods = 2*explainAtOnce + 10
	for i := range pods {
		pod := testPod(fmt.Sprintf("p%d", i))
		pod.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("9")
		w.cycle(pod)
	}
	clock := testclock.NewFakeClock(w.system.clock.Now().Add(explainAfter))
	w.system.clock = clock
	told := map[types.UID]*explained{}
	for _, want := range []int{explainAtOnce, 2 * explainAtOnce, pods} {
		w.system.explainAll(told, w.system.ledger.Queue(), w.system.ledger.Snapshot())
		n := 0
		for _, e := range told {
			if e.message != "" {
				n++
			}
		}
		if n != want {
			t.Errorf("%d pods were told, want %d", n, want)
		}
		clock.Step(explainEvery)
	}
}
