// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	apicache "k8s.io/kubernetes/pkg/scheduler/backend/api_cache"
	apidispatcher "k8s.io/kubernetes/pkg/scheduler/backend/api_dispatcher"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	apicalls "k8s.io/kubernetes/pkg/scheduler/framework/api_calls"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	mesosproto "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/scheme"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/launcher"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

func init() { schedulermetrics.Register() }

const (
	testRole    = "kubernetes"
	testProfile = "mesos-scheduler"
)

// testArgs are the shipped defaults for one master.
func testArgs(t testing.TB, change ...func(*config.MesosArgs)) *config.MesosArgs {
	t.Helper()
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: MesosArgs\nmasters: [\"127.0.0.1:5050\"]\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	args := obj.(*config.MesosArgs)
	for _, c := range change {
		c(args)
	}
	return args
}

// world is a plugin made by its factory, with a client that answers from memory and no Mesos.
type world struct {
	*Mesos
	t      *testing.T
	ctx    context.Context
	client *fake.Clientset
	fh     framework.Framework
	tasks  chan mesosproto.TaskInfo
}

// testMesos is an ACCEPT that is always processed.
type testMesos struct{ tasks chan mesosproto.TaskInfo }

func (m testMesos) Accept(_ context.Context, _ string, _ []string, operations []mesosproto.Offer_Operation) error {
	for _, task := range operations[len(operations)-1].Launch.TaskInfos {
		m.tasks <- task
	}
	return nil
}

func newWorld(t *testing.T, async bool, pods ...runtime.Object) *world {
	t.Helper()
	logger, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	client := fake.NewClientset(pods...)
	factory := informers.NewSharedInformerFactory(client, 0)
	options := []frameworkruntime.Option{frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithEventRecorder(&events.FakeRecorder{})}
	var dispatcher *apidispatcher.APIDispatcher
	if async {
		dispatcher = apidispatcher.New(client, 16, apicalls.Relevances)
		dispatcher.Run(logger)
		t.Cleanup(dispatcher.Close)
		options = append(options, frameworkruntime.WithAPIDispatcher(dispatcher))
	}
	fh, err := frameworkruntime.NewFramework(ctx, nil, &schedulerconfig.KubeSchedulerProfile{SchedulerName: testProfile}, options...)
	if err != nil {
		t.Fatal(err)
	}
	if async {
		fh.SetAPICacher(apicache.New(nil, internalcache.New(ctx, dispatcher, false, false)))
	}
	system := NewSystem()
	plugin, err := system.Factory(ctx, testArgs(t), fh)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	w := &world{Mesos: plugin.(*Mesos), t: t, ctx: ctx, client: client, fh: fh, tasks: make(chan mesosproto.TaskInfo, 100)}
	system.ledger.Resubscribed()
	system.ledger.SetConnected(true)
	system.launcher = launcher.New(launcher.Options{
		Clock: system.clock, Executor: executorOf(w.args), Window: time.Millisecond, MaxTasks: 100, Timeout: 20 * time.Second, Backing: 3 * time.Second, Retries: 1,
	}, system.ledger, testMesos{w.tasks}, nothingToRecord{})
	ran := make(chan struct{})
	go func() { defer close(ran); system.launcher.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ran })
	return w
}

// nothingToRecord stands for the record of launches where no other leader follows.
type nothingToRecord struct{}

func (nothingToRecord) Record(context.Context) error { return nil }

// offer gives the ledger an offer of an agent of node n.
func (w *world) offer(id, node string, cpus, mem float64) {
	scalar := func(name string, v float64) mesosproto.Resource {
		role := testRole
		return mesosproto.Resource{Name: name, Type: mesosproto.SCALAR.Enum(), Scalar: &mesosproto.Value_Scalar{Value: v}, AllocationInfo: &mesosproto.Resource_AllocationInfo{Role: &role}}
	}
	role := testRole
	w.system.ledger.AddOffers([]mesosproto.Offer{{ID: mesosproto.OfferID{Value: id}, AgentID: mesosproto.AgentID{Value: "agent-" + node}, Hostname: node,
		AllocationInfo: &mesosproto.Resource_AllocationInfo{Role: &role}, Resources: []mesosproto.Resource{scalar("cpus", cpus), scalar("mem", mem)}}})
	w.system.launcher.Kick()
}

