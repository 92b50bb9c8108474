// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

const (
	ours      = "mesos-scheduler"
	framework = "9f48d831-63e7-4556-86ab-463a69389e4d-0000"
)

// fakeLauncher answers Launch by a function.
type fakeLauncher func(ctx context.Context, uid types.UID) (ledger.Task, error)

func (f fakeLauncher) Launch(ctx context.Context, uid types.UID) (ledger.Task, error) {
	return f(ctx, uid)
}

// fakeSession says what the test wants.
type fakeSession struct {
	mu         sync.Mutex
	reconciled bool
	asked      atomic.Int32 // whether it is
}

func (f *fakeSession) Reconciled() bool {
	f.asked.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reconciled
}
func (f *fakeSession) FrameworkID() string { return framework }

type fixture struct {
	*Lifecycle
	t         *testing.T
	ctx       context.Context
	clock     *testclock.FakeClock
	book      *ledger.Ledger
	client    *fake.Clientset
	nodes     cache.Indexer
	recorder  *events.FakeRecorder
	session   *fakeSession
	launch    fakeLauncher
	activated []string
	released  bool
}

func setUp(t *testing.T) *fixture {
	_, ctx := ktesting.NewTestContext(t)
	clock := testclock.NewFakeClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	f := &fixture{t: t, ctx: ctx, clock: clock, client: fake.NewClientset(), recorder: events.NewFakeRecorder(100), session: &fakeSession{reconciled: true}}
	f.client.PrependReactor("*", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if named, ok := a.(interface{ GetName() string }); ok { // the API server has what the informer has
			if p, known, _ := f.options.Pods.GetStore().GetByKey("ns/" + named.GetName()); known {
				return true, p.(*v1.Pod), nil
			}
		}
		return true, &v1.Pod{}, nil
	})
	f.book = ledger.New(ledger.Options{Clock: clock, NodeName: func(o *mesos.Offer) string { return o.Hostname }, Executor: taskinfo.Executor{Path: "/x"}, ReturnTime: time.Second})
	f.book.Resubscribed()
	f.book.SetConnected(true)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1.Pod{}, 0, cache.Indexers{})
	if err := AddIndex(informer); err != nil {
		t.Fatal(err)
	}
	if err := AddIndex(informer); err != nil {
		t.Fatalf("two profiles share the informer: %v", err)
	}
	f.nodes = cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	f.launch = func(context.Context, types.UID) (ledger.Task, error) { return ledger.Task{}, errors.New("no room") }
	f.Lifecycle = New(Options{
		Clock: clock, Client: f.client, Pods: informer, Nodes: corelisters.NewNodeLister(f.nodes), Recorder: f.recorder,
		Ours: func(name string) bool { return name == ours },
		NeedOf: func(pod *v1.Pod) (resources.Need, error) {
			need := resources.NeedOf(pod, resources.Amounts{CPUs: 10, Mem: 32_000})
			need.Role = "k8s"
			return need, nil
		},
		Activate: func(pods []*v1.Pod) {
			for _, p := range pods {
				f.activated = append(f.activated, p.Name)
			}
		},
		ReholdTimeout: 30 * time.Second, OrphanGrace: 30 * time.Second, MaxOrphans: 20,
		Released:     func(context.Context, time.Time) (bool, error) { return f.released, nil },
		HowToRelease: func(time.Time) string { return "the ConfigMap" },
	}, f.book, fakeLauncher(func(ctx context.Context, uid types.UID) (ledger.Task, error) { return f.launch(ctx, uid) }), f.session)
	f.node("n", v1.ConditionTrue)
	return f
}

func (f *fixture) node(name string, ready v1.ConditionStatus) {
	_ = f.nodes.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}}})
}

// pod is a bound pod with the record of task `<name>.1`.
func pod(name string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 3, Annotations: map[string]string{
			wellknown.TaskIDAnnotation: name + ".1", wellknown.AgentIDAnnotation: "S1", wellknown.FrameworkIDAnnotation: framework,
			wellknown.ExecutorIDAnnotation: "x", wellknown.ResourcesAnnotation: "cpus:0.5;mem:64",
		}},
		Spec: v1.PodSpec{SchedulerName: ours, NodeName: "n", Containers: []v1.Container{{Name: "c", Resources: requests("500m")}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func requests(cpu string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("64Mi")}}
}

func unbound(p *v1.Pod) { p.Spec.NodeName, p.Annotations = "", nil }

