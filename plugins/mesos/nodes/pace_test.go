// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2/ktesting"
	testclock "k8s.io/utils/clock/testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// TestSyncerPace has a thousand nodes get labels at once: a round writes few of them, but every node whose agent is in
// trouble.
func TestSyncerPace(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	var agents []*ledger.AgentInfo
	const troubled = 40
	for i := range 1000 {
		name := fmt.Sprintf("n%d", i)
		_ = indexer.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		a := &ledger.AgentInfo{ID: name, Hostname: name, Node: name, Serves: true, Attributes: []mesos.Attribute{{Name: "rack", Text: &mesos.Value_Text{Value: "r1"}}}}
		if i < troubled {
			a.Trouble = ledger.AgentUnreachable
		}
		agents = append(agents, a)
	}
	client := fake.NewClientset()
	patches := 0
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		patches++
		return true, &v1.Node{}, nil
	})
	s := &Syncer{
		Clock: testclock.NewFakeClock(time.Now()), Client: client, Nodes: corelisters.NewNodeLister(indexer), AttributeLabels: true,
		Ready: func() bool { return true }, Agents: func() []*ledger.AgentInfo { return agents },
	}
	s.sync(ctx)
	if want := troubled + calmPatches; patches != want {
		t.Errorf("a round wrote %d nodes, want %d", patches, want)
	}
}

// A node is looked at again when it or its agent has changed, or time may change something for it, and only then.
func TestSyncerLooksAgain(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	clock := testclock.NewFakeClock(time.Now())
	rack := []mesos.Attribute{{Name: "rack", Text: &mesos.Value_Text{Value: "r1"}}}
	labels := map[string]string{wellknown.AttributeLabelPrefix + "rack": "r1"}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	stored := func(name, version string, labels map[string]string) {
		_ = indexer.Update(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version, Labels: labels}})
	}
	record := func(name string) *ledger.AgentInfo {
		return &ledger.AgentInfo{ID: name, Hostname: name, Node: name, Serves: true, Attributes: rack}
	}
	agents := map[string]*ledger.AgentInfo{}
	for _, name := range []string{"a", "b", "c"} {
		stored(name, "1", labels)
		agents[name] = record(name)
	}
	agents["c"].Unavailable.Start = clock.Now().Add(time.Hour)
	client := fake.NewClientset()
	var patched []string
	client.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patched = append(patched, a.(clienttesting.PatchAction).GetName())
		return true, &v1.Node{}, nil
	})
	s := &Syncer{
		Clock: clock, Client: client, Nodes: corelisters.NewNodeLister(indexer), AttributeLabels: true, Ready: func() bool { return true },
		Agents: func() []*ledger.AgentInfo { return slices.Collect(maps.Values(agents)) },
	}
	step := func(what string, want ...string) {
		t.Helper()
		patched = nil
		s.sync(ctx)
		if slices.Sort(patched); !slices.Equal(patched, want) {
			t.Errorf("%s: wrote %v, want %v", what, patched, want)
		}
	}
	step("all is right")
	step("still")
	stored("a", "2", nil)
	step("somebody took a label off", "a")
	step("the write has not been seen yet", "a")
	stored("a", "3", labels)
	step("it has")
	agents["b"] = record("b")
	agents["b"].Trouble = ledger.AgentDraining
	step("an agent drains", "b")
	agents["b"] = record("b")
	step("it is taken back before the write was seen")
	clock.Step(time.Hour)
	step("a window has begun", "c")
}