func testPod(name string) *v1.Pod {
	return st.MakePod().Name(name).Namespace("ns").UID(name).SchedulerName(testProfile).Req(map[v1.ResourceName]string{"cpu": "1", "memory": "1Gi"}).Obj()
}

func node(name string) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(st.MakeNode().Name(name).Obj())
	return info
}

// cycle is a scheduling cycle's state as PreFilter leaves it.
func (w *world) cycle(pod *v1.Pod) fwk.CycleState {
	w.t.Helper()
	state, _ := w.listed(pod, nil)
	return state
}

// listed is cycle with the scheduler's list of nodes; it returns what PreFilter says, too.
func (w *world) listed(pod *v1.Pod, nodes []fwk.NodeInfo) (fwk.CycleState, *fwk.Status) {
	w.t.Helper()
	need, err := w.system.needs.of(pod)
	if err != nil {
		w.t.Fatal(err)
	}
	state := framework.NewCycleState()
	status := w.begin(w.ctx, state, pod, nodes, need, 0)
	if !status.IsSuccess() && !status.IsSkip() {
		w.t.Fatal(status)
	}
	return state, status
}

// executor answers for tasks as they are launched.
func (w *world) executor(states ...mesosproto.TaskState) {
	go func() {
		for {
			select {
			case task := <-w.tasks:
				for _, s := range states {
					w.system.ledger.Apply(ledger.Update{TaskID: task.TaskID.Value, Status: ledger.Status{State: s, Source: mesosproto.SOURCE_EXECUTOR}})
				}
				w.system.launcher.Kick()
			case <-w.ctx.Done():
				return
			}
		}
	}()
}

// reserved brings a pod to the point where Bind is called.
func (w *world) reserved(pod *v1.Pod) {
	w.t.Helper()
	w.offer("O1", "n", 4, 4096)
	if status := w.Reserve(w.ctx, w.cycle(pod), pod, "n"); !status.IsSuccess() {
		w.t.Fatal(status)
	}
}

func bothWays(t *testing.T, run func(t *testing.T, async bool)) {
	for _, async := range []bool{false, true} {
		t.Run(fmt.Sprintf("asyncAPICalls=%v", async), func(t *testing.T) { run(t, async) })
	}
}