func (f *fixture) store(pods ...*v1.Pod) {
	f.t.Helper()
	for _, p := range pods {
		if err := f.options.Pods.GetStore().Add(p); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) task(uid string) ledger.Task {
	f.t.Helper()
	t, ok := f.book.Task(types.UID(uid))
	if !ok {
		f.t.Fatalf("no record of %s", uid)
	}
	return t
}

// running stores a pod and has Mesos confirm its task.
func (f *fixture) running(names ...string) {
	f.t.Helper()
	for _, name := range names {
		p := pod(name)
		f.store(p)
		if !f.restore(f.ctx, p, framework) {
			f.t.Fatalf("%s is not ours", name)
		}
		f.says(name+".1", "S1", mesos.TASK_RUNNING, mesos.SOURCE_EXECUTOR)
	}
}

func (f *fixture) says(task, agent string, state mesos.TaskState, source mesos.TaskStatus_Source, reason ...mesos.TaskStatus_Reason) {
	u := ledger.Update{TaskID: task, AgentID: agent, Status: ledger.Status{State: state, Source: source}}
	if len(reason) > 0 {
		u.Reason, u.HasWhy = reason[0], true
	}
	f.OnChange(f.book.Apply(u))
}

func (f *fixture) lose(names ...string) {
	for _, name := range names {
		f.says(name+".1", "S1", mesos.TASK_FAILED, mesos.SOURCE_AGENT, mesos.REASON_EXECUTOR_TERMINATED)
	}
}

// handle processes a pod until its attempt to be held anew has ended.
func (f *fixture) handle(uid string) {
	f.t.Helper()
	if _, err := f.process(f.ctx, types.UID(uid)); err != nil {
		f.t.Fatal(err)
	}
	f.holding.Wait()
}

// did lists the writes to the API server since the last call.
func (f *fixture) did() []string {
	var out []string
	for _, a := range f.client.Actions() {
		if a.GetVerb() == "get" {
			continue
		}
		switch a := a.(type) {
		case clienttesting.PatchAction:
			out = append(out, strings.TrimSuffix("patch "+a.GetName()+"/"+a.GetSubresource(), "/"))
		case clienttesting.DeleteAction:
			out = append(out, "delete "+a.GetName())
		default:
			out = append(out, a.GetVerb())
		}
	}
	f.client.ClearActions()
	return out
}

func (f *fixture) wants(want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.did()); diff != "" {
		f.t.Errorf("writes (-want,+got):\n%s", diff)
	}
}

func (f *fixture) event() string {
	select {
	case e := <-f.recorder.Events:
		return e
	default:
		return ""
	}
}

// Defect 4 of the 2015 system, and M13: only a record that belongs to the pod's UID counts, and nobody is touched.
func TestC33_Recover(t *testing.T) {
	f := setUp(t)
	var all []*v1.Pod
	for i := range 100 {
		all = append(all, pod(fmt.Sprintf("p%03d", i)))
	}
	others := []*v1.Pod{
		pod("another-scheduler", func(p *v1.Pod) { p.Spec.SchedulerName = "default-scheduler" }),
		pod("no-record", func(p *v1.Pod) { p.Annotations = nil }),
		pod("record-of-another-pod", func(p *v1.Pod) { p.Annotations[wellknown.TaskIDAnnotation] = "p000.1" }),
		pod("no-agent", func(p *v1.Pod) { delete(p.Annotations, wellknown.AgentIDAnnotation) }),
		pod("finished", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }),
		pod("waiting", unbound),
	}
	f.store(append(all, others...)...)
	f.store(pod("old-framework", func(p *v1.Pod) { p.Annotations[wellknown.FrameworkIDAnnotation] = "removed" }))
	if n := f.Recover(f.ctx, framework); n != 101 {
		t.Errorf("%d pods, want 101", n)
	}
	for _, p := range all {
		if got := f.task(p.Name); got.State != ledger.Restored || got.ID != p.Name+".1" || !got.Bound {
			t.Fatalf("%+v", got)
		}
	}
	if got := f.task("old-framework"); got.State != ledger.Unheld || got.ID != "" {
		t.Errorf("the task of a framework that is gone counts: %s %s", got.State, got.ID)
	}
	for _, p := range others {
		if _, ok := f.book.Task(p.UID); ok {
			t.Errorf("%s is taken for ours", p.Name)
		}
	}
	f.wants()
	// Nothing is decided before the master was asked.
	f.session.reconciled = false
	f.says("stranger.1", "S1", mesos.TASK_RUNNING, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
	f.clock.Step(time.Hour)
	f.strangers(f.ctx)
	f.handle("old-framework")
	if d := f.book.Dooms(0, time.Second); len(d) != 0 {
		t.Errorf("killed: %+v", d)
	}
	f.wants()
	// Then the stranger goes, once it is old enough.
	f.session.reconciled = true
	f.strangers(f.ctx)
	if d := f.book.Dooms(0, time.Second); len(d) != 1 || d[0].TaskID != "stranger.1" {
		t.Errorf("killed: %+v", d)
	}
}

