// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math/rand"
	"strconv"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// What AllFit says of all agents must be true of each, whatever has happened to them.
func TestAllFitAgreesWithEachAgent(t *testing.T) {
	const agents = 150 // three chunks, the last not full
	l := benchmarkLedger(agents)
	random := rand.New(rand.NewSource(1))
	said := map[bool]int{}
	offers := agents
	for step := range 3000 {
		i := random.Intn(agents)
		id, node := "agent-"+strconv.Itoa(i), benchmarkNode(i)
		switch random.Intn(12) {
		case 0:
			l.SetTrouble(id, AgentDraining)
		case 1, 2, 3:
			l.SetTrouble(id, NoTrouble)
		case 4:
			for _, o := range l.Offers() {
				if o.AgentID == id {
					l.Decline([]string{o.ID})
				}
			}
		case 5, 6, 7:
			l.AddOffers([]mesos.Offer{benchmarkOffer(i, offers)})
			offers++
		case 8:
			l.AgentGone(id)
		default:
			need := benchmarkNeed
			need.Amounts.CPUs = int64(random.Intn(8000)) + 1
			_ = l.Claim(podOf(benchmarkPod(step)), need, node)
			if step >= 40 {
				l.Release(benchmarkPod(step - 40).UID)
			}
		}
		if step%60 == 0 { // mend everything, so that all can fit again
			for i := range agents {
				l.SetTrouble("agent-"+strconv.Itoa(i), NoTrouble)
				l.AddOffers([]mesos.Offer{benchmarkOffer(i, offers)})
				offers++
			}
		}
		snapshot, now := l.Snapshot(), time.Now()
		for _, cpus := range []int64{1, 100, 20_000, 60_000} {
			need := resources.Need{Amounts: resources.Amounts{CPUs: cpus, Mem: 1000}, Role: benchmarkNeed.Role}
			fits, whole := snapshot.AllFit(need)
			said[fits]++
			for i := range agents {
				v := snapshot.Node(benchmarkNode(i))
				if v == nil && whole {
					t.Fatalf("step %d: %s has no agent, but the snapshot is called whole", step, benchmarkNode(i))
				}
				if reason := v.Fit(need, 0, now); fits && v != nil && reason != Fits {
					t.Fatalf("step %d: AllFit for %s, but %s: %s", step, need, v.Node, reason)
				}
				if place, known := snapshot.Place(benchmarkNode(i)); known && snapshot.At(place) != v {
					t.Fatalf("step %d: the place of %s has another view", step, benchmarkNode(i))
				}
			}
		}
	}
	if said[true] == 0 || said[false] == 0 {
		t.Errorf("AllFit always said the same: %v", said)
	}
	if fits, _ := l.Snapshot().AllFit(resources.Need{Amounts: resources.Amounts{CPUs: 1}, Role: "other"}); fits {
		t.Error("a role without offers fits nowhere")
	}
}