func TestBind(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	bound := func(node, task string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.NodeName = node
			p.Annotations = map[string]string{wellknown.TaskIDAnnotation: task}
		}
	}
	const same = "the task"
	for _, tt := range []struct {
		name    string
		answers []error       // of the Binding, in order; nil is success
		look    func(*v1.Pod) // how the pod is found after a failure
		gone    bool
		want    bool
		tries   int
		// versions of the pod that the Bindings name, where they differ
		versions []string
	}{
		{name: "success", want: true, tries: 1},
		{name: "server error, then success", answers: []error{apierrors.NewInternalError(errors.New("x"))}, want: true, tries: 2},
		{name: "time-out, reset, overload, then success", answers: []error{apierrors.NewTimeoutError("t", 1), errors.New("connection reset by peer"), apierrors.NewTooManyRequests("slow", 1), apierrors.NewServiceUnavailable("x")}, want: true, tries: 5},
		{name: "time-out, but it was stored", answers: []error{apierrors.NewTimeoutError("t", 1)}, look: bound("n", same), want: true, tries: 1},
		{name: "conflict: it was stored by an earlier try", answers: []error{apierrors.NewConflict(pods, "p", errors.New("already assigned"))}, look: bound("n", same), want: true, tries: 1},
		{name: "conflict: bound to another node", answers: []error{apierrors.NewConflict(pods, "p", errors.New("already assigned"))}, look: bound("m", same), tries: 1},
		{name: "conflict: bound with another task", answers: []error{apierrors.NewConflict(pods, "p", errors.New("already assigned"))}, look: bound("n", "another"), tries: 1},
		{name: "conflict: the pod has changed", answers: []error{apierrors.NewConflict(pods, "p", errors.New("modified"))}, look: func(p *v1.Pod) { p.ResourceVersion = "8" }, want: true, tries: 2, versions: []string{"7", "8"}},
		{name: "conflict without a change", answers: []error{apierrors.NewConflict(pods, "p", errors.New("?"))}, tries: 1},
		{name: "not found", answers: []error{apierrors.NewNotFound(pods, "p")}, gone: true, tries: 1},
		{name: "another UID", answers: []error{apierrors.NewConflict(pods, "p", errors.New("uid"))}, look: func(p *v1.Pod) { p.UID = "other" }, tries: 1},
		{name: "deleting", answers: []error{apierrors.NewConflict(pods, "p", errors.New("deleting"))}, look: func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, tries: 1},
		{name: "forbidden", answers: []error{apierrors.NewForbidden(pods, "p", errors.New("no"))}, tries: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, async bool) {
				pod := testPod("p")
				pod.ResourceVersion = "7"
				w := newWorld(t, async, pod)
				w.executor(mesosproto.TASK_STARTING)
				w.reserved(pod)
				var bindings []*v1.Binding
				w.client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
					if a.GetSubresource() != "binding" {
						return false, nil, nil
					}
					b := a.(clienttesting.CreateAction).GetObject().(*v1.Binding)
					bindings = append(bindings, b)
					if n := len(bindings); n <= len(tt.answers) {
						return true, nil, tt.answers[n-1]
					}
					return true, b, nil
				})
				w.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					if tt.gone {
						return true, nil, apierrors.NewNotFound(pods, "p")
					}
					found := pod.DeepCopy()
					if tt.look != nil {
						tt.look(found)
						if found.Annotations[wellknown.TaskIDAnnotation] == same {
							task, _ := w.system.ledger.Task("p")
							found.Annotations[wellknown.TaskIDAnnotation] = task.ID
						}
					}
					return true, found, nil
				})
				status := w.Bind(w.ctx, nil, pod, "n")
				if status.IsSuccess() != tt.want || status.Code() == fwk.Skip {
					t.Fatalf("%v", status)
				}
				if len(bindings) != tt.tries {
					t.Errorf("%d Bindings were sent, want %d", len(bindings), tt.tries)
				}
				task, ok := w.system.ledger.Task("p")
				if !ok {
					t.Fatal("the record is gone")
				}
				for i, b := range bindings {
					if b.UID != "p" || b.Target.Name != "n" || b.Annotations[wellknown.TaskIDAnnotation] != task.ID || b.Annotations[wellknown.AgentIDAnnotation] != "agent-n" || b.Annotations[wellknown.ResourcesAnnotation] != "cpus:1;mem:1024" {
						t.Errorf("Binding %+v", b)
					}
					version := "7"
					if len(tt.versions) > i {
						version = tt.versions[i]
					}
					if b.ResourceVersion != version {
						t.Errorf("try %d names version %q, want %q", i, b.ResourceVersion, version)
					}
					if diff := cmp.Diff(bindings[0], b, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion")); diff != "" {
						t.Errorf("try %d is another Binding (-first,+this):\n%s", i, diff)
					}
				}
				if task.Bound != tt.want {
					t.Errorf("bound: %v", task.Bound)
				}
				w.Unreserve(w.ctx, nil, pod, "n")
				if task, _ = w.system.ledger.Task("p"); task.KillSince.IsZero() == !tt.want {
					t.Errorf("after a definite failure the task is killed, after success never: %v", task.KillSince)
				}
			})
		})
	}
}

// A leader whose lease may have passed on sends no Binding, and kills nothing either: the next one settles it.
func TestBindWithoutTheLease(t *testing.T) {
	bothWays(t, func(t *testing.T, async bool) {
		pod := testPod("p")
		w := newWorld(t, async, pod)
		asked := make(chan struct{}, 100)
		w.system.LeadWhile(func() error {
			asked <- struct{}{}
			return errors.New("the lease has expired")
		})
		w.executor(mesosproto.TASK_STARTING)
		w.reserved(pod)
		w.client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			t.Error("a Binding was sent")
			return true, nil, errors.New("x")
		})
		ctx, cancel := context.WithCancel(w.ctx)
		ended := make(chan *fwk.Status)
		go func() { ended <- w.Bind(ctx, nil, pod, "n") }()
		for range 2 {
			select {
			case <-asked:
			case <-time.After(20 * time.Second):
				t.Fatal("the lease is not asked for")
			}
		}
		cancel() // the process ends with its lease
		if status := <-ended; status.IsSuccess() {
			t.Error("bound")
		}
		w.Unreserve(ctx, nil, pod, "n")
		if task, ok := w.system.ledger.Task("p"); !ok || !task.KillSince.IsZero() {
			t.Errorf("%+v", task)
		}
	})
}