// Launches that an earlier leader had in flight: what the API server says of their pods now decides.
func TestRecoverLaunches(t *testing.T) {
	flight := func(name string) []ledger.Flight {
		return []ledger.Flight{{TaskID: name + ".1", AgentID: "S1", Node: "n"}}
	}
	answers := func(f *fixture, p *v1.Pod, err error) {
		f.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, p, err })
		f.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, p, err })
	}
	notFound := apierrors.NewNotFound(v1.Resource("pods"), "p")
	for _, c := range []struct {
		name     string
		informer *v1.Pod
		now      *v1.Pod
		err      error
		taken    bool // as a launch in flight
		bound    bool
	}{
		{"not bound", pod("p", unbound), pod("p", unbound), nil, true, false},
		{"the informer does not know of the Binding yet", pod("p", unbound), pod("p"), nil, false, true},
		{"the informer does not know of the end yet", pod("p", unbound), nil, notFound, false, false},
		{"another pod of the name", pod("p", unbound), pod("p", unbound, func(p *v1.Pod) { p.UID = "other" }), nil, false, false},
		{"bound and recovered", pod("p"), pod("p"), nil, false, true},
		{"gone", nil, nil, notFound, false, false},
		{"of another scheduler", pod("p", unbound, func(p *v1.Pod) { p.Spec.SchedulerName = "other" }), nil, nil, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setUp(t)
			if c.informer != nil {
				f.store(c.informer)
			}
			answers(f, c.now, c.err)
			f.Recover(f.ctx, framework)
			n, err := f.RecoverLaunches(f.ctx, framework, flight("p"))
			if err != nil || (n == 1) != c.taken {
				t.Errorf("%d, %v", n, err)
			}
			got, known := f.book.Task("p")
			switch {
			case known != (c.taken || c.bound):
				t.Errorf("in the book: %v %+v", known, got)
			case known && (got.ID != "p.1" || got.Bound != c.bound || got.KillSince.IsZero() == c.taken):
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("the API server does not answer", func(t *testing.T) {
		f := setUp(t)
		f.store(pod("p", unbound))
		answers(f, nil, errors.New("away"))
		if _, err := f.RecoverLaunches(f.ctx, framework, flight("p")); err == nil {
			t.Error("taken for known")
		}
	})
}

// Before a task is killed that an earlier leader launched, its pod is written to, at the version that was seen not to be
// bound: after that a Binding of the earlier leader, which names a version before, is refused.
func TestAbandon(t *testing.T) {
	at := func(version string, change ...func(*v1.Pod)) *v1.Pod {
		p := pod("p", append(change, func(p *v1.Pod) { p.ResourceVersion = version })...)
		return p
	}
	for _, c := range []struct {
		name  string
		found []*v1.Pod // by each look
		fails []error   // of each write
		want  []string  // versions that were written to
		bound bool
	}{
		{"not bound", []*v1.Pod{at("1", unbound)}, []error{nil}, []string{"1"}, false},
		{"changed meanwhile", []*v1.Pod{at("1", unbound), at("2", unbound)}, []error{apierrors.NewConflict(v1.Resource("pods"), "p", nil), nil}, []string{"1", "2"}, false},
		{"bound meanwhile", []*v1.Pod{at("1", unbound), at("2")}, []error{apierrors.NewConflict(v1.Resource("pods"), "p", nil)}, []string{"1"}, true},
		{"bound", []*v1.Pod{at("1")}, nil, nil, true},
		{"noted before", []*v1.Pod{at("1", unbound, func(p *v1.Pod) { p.Annotations = map[string]string{wellknown.AbandonedTaskAnnotation: "p.1"} })}, nil, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setUp(t)
			looks, found := 0, (*v1.Pod)(nil)
			f.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				found = c.found[looks]
				looks++
				return true, found, nil
			})
			var written []string
			f.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				var patch struct{ Metadata metav1.ObjectMeta }
				if err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &patch); err != nil {
					t.Fatal(err)
				}
				if patch.Metadata.UID != "p" || patch.Metadata.Annotations[wellknown.AbandonedTaskAnnotation] != "p.1" {
					t.Errorf("patch %+v", patch.Metadata)
				}
				written = append(written, patch.Metadata.ResourceVersion)
				return true, found, c.fails[len(written)-1]
			})
			now, err := f.abandon(f.ctx, pod("p", unbound), "p.1")
			if err != nil || (now.Spec.NodeName != "") != c.bound || !slices.Equal(written, c.want) {
				t.Errorf("%v, written to %v, bound %v", err, written, now.Spec.NodeName != "")
			}
		})
	}
}

