// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	mesosproto "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// profileOf is a profile of which only the plugins are known.
type profileOf struct {
	fwk.Handle
	plugins schedulerconfig.Plugins
}

func (p *profileOf) ListPlugins() *schedulerconfig.Plugins { return &p.plugins }

func TestPreempts(t *testing.T) {
	set := func(names ...string) (s schedulerconfig.PluginSet) {
		for _, name := range names {
			s.Enabled = append(s.Enabled, schedulerconfig.Plugin{Name: name})
		}
		return s
	}
	for _, c := range []struct {
		name    string
		handles []fwk.Handle
		want    bool
	}{
		{"no plugin", []fwk.Handle{&profileOf{}}, false},
		{"one that evicts nobody", []fwk.Handle{&profileOf{plugins: schedulerconfig.Plugins{PostFilter: set("DynamicResources"), PodGroupPostFilter: set("DynamicResources")}}}, false},
		{"preemption", []fwk.Handle{&profileOf{plugins: schedulerconfig.Plugins{PostFilter: set("DynamicResources", "DefaultPreemption")}}}, true},
		{"preemption for groups alone", []fwk.Handle{&profileOf{plugins: schedulerconfig.Plugins{PodGroupPostFilter: set("DefaultPreemption")}}}, true},
		// So many that the one is seldom the last that is looked at: profiles have no order.
		{"preemption in one profile of many", append(slices.Repeat([]fwk.Handle{&profileOf{}}, 20), &profileOf{plugins: schedulerconfig.Plugins{PostFilter: set("DefaultPreemption")}}), true},
		{"a plugin that is not known", []fwk.Handle{&profileOf{plugins: schedulerconfig.Plugins{PostFilter: set("Other")}}}, true},
		{"a profile that does not tell", []fwk.Handle{struct{ fwk.Handle }{}}, true},
	} {
		s := NewSystem()
		for i, h := range c.handles {
			s.handles[strconv.Itoa(i)] = h
		}
		if got := s.preempts(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// sight is one look at a preemptor.
type sight struct {
	after         time.Duration
	node          string
	leaving, fits bool
	told          string
	hold          bool
	off           bool
	paused        []string
}

func TestPreemptionRounds(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		name   string
		sights []sight
	}{
		{"the room comes", []sight{
			{0, "a", true, false, "", true, false, nil},
			{30 * s, "a", true, false, "", true, false, nil},
			{9 * s, "a", false, false, "", true, false, nil},
			{0, "a", false, true, "", true, false, nil},
			{9 * s, "a", false, true, "", true, false, nil},
		}},
		{"others get it", []sight{
			{0, "a", true, false, "", true, false, nil},
			{10 * s, "a", false, false, "round 1 of 3", false, false, []string{"a"}},
			{s, "a", false, false, "", false, false, []string{"a"}}, // the nomination stands until the next attempt
			{s, "", false, false, "", false, false, []string{"a"}},
			{6 * time.Minute, "a", true, false, "", true, false, nil},
		}},
		{"three rounds in vain", []sight{
			{0, "a", true, false, "", true, false, nil},
			{10 * s, "a", false, false, "round 1 of 3", false, false, []string{"a"}},
			{s, "b", true, false, "", true, false, []string{"a"}},
			{10 * s, "b", false, false, "round 2 of 3", false, false, []string{"a", "b"}},
			{s, "c", true, false, "", true, false, []string{"a", "b"}},
			{10 * s, "c", false, false, "preemption cannot help here", false, true, []string{"a", "b", "c"}},
			{s, "d", true, false, "", false, true, []string{"a", "b", "c"}},
			{31 * time.Minute, "d", true, false, "", true, false, nil},
		}},
		{"the nomination moves", []sight{
			{0, "a", true, false, "", true, false, nil},
			{9 * s, "b", true, false, "", true, false, nil},
			{9 * s, "b", false, false, "", true, false, nil},
			{s, "b", false, false, "round 1 of 3", false, false, []string{"b"}},
		}},
		{"the nomination is withdrawn", []sight{
			{0, "a", true, false, "", true, false, nil},
			{time.Minute, "", false, false, "", false, false, nil},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := testclock.NewFakeClock(time.Now())
			p := newPreemptions(clock)
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "h"}}
			for i, look := range test.sights {
				clock.Step(look.after)
				pod.Status.NominatedNodeName = look.node
				told := p.see(pod, look.node, look.leaving, look.fits)
				if told != look.told && (look.told == "" || !strings.Contains(told, look.told)) {
					t.Errorf("look %d: told %q, want %q", i, told, look.told)
				}
				v := p.view(pod)
				var paused []string
				for node, until := range v.paused {
					if clock.Now().Before(until) {
						paused = append(paused, node)
					}
				}
				slices.Sort(paused)
				if v.hold != look.hold || v.off != look.off || !slices.Equal(paused, look.paused) {
					t.Errorf("look %d: hold %t, off %t, paused %v", i, v.hold, v.off, paused)
				}
			}
		})
	}
}

