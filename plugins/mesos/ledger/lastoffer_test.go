// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// What the last offer lacked is told after it has gone; what Filter decides stays what it was.
func TestWhyAfterTheOfferHasGone(t *testing.T) {
	need := func(cpus, mem, disk, gpus int64) resources.Need {
		return resources.Need{Amounts: resources.Amounts{CPUs: cpus, Mem: mem, Disk: disk, GPUs: gpus}, Role: role}
	}
	b := newBook(t)
	b.AddOffers([]mesos.Offer{b.offer("o1", "S1", "cpus:4;mem:4096")})
	b.Decline([]string{"o1"})
	view := b.Snapshot().Node("node-S1")
	for name, tt := range map[string]struct {
		need resources.Need
		want Reason
	}{
		"too many cpus":       {need(5000, 1, 0, 0), ReasonCPUs},
		"too much memory":     {need(1, 5_000_000, 0, 0), ReasonMem},
		"disk":                {need(1, 1, 1, 0), ReasonDisk},
		"gpus":                {need(1, 1, 0, 1), ReasonGPUs},
		"one that would fit":  {need(1, 1, 0, 0), ReasonNoOffer},
		"one of another role": {resources.Need{Amounts: resources.Amounts{CPUs: 5000}, Role: "other"}, ReasonNoOffer},
	} {
		t.Run(name, func(t *testing.T) {
			if got := view.Why(tt.need, 0, b.clock.Now()); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if got := view.Fit(tt.need, 0, b.clock.Now()); got != ReasonNoOffer {
				t.Errorf("Fit says %q", got)
			}
		})
	}
	if got := (*View)(nil).Why(need(1, 1, 0, 0), 0, b.clock.Now()); got != ReasonNoAgent {
		t.Errorf("got %q", got)
	}
}