func TestBindBeforeAnythingIsLaunched(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(w *world, pod *v1.Pod)
		want   string
	}{
		{"no claim", func(w *world, pod *v1.Pod) { w.Unreserve(w.ctx, nil, pod, "n") }, "claim"},
		{"annotations that would break the pod", func(_ *world, pod *v1.Pod) {
			pod.Annotations = map[string]string{"example.com/note": strings.Repeat("x", apivalidation.TotalAnnotationSizeLimitB-100)}
		}, "annotations"},
		{"C41: deleted", func(w *world, pod *v1.Pod) { pod.UID = "p" }, "deleted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := testPod("p")
			var stored []runtime.Object
			if tt.want != "deleted" {
				stored = append(stored, pod)
			}
			w := newWorld(t, false, stored...)
			w.reserved(pod)
			tt.change(w, pod)
			status := w.Bind(w.ctx, nil, pod, "n")
			if status.IsSuccess() || !strings.Contains(status.Message(), tt.want) {
				t.Errorf("%v, want one that says %q", status, tt.want)
			}
			if n := len(w.tasks); n != 0 {
				t.Errorf("%d tasks were launched", n)
			}
			w.Unreserve(w.ctx, nil, pod, "n")
			if _, ok := w.system.ledger.Task("p"); ok {
				t.Error("a claim is left")
			}
		})
	}
}

// C29, K6: a deposed leader touches nothing; the next one settles what is in flight.
func TestC29_ADeposedLeaderTouchesNothing(t *testing.T) {
	pod := testPod("p")
	w := newWorld(t, false, pod)
	w.reserved(pod)
	ctx, cancel := context.WithCancel(w.ctx)
	go func() { <-w.tasks; cancel() }() // launched, and no answer
	if status := w.Bind(ctx, nil, pod, "n"); status.IsSuccess() {
		t.Fatal("bound")
	}
	w.Unreserve(ctx, nil, pod, "n")
	w.system.End()
	w.Unreserve(w.ctx, nil, pod, "n")
	if task, ok := w.system.ledger.Task("p"); !ok || task.State != ledger.Launching || !task.KillSince.IsZero() {
		t.Errorf("%+v", task)
	}
	for _, a := range w.client.Actions() {
		if a.GetVerb() != "list" && a.GetVerb() != "watch" {
			t.Errorf("%s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// I2: no Binding for a task that is not alive.
func TestNoBindingForADeadTask(t *testing.T) {
	for name, states := range map[string][]mesosproto.TaskState{
		"never started":    {mesosproto.TASK_FAILED},
		"started, failed":  {mesosproto.TASK_STARTING, mesosproto.TASK_FAILED},
		"about to be gone": {mesosproto.TASK_STARTING, mesosproto.TASK_KILLING},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod("p")
			w := newWorld(t, false, pod)
			w.executor(states...)
			w.reserved(pod)
			sent := 0
			w.client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				sent++
				if task, _ := w.system.ledger.Task("p"); !task.State.Live() || !task.KillSince.IsZero() {
					t.Errorf("a Binding for a task that is %s", task.State)
				}
				return true, nil, apierrors.NewInternalError(errors.New("again"))
			})
			if status := w.Bind(w.ctx, nil, pod, "n"); status.IsSuccess() {
				t.Error("bound")
			}
		})
	}
}

