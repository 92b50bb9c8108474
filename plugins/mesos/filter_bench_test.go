// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/clock"

	mesosproto "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// benchmarkNodes is the size of the cluster of the benchmarks.
const benchmarkNodes = 5_000

// benchmarkWorld is a pod, nodes, and an agent with an offer for each of them.
func benchmarkWorld() (*v1.Pod, []fwk.NodeInfo, *ledger.Ledger) {
	pod := st.MakePod().Name("pod").UID("uid").Req(map[v1.ResourceName]string{v1.ResourceCPU: "100m", v1.ResourceMemory: "500Mi"}).Obj()
	book := ledger.New(ledger.Options{
		Clock: clock.RealClock{}, NodeName: func(o *mesosproto.Offer) string { return o.Hostname }, ReturnTime: time.Hour,
		Executor: taskinfo.Executor{Amounts: resources.Amounts{CPUs: 100, Mem: 128_000}},
	})
	book.SetConnected(true)
	role := "kubernetes"
	scalar := func(name string, v float64) mesosproto.Resource {
		kind := mesosproto.SCALAR
		return mesosproto.Resource{Name: name, Type: &kind, Scalar: &mesosproto.Value_Scalar{Value: v}, AllocationInfo: &mesosproto.Resource_AllocationInfo{Role: &role}}
	}
	nodes := make([]fwk.NodeInfo, benchmarkNodes)
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		info := framework.NewNodeInfo()
		info.SetNode(st.MakeNode().Name(name).Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "32", v1.ResourceMemory: "128Gi", v1.ResourcePods: "110"}).Obj())
		nodes[i] = info
		book.AddOffers([]mesosproto.Offer{{
			ID: mesosproto.OfferID{Value: "offer-" + name}, AgentID: mesosproto.AgentID{Value: "agent-" + name}, Hostname: name,
			AllocationInfo: &mesosproto.Resource_AllocationInfo{Role: &role},
			Resources:      []mesosproto.Resource{scalar("cpus", 32), scalar("mem", 131072)},
		}})
	}
	return pod, nodes, book
}

// filterAll runs Filter for the pod on all nodes and returns what it takes for one node.
func filterAll(b *testing.B, plugin fwk.FilterPlugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (perNode time.Duration, allocs float64) {
	ctx := context.Background()
	pass := func() {
		for _, node := range nodes {
			if status := plugin.Filter(ctx, state, pod, node); !status.IsSuccess() {
				b.Fatal(status)
			}
		}
	}
	pass()
	allocs = testing.AllocsPerRun(3, pass) / float64(len(nodes))
	const passes = 20
	begun := time.Now()
	for range passes {
		pass()
	}
	return time.Since(begun) / time.Duration(passes*len(nodes)), allocs
}

// BenchmarkFilter compares Filter of this plugin with that of NodeResourcesFit on the same nodes, in turns. Its figure
// is the ratio, which means the same on any machine.
func BenchmarkFilter(b *testing.B) {
	pod, nodes, book := benchmarkWorld()
	ours := &Mesos{system: &System{ledger: book, clock: clock.RealClock{}}}
	mesosState := framework.NewCycleState()
	mesosState.Write(stateKey, &cycleState{
		need:     resources.Need{Amounts: resources.NeedOf(pod, resources.Amounts{}).Amounts, Role: "kubernetes"},
		snapshot: book.Snapshot(), now: time.Now(), given: map[string]given{},
	})

	ctx := context.Background()
	made, err := noderesources.NewFit(ctx, &config.NodeResourcesFitArgs{ScoringStrategy: &config.ScoringStrategy{
		Type: config.LeastAllocated, Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}},
	}}, nil, feature.Features{})
	if err != nil {
		b.Fatal(err)
	}
	stock := made.(*noderesources.Fit)
	stockState := framework.NewCycleState()
	if _, status := stock.PreFilter(ctx, stockState, pod, nodes); !status.IsSuccess() {
		b.Fatal(status)
	}

	var theirs, mine time.Duration
	var theirAllocs, myAllocs float64
	rounds := 0
	for b.Loop() {
		t, ta := filterAll(b, stock, stockState, pod, nodes)
		m, ma := filterAll(b, ours, mesosState, pod, nodes)
		theirs, mine, rounds = theirs+t, mine+m, rounds+1
		theirAllocs, myAllocs = ta, ma
	}
	theirs, mine = theirs/time.Duration(rounds), mine/time.Duration(rounds)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(mine), "ns/node")
	b.ReportMetric(myAllocs, "allocs/node")
	fmt.Printf("filter: nodes=%d stock=%v mesos=%v ratio=%.2f stock-allocs=%.3f mesos-allocs=%.3f\n",
		benchmarkNodes, theirs, mine, float64(theirs)/float64(mine), theirAllocs, myAllocs)
	if myAllocs > 0 {
		b.Errorf("Filter allocates %.4f times a node that fits", myAllocs)
	}
}

// BenchmarkWait is the ledger's part of PreFilter with 5,000 agents, one of which has changed since the last.
func BenchmarkWait(b *testing.B) {
	pod, _, book := benchmarkWorld()
	other := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "other"}}
	need := resources.Need{Amounts: resources.Amounts{CPUs: 100, Mem: 500_000}, Role: "kubernetes"}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := book.Claim(ledger.Pod{UID: other.UID}, need, fmt.Sprintf("node-%d", i%benchmarkNodes)); err != nil {
			b.Fatal(err)
		}
		book.Wait(pod, need, 0)
		book.Release(other.UID)
	}
}