// TestPreemptionOfOneController counts the rounds of pods that replace each other together, and forgets them with success
// or with time.
func TestPreemptionOfOneController(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	p := newPreemptions(clock)
	pod := func(uid string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), OwnerReferences: []metav1.OwnerReference{{UID: "rs", Controller: ptr.To(true)}}}}
	}
	lose := func(uid, node string) string {
		p.see(pod(uid), node, true, false)
		clock.Step(preemptionPatience)
		return p.see(pod(uid), node, false, false)
	}
	lose("one", "a")
	if told := lose("two", "b"); !strings.Contains(told, "round 2") {
		t.Errorf("told %q", told)
	}
	p.won(pod("three"))
	if told := lose("two", "b"); !strings.Contains(told, "round 1") {
		t.Errorf("after a success: %q", told)
	}
	p.see(pod("two"), "c", true, false)
	p.tidy(func(types.UID) bool { return false })
	if len(p.rounds) != 0 || len(p.vain) != 1 {
		t.Errorf("%d rounds and %d counts are kept", len(p.rounds), len(p.vain))
	}
	clock.Step(preemptionNodePause + preemptionPause + time.Second)
	p.tidy(func(types.UID) bool { return true })
	if len(p.vain) != 0 {
		t.Error("a count is kept for ever")
	}
}

// preemptionRig is a plugin with one agent of node `n`, and a namespace whose pods use role `k8s`.
func preemptionRig(t *testing.T, offered string) (*Mesos, *ledger.Ledger) {
	clock := testclock.NewFakeClock(time.Now())
	book := ledger.New(ledger.Options{Clock: clock, NodeName: func(o *mesosproto.Offer) string { return o.Hostname }, Executor: taskinfo.Executor{Path: "/x"}})
	book.Resubscribed()
	book.SetConnected(true)
	if offered != "" {
		book.AddOffers([]mesosproto.Offer{offerOf("k8s", offered)})
	}
	system := &System{clock: clock, ledger: book, preemptions: newPreemptions(clock), needs: &needs{roles: []role{{name: "k8s"}}}, handles: map[string]fwk.Handle{"ours": struct{ fwk.Handle }{}}}
	return &Mesos{system: system}, book
}

// offerOf is an offer of agent `S1` on node `n`, such as `cpus:2;ports:[31000-31001]`.
func offerOf(role, text string) mesosproto.Offer {
	o := mesosproto.Offer{ID: mesosproto.OfferID{Value: "O-" + text}, AgentID: mesosproto.AgentID{Value: "S1"}, Hostname: "n",
		AllocationInfo: &mesosproto.Resource_AllocationInfo{Role: &role}}
	for _, part := range strings.Split(text, ";") {
		name, value, _ := strings.Cut(part, ":")
		r := mesosproto.Resource{Name: name, AllocationInfo: o.AllocationInfo}
		if strings.HasPrefix(value, "[") {
			var begin, end uint64
			from, to, _ := strings.Cut(strings.Trim(value, "[]"), "-")
			begin, end = number(from), number(to)
			r.Type, r.Ranges = mesosproto.RANGES.Enum(), &mesosproto.Value_Ranges{Range: []mesosproto.Value_Range{{Begin: begin, End: end}}}
		} else {
			r.Type, r.Scalar = mesosproto.SCALAR.Enum(), &mesosproto.Value_Scalar{Value: float64(number(value))}
		}
		o.Resources = append(o.Resources, r)
	}
	return o
}

func number(s string) (n uint64) {
	for _, c := range s {
		n = n*10 + uint64(c-'0')
	}
	return n
}

// TestVictimsAreLeaving says whose end is waited for.
func TestVictimsAreLeaving(t *testing.T) {
	now := metav1.Now()
	for _, test := range []struct {
		name string
		pod  func(*v1.Pod)
		gone bool
		want bool
	}{
		{"a pod that stays", func(*v1.Pod) {}, false, false},
		{"a pod that is being deleted", func(p *v1.Pod) { p.DeletionTimestamp = &now }, false, true},
		{"a pod that is gone, its task not yet", func(p *v1.Pod) { p.Name = "" }, true, true},
		{"another pod of that name", func(p *v1.Pod) { p.UID = "other" }, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, book := preemptionRig(t, "cpus:1")
			victim := podOf("v", "3")
			book.Restore(ledger.Task{Pod: ledger.Pod{UID: "v", Namespace: "ns", Name: "v", Priority: 1}, Need: resources.Need{Role: "k8s"}, AgentID: "S1", Node: "n", ID: taskinfo.TaskID("v", 1)})
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			if test.pod(victim); victim.Name != "" {
				_ = indexer.Add(victim)
			}
			if test.gone {
				book.PodGone("v")
			}
			m.system.pods = corelisters.NewPodLister(indexer)
			if got := m.system.leaving("n", 1000); got != test.want {
				t.Errorf("leaving: %t", got)
			}
			if m.system.leaving("n", 1) || m.system.leaving("elsewhere", 1000) {
				t.Error("leaving: a pod that is as important, or on another node")
			}
			h := podOf("h", "2")
			h.Status.NominatedNodeName = "n"
			need := resources.Need{Amounts: resources.Amounts{CPUs: 2000}, Role: "k8s"}
			state := framework.NewCycleState()
			view := m.system.enterPreemption(t.Context(), state, h, book.Snapshot(), need, 1000)
			if !view.hold || !state.ShouldSkipAllPostFilterPlugins() {
				t.Error("while its room may come more pods may be evicted for the pod")
			}
			h.Status.NominatedNodeName = "elsewhere" // without an agent: nominated by somebody else
			state = framework.NewCycleState()
			if m.system.enterPreemption(t.Context(), state, h, book.Snapshot(), need, 1000).hold || state.ShouldSkipAllPostFilterPlugins() {
				t.Error("a nomination that is not ours is held")
			}
		})
	}
}

