// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"
)

// TestC05_TheExecutorsShareIsTold names the share of a first executor in what a waiting pod is told, and tells the new amounts
// when they change.
func TestC05_TheExecutorsShareIsTold(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, resources: "cpus:2;mem:2048;disk:2000"})
	w.pod("big", "2", "64Mi") // 2 cpus are there, less what an executor takes
	w.waitEvent("WaitingForMesosOffers", "cpus:0.1;mem:128 for the executor that the first pod there needs")
	w.pod("small", "1", "64Mi")
	w.waitRunning("small")
	const free = "cpus:0.9"
	w.waitAtMost(2*time.Minute, "the new amounts to be told", func() error { return w.hasEvent("WaitingForMesosOffers", free) })
	w.remove("small")
	w.settle()
}
