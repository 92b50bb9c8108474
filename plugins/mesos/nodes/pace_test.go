// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
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
)

// TestSyncerPace has a thousand nodes get labels at once: a round writes few of them, but every node whose agent is in
// trouble.
func TestSyncerPace(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	var agents []ledger.AgentInfo
	const troubled = 40
	for i := range 1000 {
		name := fmt.Sprintf("n%d", i)
		_ = indexer.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		a := ledger.AgentInfo{ID: name, Hostname: name, Node: name, Serves: true, Attributes: []mesos.Attribute{{Name: "rack", Text: &mesos.Value_Text{Value: "r1"}}}}
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
		Ready: func() bool { return true }, Agents: func() []ledger.AgentInfo { return agents },
	}
	s.sync(ctx)
	if want := troubled + calmPatches; patches != want {
		t.Errorf("a round wrote %d nodes, want %d", patches, want)
	}
}