// TestNominatedRoom keeps from a pod what a nominated pod of higher priority is to get.
func TestNominatedRoom(t *testing.T) {
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	nominated := func(cpus string, ports ...int32) *v1.Pod {
		p := podOf("h", cpus, ports...)
		p.Spec.SchedulerName = "ours"
		return p
	}
	for _, test := range []struct {
		name string
		high *v1.Pod
		need resources.Need
		want ledger.Reason
	}{
		{"nobody is nominated", nil, resources.Need{Amounts: resources.Amounts{CPUs: 4000}}, ledger.Fits},
		{"beside the nominated pod", nominated("2"), resources.Need{Amounts: resources.Amounts{CPUs: 2000}}, ledger.Fits},
		{"in its place", nominated("2"), resources.Need{Amounts: resources.Amounts{CPUs: 2001}}, ledger.ReasonCPUs},
		{"its host port", nominated("1", 31000), resources.Need{Amounts: resources.Amounts{CPUs: 1000}, Ports: []int32{31000}}, ledger.ReasonPorts},
		{"another host port", nominated("1", 31000), resources.Need{Amounts: resources.Amounts{CPUs: 1000}, Ports: []int32{31001}}, ledger.Fits},
		{"any port beside it", nominated("1", 31000), resources.Need{Amounts: resources.Amounts{CPUs: 1000}, AnyPorts: 1}, ledger.Fits},
		{"any two ports", nominated("1", 31000), resources.Need{Amounts: resources.Amounts{CPUs: 1000}, AnyPorts: 2}, ledger.ReasonPorts},
		{"of another scheduler", podOf("h", "4"), resources.Need{Amounts: resources.Amounts{CPUs: 4000}}, ledger.Fits},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, book := preemptionRig(t, "cpus:4;mem:4096;ports:[31000-31001]")
			test.need.Role = "k8s"
			state := framework.NewCycleState()
			state.Write(stateKey, &cycleState{need: test.need, snapshot: book.Snapshot(), now: time.Now(), given: map[string]given{}, removed: map[types.UID]resources.Need{}})
			if test.high != nil {
				pi, err := framework.NewPodInfo(test.high)
				if err != nil {
					t.Fatal(err)
				}
				if status := m.AddPod(t.Context(), state, nil, pi, info); !status.IsSuccess() {
					t.Fatal(status)
				}
			}
			if got := m.Filter(t.Context(), state, nil, info).Message(); got != string(test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func podOf(uid, cpus string, ports ...int32) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid, Namespace: "ns"}}
	c := v1.Container{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus)}}}
	for _, port := range ports {
		c.Ports = append(c.Ports, v1.ContainerPort{HostPort: port, ContainerPort: 80})
	}
	p.Spec.Containers = []v1.Container{c}
	return p
}

// TestEvictionCodes says where Filter lets preemption look for victims.
func TestEvictionCodes(t *testing.T) {
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	now := time.Now()
	for _, test := range []struct {
		name     string
		unknown  bool
		preempts preemptionView
		want     fwk.Code
	}{
		{"room seen to be too small", false, preemptionView{}, fwk.Unschedulable},
		{"room is not known", true, preemptionView{}, fwk.UnschedulableAndUnresolvable},
		{"evictions were in vain", false, preemptionView{off: true}, fwk.UnschedulableAndUnresolvable},
		{"evictions here were in vain", false, preemptionView{paused: map[string]time.Time{"n": now.Add(time.Minute)}}, fwk.UnschedulableAndUnresolvable},
		{"evictions here were in vain long ago", false, preemptionView{paused: map[string]time.Time{"n": now.Add(-time.Minute)}}, fwk.Unschedulable},
		{"evictions elsewhere were in vain", false, preemptionView{paused: map[string]time.Time{"m": now.Add(time.Minute)}}, fwk.Unschedulable},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, book := preemptionRig(t, "cpus:1;mem:4096")
			state := framework.NewCycleState()
			state.Write(stateKey, &cycleState{need: resources.Need{Amounts: resources.Amounts{CPUs: 2000}, Role: "k8s"}, snapshot: book.Snapshot(), now: now, unknown: test.unknown, preempts: test.preempts})
			if got := m.Filter(t.Context(), state, nil, info); got.Code() != test.want {
				t.Errorf("%v, want %v", got.Code(), test.want)
			}
		})
	}
}