// A task of a pod that the informer shows as not bound is killed only if the API server says so, too.
func TestStrangerOfAPodThatWasJustBound(t *testing.T) {
	f := setUp(t)
	f.store(pod("p", unbound))
	f.says("p.1", "S1", mesos.TASK_RUNNING, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
	now := pod("p")
	f.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, now, nil })
	f.strangers(f.ctx)
	if d := f.book.Dooms(0, time.Second); len(d) != 0 {
		t.Errorf("killed: %+v", d)
	}
	now = pod("p", unbound)
	f.strangers(f.ctx)
	if d := f.book.Dooms(0, time.Second); len(d) != 1 {
		t.Errorf("killed: %+v", d)
	}
}

func TestHandler(t *testing.T) {
	f := setUp(t)
	h := f.handler(f.ctx)
	t.Run("bound by an earlier leader", func(t *testing.T) {
		p := pod("late")
		h.OnUpdate(pod("late", unbound), p)
		if got := f.task("late"); !got.Bound || got.ID != "late.1" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("bound by somebody else", func(t *testing.T) {
		h.OnAdd(pod("forged", func(p *v1.Pod) { p.Annotations[wellknown.TaskIDAnnotation] = "late.1" }), false)
		if _, ok := f.book.Task("forged"); ok {
			t.Error("a forged record counts")
		}
		if e := f.event(); !strings.Contains(e, "BoundElsewhere") {
			t.Errorf("event %q", e)
		}
		f.wants()
	})
	t.Run("completed or deleted", func(t *testing.T) {
		f.running("a", "b", "c")
		h.OnDelete(pod("a"))
		h.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/b", Obj: pod("b")})
		h.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/x"})
		h.OnUpdate(pod("c"), pod("c", func(p *v1.Pod) { p.UID = "c2"; unbound(p) })) // another UID is another pod
		for _, name := range []string{"a", "b", "c"} {
			if f.task(name).PodGone.IsZero() {
				t.Errorf("%s is not gone", name)
			}
		}
	})
	t.Run("another scheduler's pod of no interest", func(t *testing.T) {
		f.running("d")
		h.OnDelete(pod("d", func(p *v1.Pod) { p.Spec.SchedulerName = "x" }))
		if !f.task("d").PodGone.IsZero() {
			t.Error("gone")
		}
	})
	t.Run("bound with another task than ours", func(t *testing.T) {
		f.book.AddOffers([]mesos.Offer{{ID: mesos.OfferID{Value: "O1"}, AgentID: mesos.AgentID{Value: "S1"}, Hostname: "n", AllocationInfo: &mesos.Resource_AllocationInfo{Role: ptr.To("k8s")},
			Resources: []mesos.Resource{{Name: "cpus", Scalar: &mesos.Value_Scalar{Value: 4}}, {Name: "mem", Scalar: &mesos.Value_Scalar{Value: 4096}}}}})
		if err := f.book.Claim(ledger.Pod{UID: "twice"}, resources.Need{Amounts: resources.Amounts{CPUs: 100, Mem: 1000}, Role: "k8s"}, "n"); err != nil {
			t.Fatal(err)
		}
		f.book.Sent(f.book.Batch("S1", ledger.PoolKey{Role: "k8s"}, []types.UID{"twice"}, 1))
		f.store(pod("twice"))
		h.OnUpdate(pod("twice", unbound), pod("twice"))
		now := f.task("twice")
		if now.Bound || now.KillSince.IsZero() {
			t.Fatalf("ours has to end: %+v", now)
		}
		f.says(now.ID, "S1", mesos.TASK_KILLED, mesos.SOURCE_EXECUTOR)
		f.handle("twice")
		if now = f.task("twice"); !now.Bound || now.ID != "twice.1" {
			t.Errorf("the Binding names the task that counts: %+v", now)
		}
	})
}

func TestReholdWritesTheNewRecord(t *testing.T) {
	f := setUp(t)
	f.running("p")
	f.lose("p")
	f.launch = func(_ context.Context, uid types.UID) (ledger.Task, error) {
		if got := f.task("p"); got.State != ledger.Claimed || !got.Bound {
			t.Errorf("%s", got.State)
		}
		// The task is found again: as good as a new one.
		f.book.GiveUp(uid)
		f.says("p.2", "S1", mesos.TASK_RUNNING, mesos.SOURCE_EXECUTOR)
		return f.task("p"), nil
	}
	f.handle("p")
	f.wants()
	f.handle("p")
	patch := f.client.Actions()[0].(clienttesting.PatchAction)
	var got v1.Pod
	if err := json.Unmarshal(patch.GetPatch(), &got); err != nil {
		t.Fatal(err)
	}
	if patch.GetPatchType() != types.MergePatchType || got.UID != "p" || got.Annotations[wellknown.TaskIDAnnotation] != "p.2" {
		t.Errorf("%s %s", patch.GetPatchType(), patch.GetPatch())
	}
	f.wants("patch p")
}

// A conflict is no sign that the pod is gone: what failed by one is done again, or a record would name an earlier task for
// ever, and a pod that is to go would stay.
func TestConflictsAreTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		verb, subresource string
		set               func(f *fixture)
		want              []string
	}{
		{"patch", "", func(f *fixture) { f.says("p.2", "S1", mesos.TASK_RUNNING, mesos.SOURCE_EXECUTOR) }, []string{"patch p"}},
		{"patch", "status", func(f *fixture) {}, []string{"patch p/status", "delete p"}},
		{"delete", "", func(f *fixture) {}, []string{"patch p/status", "delete p"}},
	} {
		t.Run(tt.verb+" pods/"+tt.subresource, func(t *testing.T) {
			f := setUp(t)
			f.running("p")
			if tt.want[0] == "patch p" {
				f.lose("p")
			} else {
				f.says("p.1", "S1", mesos.TASK_KILLED, mesos.SOURCE_EXECUTOR, mesos.REASON_AGENT_DRAINING)
			}
			tt.set(f)
			conflicts := 1
			f.client.PrependReactor(tt.verb, "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if conflicts > 0 && a.GetSubresource() == tt.subresource {
					conflicts--
					return true, nil, apierrors.NewConflict(v1.Resource("pods"), "p", errors.New("the object has been modified"))
				}
				return false, nil, nil
			})
			if _, err := f.process(f.ctx, "p"); !apierrors.IsConflict(err) {
				t.Fatalf("%v", err)
			}
			f.did()
			f.handle("p")
			f.wants(tt.want...)
		})
	}
}

