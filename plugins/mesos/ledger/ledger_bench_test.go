// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// The benchmarks run with 100, 1,000 and 10,000 agents: what they show is that an operation costs what has changed, or
// what it looks at, and not how large the cluster is.
var benchmarkSizes = []int{100, 1_000, 10_000}

var benchmarkNeed = resources.Need{Amounts: resources.Amounts{CPUs: 100, Mem: 500_000}, Role: "kubernetes"}

// benchmarkOffer is what an agent of 32 cpus offers, with the usual ports.
func benchmarkOffer(agent, offer int) mesos.Offer {
	role := "kubernetes"
	scalar := func(name string, v float64) mesos.Resource {
		kind := mesos.SCALAR
		return mesos.Resource{Name: name, Type: &kind, Scalar: &mesos.Value_Scalar{Value: v}, AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role}}
	}
	ranges := mesos.RANGES
	ports := mesos.Resource{
		Name: "ports", Type: &ranges, AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role},
		Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: 31000, End: 32000}}},
	}
	return mesos.Offer{
		ID: mesos.OfferID{Value: "offer-" + strconv.Itoa(offer)}, AgentID: mesos.AgentID{Value: "agent-" + strconv.Itoa(agent)},
		Hostname: benchmarkNode(agent), AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role},
		Resources: []mesos.Resource{scalar("cpus", 32), scalar("mem", 131072), scalar("disk", 1e6), ports},
	}
}

func benchmarkNode(agent int) string { return "node-" + strconv.Itoa(agent) }

// benchmarkLedger returns a book in which each agent has one offer.
func benchmarkLedger(agents int) *Ledger {
	l := New(Options{
		Clock: clock.RealClock{}, NodeName: func(o *mesos.Offer) string { return o.Hostname }, ReturnTime: time.Hour,
		Executor: taskinfo.Executor{Path: "/opt/executor", Amounts: resources.Amounts{CPUs: 100, Mem: 128_000}},
	})
	l.SetConnected(true)
	offers := make([]mesos.Offer, agents)
	for i := range offers {
		offers[i] = benchmarkOffer(i, i)
	}
	l.AddOffers(offers)
	l.Snapshot()
	return l
}

func benchmarkPod(i int) *v1.Pod {
	name := strconv.Itoa(i)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-" + name, UID: types.UID("uid-" + name)}}
}

func podOf(p *v1.Pod) Pod { return Pod{UID: p.UID, Namespace: p.Namespace, Name: p.Name} }

func forSizes(b *testing.B, run func(b *testing.B, l *Ledger, agents int)) {
	for _, agents := range benchmarkSizes {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			l := benchmarkLedger(agents)
			b.ReportAllocs()
			b.ResetTimer()
			run(b, l, agents)
		})
	}
}

// BenchmarkOfferEvent is one offer of one agent that replaces its last one.
func BenchmarkOfferEvent(b *testing.B) {
	forSizes(b, func(b *testing.B, l *Ledger, agents int) {
		for i := range b.N {
			l.AddOffers([]mesos.Offer{benchmarkOffer(i%agents, agents+i)})
			l.Rescind("offer-" + strconv.Itoa(i))
		}
	})
}

// BenchmarkSnapshot is a snapshot after k agents have changed.
func BenchmarkSnapshot(b *testing.B) {
	for _, changed := range []int{0, 1, 10, 100} {
		b.Run(fmt.Sprintf("changed=%d", changed), func(b *testing.B) {
			forSizes(b, func(b *testing.B, l *Ledger, agents int) {
				touched := benchmarkAgents(l, agents)
				for i := range b.N {
					for k := range changed {
						l.touch(touched[(i*changed+k)%agents])
					}
					l.Snapshot()
				}
			})
		})
	}
}

// BenchmarkPreFilter is what PreFilter asks of the ledger while the cycle before has claimed on one agent.
func BenchmarkPreFilter(b *testing.B) {
	forSizes(b, func(b *testing.B, l *Ledger, agents int) {
		pod, touched := benchmarkPod(0), benchmarkAgents(l, agents)
		for i := range b.N {
			l.touch(touched[i%agents])
			l.Wait(pod, benchmarkNeed, 0)
			l.Settled(pod.UID)
		}
	})
}

// BenchmarkFit is Filter's question for one agent.
func BenchmarkFit(b *testing.B) {
	forSizes(b, func(b *testing.B, l *Ledger, agents int) {
		snapshot, now := l.Snapshot(), time.Now()
		names := benchmarkNodes(agents)
		for i := range b.N {
			if r := snapshot.Node(names[i%agents]).Fit(benchmarkNeed, 0, now); r != Fits {
				b.Fatal(r)
			}
		}
	})
}

// BenchmarkRoom is Score's question for one agent.
func BenchmarkRoom(b *testing.B) {
	forSizes(b, func(b *testing.B, l *Ledger, agents int) {
		snapshot := l.Snapshot()
		names := benchmarkNodes(agents)
		for i := range b.N {
			snapshot.Node(names[i%agents]).Room(benchmarkNeed)
		}
	})
}

// BenchmarkClaim is Reserve, with the Release that undoes it.
func BenchmarkClaim(b *testing.B) {
	forSizes(b, func(b *testing.B, l *Ledger, agents int) {
		names := benchmarkNodes(agents)
		pods := make([]Pod, 1024)
		for i := range pods {
			pods[i] = podOf(benchmarkPod(i))
		}
		for i := range b.N {
			pod := pods[i%len(pods)]
			if err := l.Claim(pod, benchmarkNeed, names[i%agents]); err != nil {
				b.Fatal(err)
			}
			l.Release(pod.UID)
		}
	})
}

// BenchmarkTick is what runs every quarter of a second whether or not anything happens, with ten running tasks an agent.
func BenchmarkTick(b *testing.B) {
	forSizes(b, func(b *testing.B, l *Ledger, agents int) {
		for i := range agents * 10 {
			uid := types.UID("uid-" + strconv.Itoa(i))
			l.Restore(Task{
				Pod: Pod{UID: uid}, Need: benchmarkNeed, AgentID: "agent-" + strconv.Itoa(i%agents), Node: benchmarkNode(i % agents),
				ID: taskinfo.TaskID(uid, 1),
			})
			l.Apply(Update{TaskID: taskinfo.TaskID(uid, 1), Status: Status{State: mesos.TASK_RUNNING}})
		}
		b.ResetTimer()
		for range b.N {
			l.Expire()
			l.Fences()
			l.Dooms(time.Second, time.Second)
		}
	})
}

func benchmarkNodes(agents int) []string {
	names := make([]string, agents)
	for i := range names {
		names[i] = benchmarkNode(i)
	}
	return names
}

func benchmarkAgents(l *Ledger, agents int) []*agent {
	out := make([]*agent, agents)
	for i := range out {
		out[i] = l.agents["agent-"+strconv.Itoa(i)]
	}
	return out
}