func TestReserve(t *testing.T) {
	w := newWorld(t, false)
	w.offer("O1", "n", 1.5, 4096)
	a, b := testPod("a"), testPod("b")
	stateA, stateB := w.cycle(a), w.cycle(b)
	if status := w.Reserve(w.ctx, stateA, a, "n"); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := w.Reserve(w.ctx, stateB, b, "n"); status.Code() != fwk.Unschedulable {
		t.Errorf("the room is taken: %v", status)
	}
	if status := w.Reserve(w.ctx, framework.NewCycleState(), a, "n"); status.Code() != fwk.Error {
		t.Errorf("without PreFilter: %v", status)
	}
	for range 2 { // it may come without Reserve, and more than once
		w.Unreserve(w.ctx, stateB, b, "n")
		w.Unreserve(w.ctx, stateA, a, "n")
	}
	// In a pod group's cycle the same state is used for a simulation and then for the real thing.
	for range 2 {
		if status := w.Reserve(w.ctx, stateB, b, "n"); !status.IsSuccess() {
			t.Error(status)
		}
		w.Unreserve(w.ctx, stateB, b, "n")
	}
	if _, ok := w.system.ledger.Task("b"); ok {
		t.Error("a claim is left")
	}
}

func TestPreFilterReasons(t *testing.T) {
	w := newWorld(t, false)
	w.offer("O1", "n", 4, 4096)
	pod := testPod("p")
	state := framework.NewCycleState()
	if _, status := w.PreFilter(w.ctx, state, pod, nil); status.Code() != fwk.UnschedulableAndUnresolvable || status.Message() != reasonReconciling {
		t.Errorf("before reconciliation: %v", status)
	}
	w.system.ledger.SetConnected(false)
	if _, status := w.PreFilter(w.ctx, state, pod, nil); status.Code() != fwk.UnschedulableAndUnresolvable || status.Message() != reasonNotSubscribed {
		t.Errorf("not subscribed: %v", status)
	}
	if q := w.system.ledger.Queue(); len(q) != 1 || q[0].Pod.UID != "p" {
		t.Errorf("the pod waits: %+v", q)
	}
	pod.Annotations = map[string]string{wellknown.RoleAnnotation: "somebody-elses"}
	if _, status := w.PreFilter(w.ctx, state, pod, nil); status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), "somebody-elses") {
		t.Errorf("a role that is not allowed: %v", status)
	}
	if status := w.Filter(w.ctx, framework.NewCycleState(), pod, node("n")); status.Code() != fwk.Error {
		t.Errorf("Filter without PreFilter: %v", status)
	}
}

func TestFilter(t *testing.T) {
	w := newWorld(t, false)
	w.offer("O1", "fits", 4, 4096)
	w.offer("O2", "small", 1.05, 4096)
	pod := testPod("p")
	state := w.cycle(pod)
	for name, want := range map[string]struct {
		reason ledger.Reason
		code   fwk.Code
	}{
		"fits": {"", fwk.Success}, "small": {ledger.ReasonCPUs, fwk.Unschedulable}, "none": {ledger.ReasonNoAgent, fwk.UnschedulableAndUnresolvable},
	} {
		status := w.Filter(w.ctx, state, pod, node(name))
		if status.Code() != want.code || status.Message() != string(want.reason) {
			t.Errorf("%s: %v, want %q", name, status, want.reason)
		}
		if name != "fits" && status == w.Filter(w.ctx, state, pod, node(name)) {
			t.Error("the runtime writes into a Status: it must not be shared")
		}
	}
	// The whole cycle uses one snapshot.
	w.offer("O3", "small", 4, 4096)
	if status := w.Filter(w.ctx, state, pod, node("small")); status.IsSuccess() {
		t.Error("an offer that came after PreFilter is seen")
	}
	if status := w.Filter(w.ctx, w.cycle(pod), pod, node("small")); !status.IsSuccess() {
		t.Error(status)
	}
	fits := node("fits")
	if n := testing.AllocsPerRun(100, func() { w.Filter(w.ctx, state, pod, fits) }); n != 0 {
		t.Errorf("%v allocations for a node that fits", n)
	}
	// Room that is unknown costs no victim.
	read, _ := state.Read(stateKey)
	read.(*cycleState).unknown = true
	if status := w.Filter(w.ctx, state, pod, node("small")); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("%v", status)
	}
}