// What cannot be held anew is removed: the least important and youngest first, which makes room for the others.
func TestPodsThatCannotBeHeldGoInOrder(t *testing.T) {
	f := setUp(t)
	f.running("low-old", "low-young", "high")
	for name, change := range map[string]func(*v1.Pod){
		"low-old":   func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(f.clock.Now().Add(-time.Hour)) },
		"low-young": func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(f.clock.Now()) },
		"high":      func(p *v1.Pod) { p.Spec.Priority = ptr.To[int32](1000) },
	} {
		f.book.PodGone(types.UID(name))
		f.says(name+".1", "S1", mesos.TASK_FINISHED, mesos.SOURCE_EXECUTOR)
		p := pod(name, change)
		f.store(p)
		f.restore(f.ctx, p, framework)
	}
	f.lose("low-old", "low-young", "high")
	for _, name := range []string{"high", "low-old"} {
		f.handle(name)
		f.wants()
	}
	f.handle("low-young")
	if diff := cmp.Diff([]string{"patch low-young/status", "delete low-young"}, f.did()); diff != "" {
		t.Errorf("writes (-want,+got):\n%s", diff)
	}
	if e := f.event(); !strings.Contains(e, "MesosTaskLost") || !strings.Contains(e, "REASON_EXECUTOR_TERMINATED") {
		t.Errorf("event %q", e)
	}
}

func TestRemoveAsPreemptionDoes(t *testing.T) {
	f := setUp(t)
	f.running("p")
	f.says("p.1", "S1", mesos.TASK_KILLED, mesos.SOURCE_EXECUTOR, mesos.REASON_AGENT_DRAINING)
	f.handle("p")
	actions := f.client.Actions()
	if len(actions) != 2 {
		t.Fatalf("%v", actions)
	}
	var patched struct {
		Metadata struct{ UID types.UID }
		Status   v1.PodStatus
	}
	if err := json.Unmarshal(actions[0].(clienttesting.PatchAction).GetPatch(), &patched); err != nil {
		t.Fatal(err)
	}
	c := patched.Status.Conditions[0]
	if patched.Metadata.UID != "p" || patched.Status.ObservedGeneration != 3 || c.Type != v1.DisruptionTarget || c.Status != v1.ConditionTrue || c.Reason != "MesosTaskWithdrawn" || !strings.Contains(c.Message, "TASK_KILLED (REASON_AGENT_DRAINING)") {
		t.Errorf("%+v", patched)
	}
	options := actions[1].(clienttesting.DeleteActionImpl).DeleteOptions
	if *options.Preconditions.UID != "p" || options.GracePeriodSeconds != nil {
		t.Errorf("delete with %+v: want the UID and the pod's own grace", options)
	}
	f.did()
	// Deleting already, or gone: nothing more to do.
	f.store(pod("p", func(p *v1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }))
	f.handle("p")
	f.wants()
	f.client.PrependReactor("*", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "q")
	})
	if err := f.remove(f.ctx, pod("q"), "R", "m"); err != nil {
		t.Errorf("a pod that is gone: %v", err)
	}
	// Defect 10 of the 2015 system: any other failure is tried again.
	f.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("503") })
	if err := f.remove(f.ctx, pod("q"), "R", "m"); err == nil {
		t.Error("a failed delete is forgotten")
	}
}

