// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// capacityRig is a node `n` with 4 cpus and 4 GiB, its agent, and pods.
type capacityRig struct {
	*Capacity
	agents  []ledger.AgentInfo
	held    map[types.UID]bool
	pods    cache.Indexer
	nodes   cache.Indexer
	patches []string
	events  *events.FakeRecorder
}

func newCapacityRig() *capacityRig {
	r := &capacityRig{events: events.NewFakeRecorder(100), pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)}
	_ = r.nodes.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("4Gi"),
	}}})
	client := fake.NewClientset()
	client.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r.patches = append(r.patches, string(a.(clienttesting.PatchAction).GetPatch()))
		return true, &v1.Node{}, nil
	})
	r.Capacity = &Capacity{
		Clock: testclock.NewFakeClock(time.Now()), Client: client, Nodes: corelisters.NewNodeLister(r.nodes), Pods: corelisters.NewPodLister(r.pods),
		Agents: func() []*ledger.AgentInfo { return pointers(r.agents) }, Held: func(p *v1.Pod) bool { return r.held[p.UID] },
		Recorder: r.events, Ready: func() bool { return true },
	}
	return r
}

func amounts(cpus, mem int64) resources.Amounts {
	return resources.Amounts{CPUs: cpus, Mem: mem * 1000}
}

// pointers returns records of agents, new ones each time.
func pointers(agents []ledger.AgentInfo) (out []*ledger.AgentInfo) {
	for _, a := range agents {
		out = append(out, &a)
	}
	return out
}

func agent(most resources.Amounts) ledger.AgentInfo {
	return ledger.AgentInfo{ID: "S1", Node: "n", Serves: true, Most: most}
}

func (r *capacityRig) pod(name, cpu, memory string, edits ...func(*v1.Pod)) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: cpu}, Spec: v1.PodSpec{NodeName: "n", Containers: []v1.Container{{
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}}}}}}
	for _, edit := range edits {
		edit(p)
	}
	_ = r.pods.Add(p)
}

func TestOvercommit(t *testing.T) {
	for _, test := range []struct {
		name  string
		set   func(r *capacityRig)
		over  string
		event string
	}{
		{"room for both", func(r *capacityRig) { r.agents[0] = agent(amounts(3000, 3000)); r.pod("daemon", "1", "1000Mi") }, "", ""},
		{"the agent gives all away", func(r *capacityRig) { r.agents[0] = agent(amounts(4000, 4096)); r.pod("daemon", "500m", "128Mi") }, "cpus:0.5;mem:128", "at most cpus:3.5;mem:3968"},
		{"a pod of ours is in what the agent gives away", func(r *capacityRig) {
			r.agents[0], r.held = agent(amounts(4000, 0)), map[types.UID]bool{"ours": true}
			r.pod("ours", "3", "1Gi")
		}, "", ""},
		{"a pod elsewhere", func(r *capacityRig) {
			r.agents[0] = agent(amounts(4000, 0))
			r.pod("daemon", "1", "1Gi", func(p *v1.Pod) { p.Spec.NodeName = "m" })
		}, "", ""},
		{"a complete pod", func(r *capacityRig) {
			r.agents[0] = agent(amounts(4000, 0))
			r.pod("daemon", "1", "1Gi", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
		}, "", ""},
		{"an agent that does not serve", func(r *capacityRig) { r.agents[0] = agent(amounts(9000, 0)); r.agents[0].Serves = false }, "", ""},
		{"what others use, told by an executor", func(r *capacityRig) {
			r.agents[0] = agent(amounts(1000, 1024))
			r.agents[0].Total = amounts(4000, 4096)
			r.pod("daemon", "500m", "128Mi")
		}, "cpus:0.5;mem:128", "at most cpus:3.5;mem:3968"},
		{"an agent that has less than was seen of it before", func(r *capacityRig) {
			r.agents[0] = agent(amounts(4000, 4096))
			r.agents[0].Total = amounts(2000, 2048)
			r.pod("daemon", "500m", "128Mi")
		}, "", ""},
		{"disk that the node does not tell", func(r *capacityRig) { r.agents[0] = agent(resources.Amounts{Disk: 1e9}) }, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newCapacityRig()
			r.agents = make([]ledger.AgentInfo, 1)
			test.set(r)
			r.compare(t.Context())
			o, ok := r.Of("n")
			if o.Over.String() != test.over || ok != (test.over != "") {
				t.Fatalf("over by %q, want %q", o.Over, test.over)
			}
			if n := len(r.events.Events); n != map[bool]int{true: 1}[ok] {
				t.Errorf("%d events", n)
			}
			if !ok {
				if len(r.patches) != 0 {
					t.Errorf("patched: %v", r.patches)
				}
				return
			}
			if e := <-r.events.Events; !strings.Contains(e, test.event) {
				t.Errorf("event %q, want %q in it", e, test.event)
			}
			if want := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, wellknown.NodeOvercommitAnnotation, test.over); len(r.patches) != 1 || r.patches[0] != want {
				t.Errorf("patches %v, want %s", r.patches, want)
			}
		})
	}
}

// TestOvercommitInTime remembers the most that was seen of an agent, tells each change once, and takes the annotation off.
func TestOvercommitInTime(t *testing.T) {
	r := newCapacityRig()
	r.agents = []ledger.AgentInfo{agent(amounts(4000, 0))}
	r.compare(t.Context())
	r.pod("daemon", "500m", "1Mi")
	r.compare(t.Context())
	if o, _ := r.Of("n"); o.Over.CPUs != 500 {
		t.Errorf("over by %q", o.Over)
	}
	r.compare(t.Context())
	if n := len(r.events.Events); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	r.pod("daemon", "1", "1Mi") // changed
	r.compare(t.Context())
	if o, _ := r.Of("n"); o.Over.CPUs != 1000 || len(r.events.Events) != 2 {
		t.Errorf("over by %q, %d events", o.Over, len(r.events.Events))
	}
	node, _, _ := r.nodes.GetByKey("n")
	node.(*v1.Node).Annotations = map[string]string{wellknown.NodeOvercommitAnnotation: "cpus:1"}
	r.pods.Delete(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "daemon"}})
	r.patches = nil
	r.compare(t.Context())
	if len(r.patches) != 1 || !strings.Contains(r.patches[0], "null") {
		t.Errorf("patches %v", r.patches)
	}
	r.agents, r.patches = nil, nil
	r.compare(t.Context())
	if len(r.patches) != 0 {
		t.Errorf("without an agent: patches %v", r.patches)
	}
}

func TestPortsOverlap(t *testing.T) {
	r := newCapacityRig()
	a := agent(amounts(1000, 0))
	a.OfferedPorts = resources.NewPortSet(resources.PortRange{Begin: 20000, End: 29999}, resources.PortRange{Begin: 33000, End: 33000})
	r.agents = []ledger.AgentInfo{a}
	r.compare(t.Context())
	if n := len(r.events.Events); n != 0 {
		t.Errorf("%d events", n)
	}
	a.OfferedPorts = resources.NewPortSet(resources.PortRange{Begin: 29000, End: 31000})
	r.agents = []ledger.AgentInfo{a}
	r.compare(t.Context())
	r.compare(t.Context())
	if n := len(r.events.Events); n != 1 {
		t.Fatalf("%d events, want 1", n)
	}
	if e := <-r.events.Events; !strings.Contains(e, "[30000-31000]") {
		t.Errorf("event %q", e)
	}
}