func TestC53_PreemptionSeesWhatVictimsGiveBack(t *testing.T) {
	w := newWorld(t, false)
	h, v, foreign := testPod("h"), testPod("v"), testPod("foreign")
	v.Spec.NodeName, foreign.Spec.NodeName = "n", "n"
	book := w.system.ledger
	book.Restore(ledger.Task{Pod: ledger.Pod{UID: "v"}, Need: resources.Need{Amounts: resources.Amounts{CPUs: 4000, Mem: 2048_000}, Role: testRole}, AgentID: "agent-n", Node: "n", ID: "v.1"})
	book.Apply(ledger.Update{TaskID: "v.1", Status: ledger.Status{State: mesosproto.TASK_RUNNING, Source: mesosproto.SOURCE_EXECUTOR}})
	info := func(p *v1.Pod) fwk.PodInfo {
		i, err := framework.NewPodInfo(p)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	n := node("n")
	state := w.cycle(h)
	filter := func(s fwk.CycleState) *fwk.Status { return w.Filter(w.ctx, s, h, n) }
	if status := filter(state); status.Code() != fwk.Unschedulable {
		t.Fatalf("full: %v", status)
	}
	dry := state.Clone()
	if status := w.RemovePod(w.ctx, dry, h, info(foreign), n); !status.IsSuccess() || filter(dry).IsSuccess() {
		t.Error("a pod of another scheduler frees no Mesos room")
	}
	if status := w.RemovePod(w.ctx, dry, h, info(v), n); !status.IsSuccess() || !filter(dry).IsSuccess() {
		t.Errorf("the victim's task would give its room back: %v", filter(dry))
	}
	if filter(state).IsSuccess() {
		t.Error("the dry run changes the cycle's own state")
	}
	// Between filter and dry run an offer comes: nobody in this cycle sees it.
	w.offer("O5", "n", 4, 4096)
	if filter(state).IsSuccess() {
		t.Error("two answers in one cycle: a success without a victim is an error")
	}
	// The victim's task ends while it is tried: what was given back is taken exactly, whatever the ledger says now.
	book.Apply(ledger.Update{TaskID: "v.1", Status: ledger.Status{State: mesosproto.TASK_FINISHED, Source: mesosproto.SOURCE_EXECUTOR}})
	if status := w.AddPod(w.ctx, dry, h, info(v), n); !status.IsSuccess() || filter(dry).IsSuccess() {
		t.Error("reprieved, and its room is still counted")
	}
	read, _ := dry.Read(stateKey)
	if g := read.(*cycleState).given["n"]; !g.amounts.IsZero() || len(g.ports) != 0 {
		t.Errorf("left: %+v", g)
	}
	// A nominated pod takes its need.
	next := w.cycle(h)
	if !filter(next).IsSuccess() {
		t.Fatal(filter(next))
	}
	nominated := testPod("nominated")
	nominated.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("3")
	if status := w.AddPod(w.ctx, next, h, info(nominated), n); !status.IsSuccess() || filter(next).IsSuccess() {
		t.Error("the nominated pod's room is given away")
	}
}

func TestC53_OtherFrameworksTasksAreNoVictims(t *testing.T) {
	w := newWorld(t, false)
	h, v := testPod("h"), testPod("v")
	h.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2")
	v.Spec.NodeName = "n"
	w.system.ledger.Restore(ledger.Task{Pod: ledger.Pod{UID: "v"}, Need: resources.Need{Amounts: resources.Amounts{CPUs: 1000, Mem: 1024_000}, Role: testRole}, AgentID: "agent-n", Node: "n", ID: "v.1"})
	state := w.cycle(h)
	i, err := framework.NewPodInfo(v)
	if err != nil {
		t.Fatal(err)
	}
	w.RemovePod(w.ctx, state, h, i, node("n"))
	if status := w.Filter(w.ctx, state, h, node("n")); status.IsSuccess() {
		t.Error("one cpu is not enough")
	}
}

func TestSignPod(t *testing.T) {
	w := newWorld(t, false)
	sign := func(change func(*v1.Pod)) string {
		pod := testPod("p")
		change(pod)
		fragments, status := w.SignPod(w.ctx, pod)
		if !status.IsSuccess() {
			return "refused"
		}
		return fmt.Sprint(fragments)
	}
	base := sign(func(*v1.Pod) {})
	for name, change := range map[string]func(*v1.Pod){
		"cpu":    func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("1001m") },
		"memory": func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("1025Mi") },
		"disk": func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests["ephemeral-storage"] = resource.MustParse("1Gi")
		},
		"host port": func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} },
		"role":      func(p *v1.Pod) { p.Annotations = map[string]string{wellknown.RoleAnnotation: "no"} },
	} {
		if got := sign(change); got == base {
			t.Errorf("%s is not signed: %s", name, got)
		}
	}
	for name, change := range map[string]func(*v1.Pod){
		"name": func(p *v1.Pod) { p.Name, p.UID = "q", "q" }, "label": func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} },
	} {
		if got := sign(change); got != base {
			t.Errorf("%s is signed, and batches break up: %s", name, got)
		}
	}
}

