// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2/ktesting"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

func TestMapping(t *testing.T) {
	byAddress := map[string][]string{"10.0.0.1": {"node-a"}, "10.0.0.2": {"node-b", "node-c"}, "host-a": {"node-a"}, "host-b": {"node-b"}}
	byLabel := map[string][]string{"a": {"node-a"}, "twice": {"node-a", "node-b"}}
	find := func(property, value string) []string {
		return map[string]map[string][]string{AddressProperty: byAddress, LabelProperty: byLabel}[property][value]
	}
	for _, tt := range []struct {
		name, host, ip, want string
		m                    Mapping
	}{
		{"hostname", "node-a.example.com", "", "node-a.example.com", Mapping{Source: Hostname}},
		{"hostname without its domain", "node-a.example.com", "", "node-a", Mapping{Source: Hostname, StripDomain: true}},
		{"an IP address has no domain", "10.0.0.1", "", "10.0.0.1", Mapping{Source: Hostname, StripDomain: true}},
		{"no hostname", "", "10.0.0.1", "", Mapping{Source: Hostname}},
		{"address", "x", "10.0.0.1", "node-a", Mapping{Source: Address, Find: find}},
		{"host name among the addresses", "host-a", "", "node-a", Mapping{Source: Address, Find: find}},
		{"both say the same", "host-a", "10.0.0.1", "node-a", Mapping{Source: Address, Find: find}},
		{"they contradict each other", "host-b", "10.0.0.1", "", Mapping{Source: Address, Find: find}},
		{"two nodes have the address", "x", "10.0.0.2", "", Mapping{Source: Address, Find: find}},
		{"nobody has the address", "x", "10.9.9.9", "", Mapping{Source: Address, Find: find}},
		{"label", "a", "", "node-a", Mapping{Source: Label, Label: "l", Find: find}},
		{"label without the domain", "a.example.com", "", "node-a", Mapping{Source: Label, StripDomain: true, Find: find}},
		{"two nodes have the label", "twice", "", "", Mapping{Source: Label, Find: find}},
		{"nothing to find with", "a", "", "", Mapping{Source: Label}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &mesos.Offer{Hostname: tt.host}
			if tt.ip != "" {
				o.URL = &mesos.URL{Address: mesos.Address{IP: ptr.To(tt.ip)}}
			}
			if got := tt.m.NodeName(o); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestProperties(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "v", "empty": ""}}, Status: v1.NodeStatus{Addresses: []v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeHostName, Address: "host-a"}, {Type: v1.NodeExternalIP, Address: "10.0.0.1"}, {Type: v1.NodeExternalDNS},
	}}}
	if diff := cmp.Diff([]string{"10.0.0.1", "host-a"}, Properties(node, AddressProperty, "")); diff != "" {
		t.Errorf("addresses (-want,+got):\n%s", diff)
	}
	for label, want := range map[string][]string{"l": {"v"}, "empty": nil, "none": nil} {
		if diff := cmp.Diff(want, Properties(node, LabelProperty, label)); diff != "" {
			t.Errorf("label %s (-want,+got):\n%s", label, diff)
		}
	}
}

func text(name, value string) mesos.Attribute {
	return mesos.Attribute{Name: name, Type: mesos.TEXT, Text: &mesos.Value_Text{Value: value}}
}

func TestLabels(t *testing.T) {
	scalar := func(name string, v float64) mesos.Attribute {
		return mesos.Attribute{Name: name, Scalar: &mesos.Value_Scalar{Value: v}}
	}
	attributes := []mesos.Attribute{
		text("rack", "r1"), text("empty", ""), text("path", "/dev/sda"), text("sp ace", "v"), text("x-rack", "v"), text("v", "x-y"),
		text("disk", "ssd"), text("disk", "hdd"), scalar("level", 0.57), scalar("whole", 10), scalar("huge", math.MaxUint32),
		{Name: "slots", Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: 1, End: 4}, {Begin: 9, End: math.MaxUint64}}}},
		{Name: "set", Set: &mesos.Value_Set{Item: []string{"b", "a"}}}, {Name: "nothing"},
		text("long", strings.Repeat("v", 64)), text(strings.Repeat("n", 64), "v"), text("", "v"),
	}
	got, leftOut := Labels(attributes)
	if diff := cmp.Diff([]string{"", "long", strings.Repeat("n", 64)}, leftOut); diff != "" {
		// The empty name is escaped to the prefix alone, which ends in a dash and is no legal name.
		t.Errorf("left out (-want,+got):\n%s", diff)
	}
	const p = wellknown.AttributeLabelPrefix
	want := map[string]string{
		p + "rack": "r1", p + "empty": "", p + "path": "x-" + encoding.EncodeToString([]byte("/dev/sda")), p + "x-" + encoding.EncodeToString([]byte("sp ace")): "v",
		p + "x-" + encoding.EncodeToString([]byte("x-rack")): "v", p + "v": "x-" + encoding.EncodeToString([]byte("x-y")),
		p + "disk": "hdd_ssd", p + "level": "0.57", p + "whole": "10", p + "huge": "4294967295", p + "slots": "1-4_9-18446744073709551615", p + "set": "a_b", p + "nothing": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want,+got):\n%s", diff)
	}
}

