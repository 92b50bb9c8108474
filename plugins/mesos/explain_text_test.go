// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// C05: a pod that would fit but for the first executor on the agent is told of the executor's share.
func TestC05_TheExecutorsShareIsNamed(t *testing.T) {
	w := newWorld(t, false)
	w.offer("O1", "n", 2, 2048)
	pod := testPod("p")
	pod.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2")
	c, status := stateOf(w.cycle(pod))
	if status != nil {
		t.Fatal(status)
	}
	got := w.system.explain(w.system.ledger.Snapshot(), pod, c.need, w.system.clock.Now())
	if want := "cpus:1.9;mem:1920 free in offers, beside cpus:0.1;mem:128 for the executor"; !strings.Contains(got, want) {
		t.Errorf("%q, want %q in it", got, want)
	}
}

// Explanations of one pod that follow each other have different actions, of a small set.
func TestExplainActions(t *testing.T) {
	seen := map[string]bool{}
	for n := range 5 * explainActions {
		if explainAction(n) == explainAction(n+1) {
			t.Errorf("%d and %d: %s", n, n+1, explainAction(n))
		}
		seen[explainAction(n)] = true
	}
	if len(seen) != explainActions || !seen["Scheduling"] {
		t.Errorf("actions: %v", seen)
	}
}