func TestRoles(t *testing.T) {
	namespaces := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for name, team := range map[string]string{"dev-ns": "dev", "prod-ns": "prod", "plain": ""} {
		_ = namespaces.Add(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}})
	}
	selector := func(team string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}
	n, err := newNeeds(testArgs(t, func(a *config.MesosArgs) {
		a.Roles = []config.Role{{Name: "dev", NamespaceSelector: selector("dev")}, {Name: "prod", NamespaceSelector: selector("prod")}, {Name: "batch", NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: []string{"dev", "prod"}}}}}}
	}), corelisters.NewNamespaceLister(namespaces))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ namespace, asked, want, errHas string }{
		{"dev-ns", "", "dev", ""},
		{"prod-ns", "", "prod", ""},
		{"prod-ns", "batch", "batch", ""},
		{"prod-ns", "dev", "", "prod, batch"},
		{"plain", "", "", "none of the Mesos roles"},
		{"missing", "", "", "missing"},
	} {
		pod := testPod("p")
		pod.Namespace = tt.namespace
		if tt.asked != "" {
			pod.Annotations = map[string]string{wellknown.RoleAnnotation: tt.asked}
		}
		need, err := n.of(pod)
		if need.Role != tt.want || (err != nil) != (tt.errHas != "") || err != nil && !strings.Contains(err.Error(), tt.errHas) {
			t.Errorf("%+v: %q, %v", tt, need.Role, err)
		}
	}
	if _, err := newNeeds(testArgs(t, func(a *config.MesosArgs) {
		a.Roles = []config.Role{{Name: "x", NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}}}}
	}), nil); err == nil {
		t.Error("a selector that does not parse")
	}
}