func TestKeptPods(t *testing.T) {
	f := setUp(t)
	t.Run("C38: unreachable", func(t *testing.T) {
		f.running("u")
		f.says("u.1", "S1", mesos.TASK_UNREACHABLE, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REMOVED)
		f.clock.Step(24 * time.Hour)
		f.unreachable()
		f.handle("u")
		f.wants()
	})
	t.Run("node not ready: Kubernetes' own eviction decides", func(t *testing.T) {
		f.running("p")
		f.node("n", v1.ConditionUnknown)
		f.lose("p")
		f.launch = func(context.Context, types.UID) (ledger.Task, error) {
			t.Error("launched")
			return ledger.Task{}, nil
		}
		f.handle("p")
		f.wants()
	})
	t.Run("deleting: it stops by itself", func(t *testing.T) {
		f.node("n", v1.ConditionTrue)
		f.store(pod("p", func(p *v1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }))
		f.handle("p")
		f.wants()
	})
}

// I4: while no master can offer room, or another one has just begun to, nobody is removed for want of it.
func TestNoPodIsRemovedWithoutASubscription(t *testing.T) {
	f := setUp(t)
	f.running("p")
	f.lose("p")
	f.launch = func(context.Context, types.UID) (ledger.Task, error) {
		f.book.SetConnected(false)
		f.book.SetConnected(true)
		return ledger.Task{}, errors.New("no room")
	}
	f.handle("p")
	f.wants()
	f.book.SetConnected(false)
	f.launch = func(context.Context, types.UID) (ledger.Task, error) {
		t.Error("launched without a subscription")
		return ledger.Task{}, nil
	}
	f.clock.Step(time.Hour)
	f.tendLost()
	f.handle("p")
	f.wants()
	if got := f.task("p").State; got != ledger.Unheld {
		t.Errorf("%s", got)
	}
}

func TestUnreachableTimeout(t *testing.T) {
	f := setUp(t)
	f.options.UnreachableTimeout = time.Hour
	f.running("u")
	f.says("u.1", "S1", mesos.TASK_UNREACHABLE, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REMOVED)
	f.clock.Step(time.Hour - time.Second)
	f.unreachable()
	f.handle("u")
	f.wants()
	f.clock.Step(time.Second)
	f.unreachable()
	f.handle("u")
	f.wants("patch u/status", "delete u")
}

// The executor has reported the end of the pod's containers: a pod that is still there is deleted, after a moment.
func TestEndedPodIsDeleted(t *testing.T) {
	f := setUp(t)
	f.running("p")
	f.says("p.1", "S1", mesos.TASK_FINISHED, mesos.SOURCE_EXECUTOR)
	f.handle("p")
	f.wants()
	f.clock.Step(settleEnd)
	f.handle("p")
	f.wants("patch p/status", "delete p")
	// Gone from the informer: the record goes, too.
	_ = f.options.Pods.GetStore().Delete(pod("p"))
	f.handle("p")
	if _, ok := f.book.Task("p"); ok {
		t.Error("a record is left")
	}
}

func TestFreedPodsAreWoken(t *testing.T) {
	f := setUp(t)
	f.store(pod("p", unbound), pod("x", unbound, func(p *v1.Pod) { p.Spec.SchedulerName = "x" }))
	f.handle("p")
	f.handle("x")
	f.handle("nobody")
	if diff := cmp.Diff([]string{"p"}, f.activated); diff != "" {
		t.Errorf("activated (-want,+got):\n%s", diff)
	}
}