// Every label is legal, and what was escaped can be read again; no two names become one.
func FuzzLabels(f *testing.F) {
	f.Add("rack", "r1")
	f.Add("x-", "x-x-")
	f.Add("ä/ö", "\x00\xff")
	f.Fuzz(func(t *testing.T, name, value string) {
		labels, _ := Labels([]mesos.Attribute{text(name, value)})
		undo := func(s string) string {
			if e, ok := strings.CutPrefix(s, escaped); ok {
				b, err := encoding.DecodeString(e)
				if err != nil {
					t.Errorf("%q cannot be undone: %v", s, err)
				}
				return string(b)
			}
			return s
		}
		for k, v := range labels {
			if errs := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); len(errs) > 0 {
				t.Errorf("%q=%q: %v", k, v, errs)
			}
			if gotName, gotValue := undo(strings.TrimPrefix(k, wellknown.AttributeLabelPrefix)), undo(v); gotName != name || gotValue != value {
				t.Errorf("%q=%q became %q=%q", name, value, gotName, gotValue)
			}
		}
	})
}

func TestPatch(t *testing.T) {
	const p = wellknown.AttributeLabelPrefix
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	window := func(after, length time.Duration) ledger.AgentInfo {
		return ledger.AgentInfo{Hostname: "n", Unavailable: ledger.Unavailability{Start: noon.Add(after), Duration: length}}
	}
	foreign := v1.Taint{Key: "example.com/x", Value: "v", Effect: v1.TaintEffectNoExecute}
	ours := func(key string) v1.Taint { return v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule} }
	domain := &mesos.DomainInfo{FaultDomain: &mesos.DomainInfo_FaultDomain{
		Region: mesos.DomainInfo_FaultDomain_RegionInfo{Name: "r"}, Zone: mesos.DomainInfo_FaultDomain_ZoneInfo{Name: "z"}}}
	rack := ledger.AgentInfo{Hostname: "n", Attributes: []mesos.Attribute{text("rack", "r1")}}
	with := func(a ledger.AgentInfo, change func(*ledger.AgentInfo)) ledger.AgentInfo {
		change(&a)
		return a
	}
	for _, tt := range []struct {
		name       string
		labels     map[string]string
		taints     []v1.Taint
		agent      ledger.AgentInfo
		unknown    bool
		off        bool
		wantLabels map[string]string // nil: nothing is patched
		wantTaints []v1.Taint
	}{
		{name: "attributes become labels", labels: map[string]string{"keep": "me"}, agent: rack, wantLabels: map[string]string{"keep": "me", p + "rack": "r1"}},
		{name: "nothing to do", labels: map[string]string{p + "rack": "r1"}, agent: rack},
		{name: "a changed and a vanished one", labels: map[string]string{p + "rack": "r0", p + "old": "x"}, agent: rack, wantLabels: map[string]string{p + "rack": "r1"}},
		{name: "no labels wanted", agent: rack, off: true},
		{name: "an agent that has not offered since a restart", labels: map[string]string{p + "rack": "r1"}, agent: ledger.AgentInfo{}},
		{name: "an agent that is not known", labels: map[string]string{p + "rack": "r1"}, unknown: true},
		{name: "a removed agent", labels: map[string]string{p + "rack": "r1", "keep": "me"}, agent: with(rack, func(a *ledger.AgentInfo) { a.Gone = true }), wantLabels: map[string]string{"keep": "me"}},
		{name: "fault domain", agent: ledger.AgentInfo{Hostname: "n", Domain: domain}, wantLabels: map[string]string{v1.LabelTopologyRegion: "r", v1.LabelTopologyZone: "z"}},
		{name: "a zone that the cloud has set is kept", labels: map[string]string{v1.LabelTopologyRegion: "cr", v1.LabelTopologyZone: "cz"}, agent: ledger.AgentInfo{Hostname: "n", Domain: domain}},
		{name: "unreachable", taints: []v1.Taint{foreign}, agent: ledger.AgentInfo{Trouble: ledger.AgentUnreachable}, wantTaints: []v1.Taint{foreign, ours(wellknown.UnreachableTaint)}},
		{name: "unreachable already", taints: []v1.Taint{ours(wellknown.UnreachableTaint), foreign}, agent: ledger.AgentInfo{Trouble: ledger.AgentUnreachable}},
		{name: "draining after unreachable", taints: []v1.Taint{ours(wellknown.UnreachableTaint), foreign}, agent: ledger.AgentInfo{Trouble: ledger.AgentDraining}, wantTaints: []v1.Taint{foreign, ours(wellknown.DrainingTaint)}},
		{name: "all is well again", taints: []v1.Taint{ours(wellknown.DrainingTaint)}, agent: ledger.AgentInfo{}, wantTaints: []v1.Taint{}},
		{name: "ambiguous is no taint", agent: ledger.AgentInfo{Trouble: ledger.AgentAmbiguous}},
		{name: "maintenance soon", taints: []v1.Taint{foreign}, agent: window(5*time.Minute, time.Hour), wantTaints: []v1.Taint{foreign, ours(wellknown.MaintenanceTaint)}},
		{name: "maintenance for ever", agent: window(-time.Hour, 0), wantTaints: []v1.Taint{ours(wellknown.MaintenanceTaint)}},
		{name: "maintenance later", agent: window(time.Hour, time.Hour)},
		{name: "maintenance is over", taints: []v1.Taint{ours(wellknown.MaintenanceTaint)}, agent: window(-2*time.Hour, time.Hour), wantTaints: []v1.Taint{}},
		{name: "maintenance and draining", taints: []v1.Taint{ours(wellknown.MaintenanceTaint)}, agent: with(window(0, 0), func(a *ledger.AgentInfo) { a.Trouble = ledger.AgentDraining }),
			wantTaints: []v1.Taint{ours(wellknown.MaintenanceTaint), ours(wellknown.DrainingTaint)}},
		{name: "the agent is forgotten", taints: []v1.Taint{ours(wellknown.UnreachableTaint), foreign}, unknown: true, wantTaints: []v1.Taint{foreign}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "7", Labels: tt.labels}, Spec: v1.NodeSpec{Taints: tt.taints}}
			s := &Syncer{Clock: testclock.NewFakeClock(noon), Lead: 10 * time.Minute}
			body := patch(node, &tt.agent, !tt.unknown, !tt.off, s.wantedKeys(&tt.agent, !tt.unknown))
			if (body == nil) != (tt.wantLabels == nil && tt.wantTaints == nil) {
				t.Fatalf("patch %s", body)
			}
			if body == nil {
				return
			}
			before, _ := json.Marshal(node)
			after, err := strategicpatch.StrategicMergePatch(before, body, &v1.Node{})
			if err != nil {
				t.Fatal(err)
			}
			var got v1.Node
			if err := json.Unmarshal(after, &got); err != nil {
				t.Fatal(err)
			}
			wantLabels, wantTaints := tt.wantLabels, tt.wantTaints
			if wantLabels == nil {
				wantLabels = tt.labels
			}
			if wantTaints == nil {
				wantTaints = tt.taints
			}
			if diff := cmp.Diff(wantLabels, got.Labels); diff != "" && len(wantLabels)+len(got.Labels) > 0 {
				t.Errorf("labels (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(wantTaints, got.Spec.Taints); diff != "" && len(wantTaints)+len(got.Spec.Taints) > 0 {
				t.Errorf("taints (-want,+got):\n%s", diff)
			}
			// A list that is replaced whole must be the one that was read.
			if locked := strings.Contains(string(body), `"resourceVersion":"7"`); locked != (tt.wantTaints != nil) {
				t.Errorf("resource version in %s", body)
			}
		})
	}
}