func TestC20_RevocableByAnnotation(t *testing.T) {
	pod := func(value string) *v1.Pod {
		p := testPod("p")
		p.Annotations = map[string]string{wellknown.RevocableAnnotation: value}
		return p
	}
	off, err := newNeeds(testArgs(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	on, err := newNeeds(testArgs(t, func(a *config.MesosArgs) { a.Revocable = true }), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := off.of(pod("true")); err == nil {
		t.Error("revocable resources that the framework does not take")
	}
	if need, err := on.of(pod("true")); err != nil || !need.Revocable {
		t.Errorf("%+v %v", need, err)
	}
	if need, err := on.of(testPod("p")); err != nil || need.Revocable {
		t.Errorf("%+v %v", need, err)
	}
	if _, err := on.of(pod("yes")); err == nil {
		t.Error("a value that is neither")
	}
}

func TestProfilesShareOneSystem(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	client := fake.NewClientset()
	fh, err := frameworkruntime.NewFramework(ctx, nil, nil, frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)))
	if err != nil {
		t.Fatal(err)
	}
	s := NewSystem()
	if s.Used() || s.Ready() != nil {
		t.Error("nobody uses it")
	}
	make := func(args runtime.Object) error { _, err := s.Factory(ctx, args, fh); return err }
	if err := make(testArgs(t)); err != nil {
		t.Fatal(err)
	}
	if err := make(testArgs(t, func(a *config.MesosArgs) { a.ScoringStrategy = config.MostAllocated })); err != nil {
		t.Errorf("the strategy is each profile's own: %v", err)
	}
	if err := make(testArgs(t, func(a *config.MesosArgs) { a.FrameworkName = "another" })); err == nil || !strings.Contains(err.Error(), "one Mesos framework") {
		t.Errorf("two frameworks in one process: %v", err)
	}
	if err := make(nil); err == nil {
		t.Error("no args")
	}
	if err := make(testArgs(t, func(a *config.MesosArgs) { a.FailoverTimeout.Duration = 0 })); err == nil || !strings.Contains(err.Error(), "failoverTimeout") {
		t.Errorf("a failover timeout of zero: %v", err)
	}
	// C29: a factory opens no connection and writes nothing; a standby is ready.
	for _, a := range client.Actions() {
		t.Errorf("%s %s", a.GetVerb(), a.GetResource().Resource)
	}
	if err := s.Ready(); err != nil {
		t.Errorf("a standby is ready: %v", err)
	}
}

func TestScore(t *testing.T) {
	w := newWorld(t, false)
	w.offer("O1", "large", 16, 16384)
	w.offer("O2", "small", 2, 2048)
	pod := testPod("p")
	var state fwk.CycleState
	score := func(strategy config.ScoringStrategyType, name string) int64 {
		w.args.ScoringStrategy = strategy
		state = w.cycle(pod)
		s, status := w.Score(w.ctx, state, pod, node(name))
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		return s
	}
	if score(config.LeastAllocated, "large") <= score(config.LeastAllocated, "small") {
		t.Error("LeastAllocated prefers what has much left")
	}
	if score(config.MostAllocated, "large") >= score(config.MostAllocated, "small") {
		t.Error("MostAllocated prefers what has little left")
	}
	if score(config.LeastAllocated, "unknown") != 0 {
		t.Error("nothing is known of it")
	}
	if status := w.PreScore(w.ctx, state, pod, []fwk.NodeInfo{node("large")}); status.Code() != fwk.Skip {
		t.Error("nothing to choose from")
	}
	scores := fwk.NodeScoreList{{Name: "a", Score: 10}, {Name: "b", Score: 40}}
	if status := w.NormalizeScore(w.ctx, state, pod, scores); !status.IsSuccess() || scores[1].Score != fwk.MaxScore || scores[0].Score >= scores[1].Score {
		t.Errorf("%v %v", status, scores)
	}
}

// C52: members of a gang that do not come together give everything back, so that another group can run.
func TestC52_GangsThatCannotCompleteHoldNothing(t *testing.T) {
	w := newWorld(t, false)
	book := w.system.ledger
	for i := range 3 {
		w.offer(fmt.Sprintf("O%d", i), fmt.Sprintf("n%d", i), 4.1, 8192)
	}
	pod := func(group string, i int) *v1.Pod {
		p := testPod(fmt.Sprintf("%s-%d", group, i))
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2")
		return p
	}
	reserve := func(p *v1.Pod) bool {
		state := w.cycle(p)
		for i := range 3 {
			name := fmt.Sprintf("n%d", i)
			if w.Filter(w.ctx, state, p, node(name)).IsSuccess() && w.Reserve(w.ctx, state, p, name).IsSuccess() {
				return true
			}
		}
		return false
	}
	// Three of each group hold all 12 cpus; the fourth of either has no room.
	for i := range 3 {
		if !reserve(pod("g1", i)) || !reserve(pod("g2", i)) {
			t.Fatal("12 cpus hold six pods")
		}
	}
	if reserve(pod("g1", 3)) || reserve(pod("g2", 3)) {
		t.Fatal("a seventh pod fits")
	}
	// The gate of a group that does not come together fails for all its members, whoever gives up first.
	key := types.NamespacedName{Namespace: "ns", Name: "g2"}
	var members []error
	for range 3 {
		b := w.system.gangs.enter(key)
		w.system.gangs.arrive(b, types.UID(fmt.Sprint(len(members))), 4)
		defer w.system.gangs.leave(key, b)
		if err := b.wait(w.ctx, time.Millisecond); err != nil {
			w.system.gangs.fail(key, b, err)
			members = append(members, err)
		}
	}
	if len(members) != 3 {
		t.Fatalf("%d members give up, want all 3", len(members))
	}
	for i := range 3 {
		w.Unreserve(w.ctx, nil, pod("g2", i), "")
	}
	if !reserve(pod("g1", 3)) {
		t.Error("what the one group gave back completes the other")
	}
	if n := book.Counts()[ledger.Claimed]; n != 4 {
		t.Errorf("%d claims, want the four of g1", n)
	}
}