func TestStrangers(t *testing.T) {
	const m, r = mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION
	dooms := func(f *fixture) []string {
		var out []string
		for _, d := range f.book.Dooms(0, time.Second) {
			out = append(out, d.TaskID)
		}
		slices.Sort(out)
		return out
	}
	t.Run("kinds", func(t *testing.T) {
		f := setUp(t)
		f.store(pod("waiting", unbound))
		f.running("held")
		f.says("waiting.1", "S1", mesos.TASK_RUNNING, m, r)
		f.says("held.0", "S1", mesos.TASK_RUNNING, m, r)
		f.says("gone.1", "S1", mesos.TASK_RUNNING, m, r)
		late := pod("late")
		f.says("late.1", "S1", mesos.TASK_RUNNING, m, r)
		f.store(late)
		f.strangers(f.ctx)
		if diff := cmp.Diff([]string{"waiting.1"}, dooms(f)); diff != "" {
			t.Errorf("at once: what keeps a pod from being scheduled (-want,+got):\n%s", diff)
		}
		if got := f.task("late"); got.ID != "late.1" || got.State != ledger.Running {
			t.Errorf("the Binding of an earlier leader: %+v", got)
		}
		f.clock.Step(30 * time.Second)
		f.strangers(f.ctx)
		if diff := cmp.Diff([]string{"gone.1", "held.0", "waiting.1"}, dooms(f)); diff != "" {
			t.Errorf("after the grace (-want,+got):\n%s", diff)
		}
		if got := f.task("held"); got.State != ledger.Running || !got.KillSince.IsZero() {
			t.Errorf("%+v", got)
		}
	})
	t.Run("too many at once are a wrong picture", func(t *testing.T) {
		f := setUp(t)
		for i := range 21 {
			f.says(fmt.Sprintf("p%d.1", i), "S1", mesos.TASK_RUNNING, m, r)
		}
		f.clock.Step(time.Minute)
		f.strangers(f.ctx)
		if d := dooms(f); d != nil {
			t.Fatalf("%d are killed", len(d))
		}
		if f.StoppedSince().IsZero() {
			t.Error("the stop is not shown")
		}
		f.tendStop(f.ctx)
		f.strangers(f.ctx)
		if d := dooms(f); d != nil {
			t.Fatalf("%d are killed without release", len(d))
		}
		f.released = true
		f.tendStop(f.ctx)
		f.strangers(f.ctx)
		if d := dooms(f); len(d) != 21 {
			t.Errorf("%d are killed after the release, want 21", len(d))
		}
	})
}

// A stop protects against a wrong signal: many agents lose their tasks and no operator's word explains it.
func TestTheStopKeepsPods(t *testing.T) {
	f := setUp(t)
	for i := range 4 {
		name := fmt.Sprintf("p%d", i)
		p := pod(name, func(p *v1.Pod) {
			p.Annotations[wellknown.AgentIDAnnotation] = fmt.Sprintf("S%d", i)
			p.Spec.NodeName = "n" + name
		})
		f.node("n"+name, v1.ConditionTrue)
		f.store(p)
		f.restore(f.ctx, p, framework)
		f.says(name+".1", fmt.Sprintf("S%d", i), mesos.TASK_GONE, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
	}
	f.handle("p0")
	f.wants()
	if e := f.event(); !strings.Contains(e, "MesosTaskLost") || !strings.Contains(e, "the ConfigMap") {
		t.Errorf("the event says how to release it: %q", e)
	}
	f.released = true
	f.tendStop(f.ctx)
	f.handle("p0")
	f.wants("patch p0/status", "delete p0")
}

func TestStop(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	s := NewStop(clock)
	stopped := func(agents int) bool { is, _ := s.Stopped(agents); return is }
	for i := range 3 {
		s.Lost(fmt.Sprint(i))
		s.Lost(fmt.Sprint(i))
	}
	if stopped(5) {
		t.Error("three agents are no stop")
	}
	s.Lost("3")
	if stopped(100) || !stopped(5) {
		t.Error("four of 5 agents are one, four of 100 are none")
	}
	clock.Step(time.Hour)
	if !stopped(5) {
		t.Error("a stop stands until it is released")
	}
	s.Release()
	if stopped(5) {
		t.Error("released")
	}
	s.Trip()
	if stopped(5) {
		t.Error("what was just released does not trip again")
	}
	clock.Step(stopWindow + time.Second)
	if s.Trip(); !stopped(5) {
		t.Error("later it does")
	}
	s.Release()
	clock.Step(time.Second)
	for i := range 4 {
		s.Lost(fmt.Sprint("n", i))
		clock.Step(2 * time.Minute)
	}
	if stopped(5) {
		t.Error("losses over eight minutes are not at once")
	}
}

func TestC07_AResizeBeyondTheTaskIsNeverSilent(t *testing.T) {
	f := setUp(t)
	f.running("p")
	h := f.handler(f.ctx)
	grown := pod("p", func(p *v1.Pod) {
		p.Spec.Containers[0].Resources = requests("1500m")
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", AllocatedResources: requests("500m").Requests, Resources: ptr.To(requests("500m"))}}
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonDeferred}}
	})
	h.OnUpdate(pod("p"), grown)
	f.store(grown)
	if n := f.queue.Len(); n != 1 {
		t.Fatalf("%d pods to look at", n)
	}
	f.handle("p")
	patch := string(f.client.Actions()[0].(clienttesting.PatchAction).GetPatch())
	if !strings.Contains(patch, `"`+wellknown.ExceedsTaskAnnotation+`":"cpus:1"`) {
		t.Errorf("patch %s", patch)
	}
	f.wants("patch p")
	if e := f.event(); !strings.Contains(e, "ExceedsMesosTask") || !strings.Contains(e, "exceeds the task by cpus:1,") {
		t.Errorf("event %q", e)
	}
	if got := f.exceeding["p"]; got != (resources.Amounts{CPUs: 1000}) {
		t.Errorf("metric of %v", got)
	}
	// It is said once; no second launch; the task holds what it held.
	grown = grown.DeepCopy()
	grown.Annotations[wellknown.ExceedsTaskAnnotation] = "cpus:1"
	f.store(grown)
	h.OnUpdate(grown, grown)
	f.handle("p")
	f.wants()
	if e := f.event(); e != "" {
		t.Errorf("again: %q", e)
	}
	if got := f.task("p"); got.Need.CPUs != 500 || got.State != ledger.Running || got.Attempts != 0 {
		t.Errorf("%+v", got)
	}
	// After a restart it is still known: the task holds what its record says.
	again := setUp(t)
	again.store(grown)
	again.Recover(again.ctx, framework)
	if got := again.task("p"); got.Need.CPUs != 500 || again.queue.Len() != 1 {
		t.Errorf("%v, %d to look at", got.Need, again.queue.Len())
	}
	again.says("p.1", "S1", mesos.TASK_RUNNING, mesos.SOURCE_EXECUTOR)
	again.handle("p")
	if got := again.exceeding["p"].CPUs; got != 1000 {
		t.Errorf("metric of %d after a restart", got)
	}
	// A task that is launched anew has the present size.
	f.lose("p")
	f.launch = func(context.Context, types.UID) (ledger.Task, error) {
		if got := f.task("p").Need.CPUs; got != 1500 {
			t.Errorf("launched anew with %d", got)
		}
		f.book.GiveUp("p")
		f.says("p.2", "S1", mesos.TASK_RUNNING, mesos.SOURCE_EXECUTOR)
		return f.task("p"), nil
	}
	f.handle("p")
	f.handle("p")
	if patch := string(f.client.Actions()[0].(clienttesting.PatchAction).GetPatch()); !strings.Contains(patch, `"`+wellknown.ExceedsTaskAnnotation+`":null`) || !strings.Contains(patch, `cpus:1.5;mem:64`) {
		t.Errorf("patch %s", patch)
	}
	if len(f.exceeding) != 0 {
		t.Errorf("metric of %v", f.exceeding)
	}
}

