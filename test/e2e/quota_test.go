// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// TestQuota uses up a role's quota: the pod that waits is told that Mesos offers nothing to the role, and since when.
func TestQuota(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, resources: "cpus:4;mem:8192", sim: func(o *mesossim.Options) {
		o.Quota = map[string]string{"kubernetes": "cpus:0.6;mem:256"}
	}})
	w.pod("one", "500m", "128Mi") // and the executor's 0.1 and 128
	w.waitRunning("one")
	w.pod("two", "100m", "64Mi")
	w.waitReason("two", "no offer from this Mesos agent")
	w.waitEvent("NoMesosOffers", "has offered nothing to role kubernetes since")
	w.remove("one")
	w.waitRunning("two")
	w.settle()
}
