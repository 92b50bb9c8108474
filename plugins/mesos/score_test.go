// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"fmt"
	"math/rand"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
)

// What is noted beside an agent is what a look at it gives, whoever asks, whatever happens to the agent meanwhile, and also
// when many ask at once.
func TestScoresAreNoted(t *testing.T) {
	w := newWorld(t, false)
	const count = 100
	nodes := make([]fwk.NodeInfo, count)
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		nodes[i] = node(name)
		w.offer("O"+name, name, 8, 8192)
	}
	random := rand.New(rand.NewSource(1))
	for step := range 60 {
		pod := testPod(fmt.Sprintf("p%d", step))
		pod.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse([]string{"1", "2", "100m"}[step/4%3])
		w.args.ScoringStrategy = []config.ScoringStrategyType{config.LeastAllocated, config.MostAllocated}[step/12%2]
		state, _ := w.listed(pod, nodes)
		c, _ := stateOf(state)
		for range 2 {
			var group sync.WaitGroup
			for i := range nodes {
				group.Go(func() {
					got, status := w.Score(w.ctx, state, pod, nodes[i])
					if want := score(c.view(nodes[i]), c.need, w.args.ScoringStrategy); !status.IsSuccess() || got != want {
						t.Errorf("step %d, node %d: %d %v, want %d", step, i, got, status, want)
					}
				})
			}
			group.Wait()
		}
		at := random.Intn(count)
		if status := w.Reserve(w.ctx, state, pod, nodes[at].Node().Name); !status.IsSuccess() {
			t.Fatal(status)
		}
		if random.Intn(3) == 0 {
			w.Unreserve(w.ctx, state, pod, nodes[at].Node().Name)
		}
	}
}

// Filter is skipped only when it would let every node pass, and no other pod may have a right to the room.
func TestFilterIsSkipped(t *testing.T) {
	w := newWorld(t, false)
	nodes := []fwk.NodeInfo{node("a"), node("b")}
	w.offer("Oa", "a", 4, 4096)
	pod := testPod("p")
	skips := func() bool {
		w.t.Helper()
		_, status := w.listed(pod, nodes)
		return status.IsSkip()
	}
	for range 3 { // a table of the list is made when it is seen again
		if skips() {
			t.Fatal("node b has no agent")
		}
	}
	w.offer("Ob", "b", 4, 4096)
	skips()
	if !skips() {
		t.Fatal("each node has an agent with room")
	}
	other := testPod("other")
	other.Status.NominatedNodeName = "a"
	w.listed(other, nodes)
	if skips() {
		t.Error("room may be kept for the nominated pod")
	}
	w.system.ledger.NotWaiting(other.UID)
	if !skips() {
		t.Error("the nominated pod is gone")
	}
	other.Status.NominatedNodeName = ""
	w.listed(other, nodes)
	if !skips() {
		t.Error("a pod that waits has a right to nothing")
	}
	if !w.system.ledger.Contested(pod.UID, true) {
		t.Error("where pods are evicted, room may have been made for the one that waits")
	}
	large := testPod("large")
	large.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("3900m")
	state, _ := w.listed(large, nodes)
	if status := w.Reserve(w.ctx, state, large, "a"); !status.IsSuccess() {
		t.Fatal(status)
	}
	if skips() {
		t.Error("agent a is full")
	}
}