func TestC07_AShrinkingPodHoldsWhatItsTaskHolds(t *testing.T) {
	f := setUp(t)
	f.running("p")
	shrunk := pod("p", func(p *v1.Pod) {
		p.Spec.Containers[0].Resources = requests("100m")
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", AllocatedResources: requests("500m").Requests, Resources: ptr.To(requests("500m"))}}
	})
	f.handler(f.ctx).OnUpdate(pod("p"), shrunk)
	f.store(shrunk)
	f.handle("p")
	f.wants()
	if e := f.event(); e != "" {
		t.Errorf("event %q", e)
	}
	if got := f.task("p").Need.CPUs; got != 500 {
		t.Errorf("counted as %d", got)
	}
	// Infeasible growth does not count, since it never comes.
	infeasible := pod("p", func(p *v1.Pod) {
		p.Spec.Containers[0].Resources = requests("100")
		p.Status.ContainerStatuses = shrunk.Status.ContainerStatuses
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonInfeasible}}
	})
	f.store(infeasible)
	f.handle("p")
	f.wants()
}

// Run works on what comes, and ends with its context without leaving anything behind.
func TestRun(t *testing.T) {
	f := setUp(t)
	leaks := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan error)
	go func() { done <- f.Run(ctx) }()
	f.running("p", "q")
	f.says("p.1", "S1", mesos.TASK_KILLED, mesos.SOURCE_EXECUTOR, mesos.REASON_AGENT_DRAINING)
	f.says("q.1", "S1", mesos.TASK_FINISHED, mesos.SOURCE_EXECUTOR)
	deleted := func() bool {
		n := 0
		for _, a := range f.client.Actions() {
			if a.GetVerb() == "delete" {
				n++
			}
		}
		f.clock.Step(time.Second)
		return n >= 2
	}
	if err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return deleted(), nil }); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	f.queue.ShutDown()
	goleak.VerifyNone(t, leaks)
}