func TestSyncer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1"}}
	client := fake.NewClientset(node)
	patched := make(chan types.PatchType, 10)
	client.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patched <- a.(clienttesting.PatchAction).GetPatchType()
		return true, node, nil
	})
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	_ = indexer.Add(node)
	_ = indexer.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	clock := testclock.NewFakeClock(time.Now())
	ready := make(chan bool, 10)
	s := &Syncer{Clock: clock, Client: client, Nodes: corelisters.NewNodeLister(indexer), AttributeLabels: true, Ready: func() bool { return <-ready },
		Agents: func() []*ledger.AgentInfo {
			return []*ledger.AgentInfo{{ID: "S1", Node: "n", Serves: true, Trouble: ledger.AgentDraining}, {ID: "S0", Node: "n", Trouble: ledger.AgentUnreachable}}
		}}
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	tick := func(isReady bool) {
		if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return clock.HasWaiters(), nil }); err != nil {
			t.Fatal(err)
		}
		clock.Step(interval)
		ready <- isReady
	}
	tick(false)
	tick(true)
	if got := <-patched; got != types.StrategicMergePatchType {
		t.Errorf("patch of type %s", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := len(patched); n != 0 {
		t.Errorf("%d more patches: nothing is done before the picture is complete", n)
	}
}
