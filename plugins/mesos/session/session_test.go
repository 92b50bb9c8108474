// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"), goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

const role = "k8s"

// patience bounds every wait for a condition.
const patience = 20 * time.Second

// world is a simulated cluster and what sessions share: the ConfigMap.
type world struct {
	t       *testing.T
	ctx     context.Context
	cluster *mesossim.Cluster
	client  *fake.Clientset
}

func newWorld(t *testing.T, options mesossim.Options) *world {
	t.Helper()
	if options.Agents == nil {
		options.Agents = []mesossim.AgentOptions{{Name: "a1"}, {Name: "a2"}}
	}
	for i := range options.Agents {
		if options.Agents[i].Synthetic == nil {
			options.Agents[i].Synthetic = &mesossim.Script{}
		}
	}
	options.Timing.AllocationInterval = 20 * time.Millisecond
	options.WorkDir = t.TempDir()
	ctx := klog.NewContext(t.Context(), klog.Logger{})
	cluster, err := mesossim.Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client := fake.NewClientset(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "this-cluster"}})
	return &world{t, ctx, cluster, client}
}

func (w *world) identity() ConfigMapIdentity {
	return ConfigMapIdentity{Client: w.client, Namespace: "kube-mesos", Name: "framework"}
}

func (w *world) stored() string {
	cm, err := w.client.CoreV1().ConfigMaps("kube-mesos").Get(w.ctx, "framework", metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return cm.Data[frameworkKey]
}

func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.ctx, 2*time.Millisecond, patience, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

func (w *world) calls(kind string) int { return w.cluster.Counters().Calls[kind] }

// scheduler is one instance of the scheduler: a session and its ledger.
type instance struct {
	*Session
	w       *world
	book    *ledger.Ledger
	bound   atomic.Int32
	gone    atomic.Int32 // pods of a framework that is gone
	changes chan ledger.Change

	mu    sync.Mutex
	woken []string

	cancel context.CancelFunc
	done   chan error
}

func (w *world) instance(change ...func(*Options)) *instance {
	w.t.Helper()
	i := &instance{w: w, changes: make(chan ledger.Change, 10000)}
	executor := taskinfo.Executor{Path: "/x", Amounts: resources.Amounts{CPUs: 100, Mem: 32_000}}
	i.book = ledger.New(ledger.Options{Clock: clock.RealClock{}, NodeName: func(o *mesos.Offer) string { return o.Hostname }, Executor: executor, ReturnTime: 200 * time.Millisecond})
	client, err := mesosapi.New(mesosapi.Config{Masters: w.cluster.URLs(), CallTimeout: 5 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	capability := func(t mesos.FrameworkInfo_Capability_Type) mesos.FrameworkInfo_Capability {
		return mesos.FrameworkInfo_Capability{Type: t}
	}
	options := Options{
		Clock: clock.RealClock{}, Client: client, Roles: []string{role}, Identity: w.identity(),
		Framework: mesos.FrameworkInfo{User: "root", Name: "test", Roles: []string{role}, FailoverTimeout: ptr.To(3600.0), Checkpoint: ptr.To(true), Capabilities: []mesos.FrameworkInfo_Capability{
			capability(mesos.FrameworkInfo_Capability_PARTITION_AWARE), capability(mesos.FrameworkInfo_Capability_TASK_KILLING_STATE),
			capability(mesos.FrameworkInfo_Capability_MULTI_ROLE), capability(mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT),
		}},
		Economy:           Economy{IdleAfter: time.Hour, IdleRefuse: time.Hour, ShortRefuse: time.Second, OfferHold: time.Hour},
		ReconcileInterval: time.Hour, KillRepeat: 300 * time.Millisecond, KillPatience: time.Hour, LaunchLimit: time.Minute,
	}
	for _, c := range change {
		c(&options)
	}
	i.Session = New(options, Hooks{
		OnChange: func(c ledger.Change) { i.changes <- c }, Kick: func() {}, Bound: func() int { return int(i.bound.Load()) },
		OnFrameworkGone: func(tasks []ledger.Task) { i.gone.Add(int32(len(tasks))) },
		Match:           func(*v1.Pod) func(string) bool { return func(string) bool { return true } }, Usable: func(string) bool { return true },
		Activate: func(pods []*v1.Pod) {
			i.mu.Lock()
			defer i.mu.Unlock()
			for _, p := range pods {
				i.woken = append(i.woken, p.Name)
			}
		},
	}, i.book)
	w.t.Cleanup(func() { i.end(); client.Close() })
	return i
}

func (i *instance) start() *instance {
	ctx, cancel := context.WithCancel(i.w.ctx)
	i.cancel, i.done = cancel, make(chan error, 1)
	go func() { i.done <- i.Run(ctx) }()
	return i
}

// end stops an instance as a signal does, and returns what Run returned.
func (i *instance) end() error {
	if i.cancel == nil {
		return nil
	}
	i.cancel()
	err := <-i.done
	i.cancel = nil
	return err
}

func (i *instance) subscribe() *instance {
	i.w.t.Helper()
	i.start()
	i.w.until("subscribed and reconciled", func() bool { return i.Session.Status().Phase == Subscribed && i.Reconciled() })
	return i
}

func (i *instance) waits(name string, cpus int64) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	i.book.Wait(pod, resources.Need{Amounts: resources.Amounts{CPUs: cpus, Mem: 32_000}, Role: role}, 0)
}

// launch claims room for a pod on a node and sends its ACCEPT.
func (i *instance) launch(uid, node string) (*ledger.Batch, error) {
	i.w.t.Helper()
	i.w.until("an offer of "+node, func() bool {
		return slices.ContainsFunc(i.book.Offers(), func(o ledger.OfferInfo) bool { return o.Node == node })
	})
	if err := i.book.Claim(ledger.Pod{UID: types.UID(uid), Namespace: "ns", Name: uid, Grace: time.Second}, resources.Need{Amounts: resources.Amounts{CPUs: 100, Mem: 32_000}, Role: role}, node); err != nil {
		i.w.t.Fatal(err)
	}
	agent := ""
	for _, a := range i.book.Agents() {
		if a.Node == node {
			agent = a.ID
		}
	}
	var b *ledger.Batch
	i.w.until("a batch", func() bool {
		b = i.book.Batch(agent, ledger.PoolKey{Role: role}, []types.UID{types.UID(uid)}, 1)
		return b != nil
	})
	info := i.options0().Info(b.ExecutorID, b.Node, b.ExecutorResources)
	t := b.Launches[0].Task
	task := taskinfo.Task(t.ID, b.AgentID, taskinfo.Reference{Namespace: "ns", Name: uid, UID: uid, Node: node}, b.Launches[0].Resources, info)
	err := i.Accept(i.w.ctx, b.Pool.Role, b.OfferIDs, b.Operations([]mesos.TaskInfo{task}))
	switch {
	case err == nil:
		i.book.Sent(b)
	case mesosapi.Ambiguous(err):
		i.book.Unclear(b)
	default:
		i.book.NotSent(b)
	}
	return b, err
}

func (i *instance) options0() taskinfo.Executor {
	return taskinfo.Executor{Path: "/x", Amounts: resources.Amounts{CPUs: 100, Mem: 32_000}}
}

func (i *instance) state(uid string) ledger.State {
	t, ok := i.book.Task(types.UID(uid))
	if !ok {
		return -1
	}
	return t.State
}

// run launches a pod's task, binds the pod, and waits until it runs.
func (i *instance) run(uid, node string) ledger.Task {
	i.w.t.Helper()
	b, err := i.launch(uid, node)
	if err != nil {
		i.w.t.Fatal(err)
	}
	i.book.Bound(types.UID(uid), b.Launches[0].Task.ID)
	i.w.until("running", func() bool { return i.state(uid) == ledger.Running })
	t, _ := i.book.Task(types.UID(uid))
	return t
}

// slowIdentity holds Save back.
type slowIdentity struct {
	Identity
	saving  chan struct{}
	release chan error
}

func (s slowIdentity) Save(ctx context.Context, old, id string) error {
	s.saving <- struct{}{}
	if err := <-s.release; err != nil {
		return err
	}
	return s.Identity.Save(ctx, old, id)
}

func TestC28_TheFrameworkIDIsSavedBeforeAnythingIsLaunched(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	slow := slowIdentity{w.identity(), make(chan struct{}, 10), make(chan error)}
	r1 := w.instance(func(o *Options) { o.Identity = slow }).start()
	<-slow.saving
	if r1.book.Connected() || r1.stream.Load() != nil || r1.Session.Status().Phase == Subscribed {
		t.Error("something could be launched before the id is saved")
	}
	// (a) The save fails: nothing was launched, and the framework does not stay behind.
	slow.release <- errors.New("API server away")
	<-slow.saving
	w.until("the first framework is removed", func() bool { return w.cluster.Frameworks()[0].Removed })
	// (b) It succeeds; R2, a standby since before, reads the id when it takes over.
	r2 := w.instance()
	slow.release <- nil
	w.until("subscribed", func() bool { return r1.Session.Status().Phase == Subscribed })
	id := w.stored()
	if id == "" || id != r1.Session.Status().FrameworkID {
		t.Errorf("stored %q, subscribed as %q", id, r1.Session.Status().FrameworkID)
	}
	if err := r1.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	r2.subscribe()
	if got := r2.Session.Status().FrameworkID; got != id {
		t.Errorf("R2 subscribed as %s, want %s", got, id)
	}
	if got := w.calls("TEARDOWN"); got != 1 {
		t.Errorf("%d TEARDOWN calls, want the one of the framework whose id was not saved", got)
	}
	if got := len(w.cluster.Frameworks()); got != 2 {
		t.Errorf("%d frameworks", got)
	}
}

func TestACopiedConfigMapIsRefused(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	if _, err := w.client.CoreV1().ConfigMaps("kube-mesos").Create(w.ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-mesos", Name: "framework"},
		Data: map[string]string{frameworkKey: "F", clusterKey: "another-cluster"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	i := w.instance().start()
	w.until("it is said", func() bool { return strings.Contains(i.Session.Status().Problem, "it was copied") })
	if n := w.calls("SUBSCRIBE"); n != 0 {
		t.Errorf("%d SUBSCRIBE calls", n)
	}
}

func TestIdentityIsSwappedOnlyIfItIsTheOld(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	id := w.identity()
	for _, tt := range []struct {
		old, new string
		want     bool
	}{{"x", "F1", false}, {"", "F1", true}, {"", "F2", false}, {"F1", "F2", true}, {"F1", "F3", false}} {
		if err := id.Save(w.ctx, tt.old, tt.new); (err == nil) != tt.want {
			t.Errorf("%q to %q: %v", tt.old, tt.new, err)
		}
	}
	if got, err := id.Load(w.ctx); got != "F2" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

func TestC29_OnlyOneInstanceLeads(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	standby := w.instance() // made, not run: as on a standby
	if n := w.cluster.Counters().Calls; len(n) != 0 {
		t.Errorf("a standby called %v", n)
	}
	r1 := w.instance().subscribe()
	task := r1.run("p", "a1")
	standby.bound.Store(1)
	standby.start()
	err := <-r1.done
	r1.done <- err
	if !errors.Is(err, ErrFailedOver) {
		t.Fatalf("%v", err)
	}
	if got := r1.Session.Status().Phase; got != FailedOver {
		t.Errorf("%s", got)
	}
	if r1.book.Connected() || len(r1.book.Offers()) != 0 {
		t.Error("the deposed leader keeps offers")
	}
	late := r1.Accept(w.ctx, role, []string{"O"}, nil)
	if late == nil || mesosapi.Ambiguous(late) {
		t.Errorf("a late ACCEPT: %v", late)
	}
	w.until("the other leads", func() bool { return standby.Reconciled() })
	if got, _ := w.cluster.Task(task.ID); !got.Live() {
		t.Errorf("its task is %s", got.State)
	}
	if n := w.calls("TEARDOWN"); n != 0 {
		t.Errorf("%d TEARDOWN calls", n)
	}
}

// tearDown removes the framework as an operator does.
func (w *world) tearDown(id string) {
	w.t.Helper()
	stream := ""
	for _, f := range w.cluster.Frameworks() {
		if f.ID == id {
			stream = f.StreamID
		}
	}
	body, err := json.Marshal(map[string]any{"type": "TEARDOWN", "framework_id": map[string]string{"value": id}})
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, "http://"+w.cluster.URL()+"/api/v1/scheduler", bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Mesos-Stream-Id", stream)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		w.t.Fatalf("TEARDOWN: %s", resp.Status)
	}
}

func TestC27_TheFrameworkWasRemoved(t *testing.T) {
	t.Run("bound pods: an operator confirms", func(t *testing.T) {
		w := newWorld(t, mesossim.Options{})
		i := w.instance().subscribe()
		i.run("p", "a1")
		i.bound.Store(1)
		old := w.stored()
		w.tearDown(old)
		w.until("it waits", func() bool { return i.Session.Status().Phase == Removed })
		st := i.Session.Status()
		if !strings.Contains(st.Problem, wellknown.ConfirmNewFrameworkAnnotation+"="+old) {
			t.Errorf("problem %q does not say what to do", st.Problem)
		}
		subscribes := w.calls("SUBSCRIBE")
		if subscribes > 4 {
			t.Errorf("%d SUBSCRIBE calls: a tight loop", subscribes)
		}
		if len(w.cluster.Frameworks()) != 1 || i.gone.Load() != 0 || i.state("p") != ledger.Unheld {
			t.Errorf("before it is confirmed: %d frameworks, %d pods told, p is %s", len(w.cluster.Frameworks()), i.gone.Load(), i.state("p"))
		}
		// A confirmation of another id does not count.
		confirm := func(id string) {
			cm, err := w.client.CoreV1().ConfigMaps("kube-mesos").Get(w.ctx, "framework", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			cm.Annotations = map[string]string{wellknown.ConfirmNewFrameworkAnnotation: id}
			if _, err := w.client.CoreV1().ConfigMaps("kube-mesos").Update(w.ctx, cm, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		confirm("another")
		if ok, err := w.identity().Confirmed(w.ctx, old); ok || err != nil {
			t.Errorf("%v %v", ok, err)
		}
		confirm(old)
		w.until("a new framework", func() bool { st := i.Session.Status(); return st.Phase == Subscribed && st.FrameworkID != old })
		if w.stored() != i.Session.Status().FrameworkID || i.gone.Load() != 1 {
			t.Errorf("stored %s, %d pods to hold anew", w.stored(), i.gone.Load())
		}
		if ok, _ := w.identity().Confirmed(w.ctx, old); ok {
			t.Error("the confirmation is used up")
		}
	})
	t.Run("no pods: a new one at once", func(t *testing.T) {
		w := newWorld(t, mesossim.Options{})
		i := w.instance().subscribe()
		old := w.stored()
		w.tearDown(old)
		w.until("a new framework", func() bool {
			st := i.Session.Status()
			return st.Phase == Subscribed && st.FrameworkID != old && w.stored() != old
		})
	})
	t.Run("bound pods and no id stored", func(t *testing.T) {
		w := newWorld(t, mesossim.Options{})
		i := w.instance()
		i.bound.Store(3)
		i.start()
		w.until("it refuses", func() bool {
			st := i.Session.Status()
			return strings.Contains(st.Problem, "no framework id is stored, but 3 pods")
		})
		if n := w.calls("SUBSCRIBE"); n != 0 {
			t.Errorf("%d SUBSCRIBE calls", n)
		}
	})
}

func TestC31_ChangesOfTheConfiguration(t *testing.T) {
	w := newWorld(t, mesossim.Options{Credentials: map[string]string{"k8s": "s1", "k8s2": "s2"}})
	with := func(principal, secret string, roles ...string) func(*Options) {
		return func(o *Options) {
			client, err := mesosapi.New(mesosapi.Config{Masters: w.cluster.URLs(), Credential: func() (mesosapi.Credential, error) {
				return mesosapi.Credential{Principal: principal, Secret: secret}, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			o.Client, o.Framework.Principal = client, &principal
			if len(roles) > 0 {
				o.Roles, o.Framework.Roles = roles, roles
			}
		}
	}
	first := w.instance(with("k8s", "s1")).subscribe()
	task := first.run("p", "a1")
	_ = first.end()
	id := w.stored()

	// (a) Another principal: refused with the reason, and no new id is taken.
	a := w.instance(with("k8s2", "s2")).start()
	a.bound.Store(1)
	w.until("refused", func() bool { return a.Session.Status().Problem != "" })
	if p := strings.ToLower(a.Session.Status().Problem); !strings.Contains(p, "principal") {
		t.Errorf("problem %q", p)
	}
	_ = a.end()
	// A wrong secret is refused, too.
	b := w.instance(with("k8s", "wrong")).start()
	w.until("refused", func() bool { return b.Session.Status().Problem != "" })
	_ = b.end()
	if w.stored() != id || len(w.cluster.Frameworks()) != 1 {
		t.Fatalf("a new framework id was taken")
	}
	// (c) Another role: offers come for it, and the task is untouched.
	c := w.instance(with("k8s", "s1", role, "batch")).subscribe()
	w.until("offers of batch", func() bool {
		return slices.ContainsFunc(c.book.Offers(), func(o ledger.OfferInfo) bool { return o.Role == "batch" })
	})
	if got, _ := w.cluster.Task(task.ID); !got.Live() || c.Session.Status().FrameworkID != id {
		t.Errorf("%s of %s", got.State, c.Session.Status().FrameworkID)
	}
}

func TestC16_NothingIsHeldWhileIdle(t *testing.T) {
	var agents []mesossim.AgentOptions
	for n := range 20 {
		agents = append(agents, mesossim.AgentOptions{Name: fmt.Sprintf("a%d", n)})
	}
	w := newWorld(t, mesossim.Options{Agents: agents})
	i := w.instance(func(o *Options) { o.Economy.IdleAfter = 400 * time.Millisecond }).subscribe()
	w.until("20 offers", func() bool { return i.book.Fates().Received >= 20 })
	w.until("suppressed", func() bool {
		f := w.cluster.Frameworks()[0]
		return len(f.SuppressedRoles) == 1 && len(w.cluster.Offers()) == 0 && i.Suppressed(role)
	})
	if n := w.calls("DECLINE"); n == 0 || n > 5 {
		t.Errorf("%d DECLINE calls for 20 offers, want few", n)
	}
	if f := i.book.Fates(); f.Held != 0 || f.Declined != f.Received {
		t.Errorf("%+v", f)
	}
	if !i.Cold(role) || !i.Unknown(role) {
		t.Error("a pod that comes now has to ask for offers first")
	}
	// C17: a pod comes. REVIVE clears the long filters, and offers flow within no time.
	i.waits("p", 1000)
	w.until("woken", func() bool { i.mu.Lock(); defer i.mu.Unlock(); return slices.Contains(i.woken, "p") })
	if f := i.book.Fates(); f.Held == 0 || i.Suppressed(role) || i.Unknown(role) {
		t.Errorf("%+v", f)
	}
	if n := w.calls("REVIVE"); n != 1 {
		t.Errorf("%d REVIVE calls for one pod that what comes can hold", n)
	}
	// It is gone, and the role is idle again: offers that are on their way after SUPPRESS are given back as well.
	i.book.NotWaiting("p")
	w.until("suppressed again", func() bool { return i.Suppressed(role) && i.book.Fates().Held == 0 && len(w.cluster.Offers()) == 0 })
	// After a new subscription the state is said again.
	w.cluster.Faults().CutStream("", 0)
	w.until("subscribed again", func() bool {
		return w.cluster.Frameworks()[0].Subscribes >= 2 && i.Session.Status().Phase == Subscribed
	})
	w.until("suppressed after that", func() bool {
		return len(w.cluster.Frameworks()[0].SuppressedRoles) == 1 && len(w.cluster.Offers()) == 0
	})
}

func TestC17_ALostReviveIsRepeated(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	i := w.instance(func(o *Options) { o.Economy.IdleAfter = 100 * time.Millisecond }).subscribe()
	w.until("suppressed", func() bool { return i.Suppressed(role) && len(w.cluster.Offers()) == 0 })
	w.cluster.Faults().Call(mesossim.CallFault{Call: "REVIVE", Times: 3, LoseCall: true})
	i.waits("p", 1000)
	w.until("offers", func() bool { return i.book.Fates().Held > 0 })
}

// The master would take the offers for outstanding for ever, and offer nothing of their agents to anybody.
func TestALostDeclineIsRepeated(t *testing.T) {
	for name, fault := range map[string]mesossim.CallFault{
		"lost":        {Call: "DECLINE", Times: 3, LoseCall: true},
		"answer lost": {Call: "DECLINE", Times: 3, LoseAnswer: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, mesossim.Options{})
			w.cluster.Faults().Call(fault)
			i := w.instance(func(o *Options) { o.Economy.IdleAfter = 100 * time.Millisecond }).subscribe()
			w.until("all is given back", func() bool { return i.Suppressed(role) && i.book.Fates().Held == 0 && len(w.cluster.Offers()) == 0 })
			if n := w.cluster.Frameworks()[0].Subscribes; n != 1 {
				t.Errorf("subscribed %d times", n)
			}
		})
	}
}

// M13: pods that nothing on offer can hold justify REVIVEs at a limited rate, and hold nothing up for others.
func TestReviveIsLimited(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	i := w.instance().subscribe()
	begun := time.Now()
	for n := range 10 {
		i.waits(fmt.Sprintf("huge%d", n), 64_000)
	}
	w.until("what is no use is given back", func() bool { return i.book.Fates().Declined >= 2 })
	i.waits("late", 64_000)
	w.until("a REVIVE", func() bool { return w.calls("REVIVE") > 0 })
	if n, most := w.calls("REVIVE"), int(time.Since(begun)/reviveAtLeast)+1; n > most {
		t.Errorf("%d REVIVE calls in %v, want at most %d", n, time.Since(begun), most)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.woken) != 0 {
		t.Errorf("woken for nothing: %v", i.woken)
	}
}

// I5: an offer that fits a pod which other plugins refuse is not held for ever.
func TestOfferHold(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	i := w.instance(func(o *Options) { o.Economy.OfferHold = 300 * time.Millisecond }).subscribe()
	w.until("offers", func() bool { return i.book.Fates().Held > 0 })
	i.waits("p", 1000)
	w.until("declined", func() bool { return i.book.Fates().Declined >= 2 })
}

func TestAcknowledgements(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	i := w.instance().subscribe()
	task := i.run("p", "a1")
	w.until("acknowledged", func() bool {
		got, _ := w.cluster.Task(task.ID)
		for _, transition := range got.History[1:] {
			if !transition.Acknowledged {
				return false
			}
		}
		return len(got.History) >= 3
	})
	if n := w.cluster.Counters().Refused["ACKNOWLEDGE"]; n != 0 {
		t.Errorf("%d refused", n)
	}
}

func TestOnlyUpdatesWithUUIDAndAgentAreAcknowledged(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	i := w.instance()
	for _, tt := range []struct {
		name string
		uuid []byte
		id   *mesos.AgentID
		want int
	}{
		{"neither", nil, nil, 0}, {"no uuid", nil, &mesos.AgentID{Value: "S1"}, 0}, {"no agent", []byte("u"), nil, 0}, {"both", []byte("u"), &mesos.AgentID{Value: "S1"}, 1},
		{"a repeat, of a task that nobody knows", []byte("u"), &mesos.AgentID{Value: "S1"}, 1},
	} {
		i.update(w.ctx, &mesos.TaskStatus{TaskID: mesos.TaskID{Value: "x.1"}, State: mesos.TASK_FAILED.Enum(), UUID: tt.uuid, AgentID: tt.id})
		if n := len(i.acks); n != tt.want {
			t.Errorf("%s: %d acknowledgements, want %d", tt.name, n, tt.want)
		}
		for len(i.acks) > 0 {
			<-i.acks
		}
	}
	// Applied first: what is acknowledged is in the book already.
	i.book.Restore(ledger.Task{Pod: ledger.Pod{UID: "p"}, AgentID: "S1", Node: "n", ID: "p.1"})
	i.update(w.ctx, &mesos.TaskStatus{TaskID: mesos.TaskID{Value: "p.1"}, State: mesos.TASK_RUNNING.Enum(), UUID: []byte("u"), AgentID: &mesos.AgentID{Value: "S1"}})
	if len(i.acks) != 1 || i.state("p") != ledger.Running {
		t.Errorf("%d acknowledgements, %s", len(i.acks), i.state("p"))
	}
}

// C26: reading events never waits for the master to take acknowledgements, nor for the API server.
func TestC26_OffersAreUsableBehindManyUpdates(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	i := w.instance() // nobody takes acknowledgements
	i.book.Resubscribed()
	i.book.SetConnected(true)
	for n := range 5000 {
		uid := fmt.Sprintf("p%d", n)
		i.book.Restore(ledger.Task{Pod: ledger.Pod{UID: types.UID(uid)}, AgentID: "S1", Node: "n", ID: uid + ".1"})
	}
	begun := time.Now()
	event := func(e *scheduler.Event) {
		if err := i.handle(w.ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	update := func(n int) {
		event(&scheduler.Event{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{Status: mesos.TaskStatus{
			TaskID: mesos.TaskID{Value: fmt.Sprintf("p%d.1", n)}, State: mesos.TASK_RUNNING.Enum(), UUID: []byte("u"), AgentID: &mesos.AgentID{Value: "S1"}}}})
	}
	for n := range 4000 {
		update(n)
	}
	event(&scheduler.Event{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: []mesos.Offer{{ID: mesos.OfferID{Value: "O1"}, AgentID: mesos.AgentID{Value: "S1"}, Hostname: "n", AllocationInfo: &mesos.Resource_AllocationInfo{Role: ptr.To(role)}}}}})
	if n := len(i.book.Offers()); n != 1 || time.Since(begun) > time.Second {
		t.Errorf("%d offers after %v", n, time.Since(begun))
	}
	for n := 4000; n < 5000; n++ {
		update(n)
	}
	event(&scheduler.Event{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: mesos.OfferID{Value: "O1"}}})
	if n := i.book.Counts()[ledger.Running]; n != 5000 || len(i.acks) != 5000 || len(i.book.Offers()) != 0 {
		t.Errorf("%d run, %d acknowledgements, %d offers", n, len(i.acks), len(i.book.Offers()))
	}
}

// Defect 15 of the 2015 system, and C32: a KILL is repeated until the task has ended, over lost calls, executors that do
// not listen, and masters that are away.
func TestC32_KillsAreRepeated(t *testing.T) {
	deaf := atomic.Bool{}
	deaf.Store(true)
	script := &mesossim.Script{For: func(*mesos.TaskInfo) (mesossim.Script, bool) {
		if deaf.Load() {
			return mesossim.Script{Kill: []mesossim.Step{}}, true
		}
		return mesossim.Script{}, false
	}}
	w := newWorld(t, mesossim.Options{Agents: []mesossim.AgentOptions{{Name: "a1", Synthetic: script}}})
	i := w.instance().subscribe()
	task := i.run("p", "a1")
	w.cluster.Faults().Call(mesossim.CallFault{Call: "KILL", LoseCall: true})
	i.book.Kill("p")
	w.until("repeated", func() bool { return w.calls("KILL") >= 3 })
	w.cluster.StopMaster()
	w.until("disconnected", func() bool { return !i.book.Connected() })
	deaf.Store(false)
	if err := w.cluster.StartMaster(false); err != nil {
		t.Fatal(err)
	}
	w.until("killed", func() bool { got, _ := w.cluster.Task(task.ID); return !got.Live() && i.state("p") == ledger.Terminal })
	sent := w.calls("KILL")
	w.until("some time", func() bool { return i.Reconciled() })
	if n := w.calls("KILL"); n > sent+1 {
		t.Errorf("KILL goes on after the end: %d, then %d", sent, n)
	}
	// Offers that were to be declined died with the session.
	if f := i.book.Fates(); f.Received != f.Held+f.Accepted+f.Declined+f.Rescinded+f.Lost || f.Lost == 0 {
		t.Errorf("%+v", f)
	}
}

func TestC33_NothingIsKilledBeforeItIsReconciled(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	first := w.instance().subscribe()
	task := first.run("p", "a1")
	_ = first.end()
	w.cluster.Faults().Call(mesossim.CallFault{Call: "RECONCILE", Times: 1, LoseCall: true})
	second := w.instance()
	second.bound.Store(1)
	second.book.Restore(ledger.Task{Pod: ledger.Pod{UID: "p", Grace: time.Second}, Need: task.Need, AgentID: task.AgentID, Node: "a1", ID: task.ID})
	second.book.Kill("p") // as a pod that was deleted meanwhile
	early := make(chan string, 1)
	second.start()
	w.until("KILL", func() bool {
		if n := w.calls("KILL"); n > 0 && !second.Reconciled() {
			select {
			case early <- fmt.Sprintf("%d KILL calls before reconciliation", n):
			default:
			}
		}
		got, _ := w.cluster.Task(task.ID)
		return !got.Live()
	})
	select {
	case what := <-early:
		t.Error(what)
	default:
	}
	if n := w.calls("RECONCILE"); n < 2 {
		t.Errorf("%d RECONCILE calls", n)
	}
}

// M12: a lost answer is settled by a fence: DECLINE, then RECONCILE.
func TestC35_ALostAcceptIsFenced(t *testing.T) {
	t.Run("the master got it", func(t *testing.T) {
		w := newWorld(t, mesossim.Options{})
		i := w.instance().subscribe()
		w.cluster.Faults().Call(mesossim.CallFault{Call: "ACCEPT", LoseAnswer: true})
		b, err := i.launch("p", "a1")
		if !mesosapi.Ambiguous(err) {
			t.Fatalf("%v", err)
		}
		w.until("adopted", func() bool { return i.state("p") == ledger.Running })
		if n := len(w.cluster.Tasks()); n != 1 || w.cluster.Tasks()[0].ID != b.Launches[0].Task.ID {
			t.Errorf("%d tasks", n)
		}
	})
	t.Run("it did not", func(t *testing.T) {
		w := newWorld(t, mesossim.Options{})
		i := w.instance().subscribe()
		w.cluster.Faults().Call(mesossim.CallFault{Call: "ACCEPT", LoseCall: true})
		if _, err := i.launch("p", "a1"); !mesosapi.Ambiguous(err) {
			t.Fatalf("%v", err)
		}
		w.until("settled", func() bool { return i.state("p") == ledger.Terminal })
		if w.calls("DECLINE") == 0 || w.calls("RECONCILE") < 2 {
			t.Errorf("%v", w.cluster.Counters().Calls)
		}
		if n := len(w.cluster.Tasks()); n != 0 {
			t.Errorf("%d tasks", n)
		}
	})
	t.Run("it comes after the fence", func(t *testing.T) {
		w := newWorld(t, mesossim.Options{})
		i := w.instance(func(o *Options) {
			client, err := mesosapi.New(mesosapi.Config{Masters: w.cluster.URLs(), CallTimeout: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			o.Client = client
		}).subscribe()
		w.cluster.Faults().Call(mesossim.CallFault{Call: "ACCEPT", Delay: 700 * time.Millisecond})
		if _, err := i.launch("p", "a1"); !mesosapi.Ambiguous(err) {
			t.Fatalf("%v", err)
		}
		w.until("settled", func() bool { return i.state("p") == ledger.Terminal })
		i.book.Release("p")
		if n := w.cluster.CountLive(); n != 0 {
			t.Errorf("%d tasks live", n)
		}
	})
}

func TestC34_EarlyReconciliationAfterAMasterChange(t *testing.T) {
	w := newWorld(t, mesossim.Options{Masters: 2, Agents: []mesossim.AgentOptions{{Name: "a1"}, {Name: "a2"}},
		Timing: mesossim.Timing{RegistrationBackoff: 50 * time.Millisecond, AgentReregister: 3 * time.Second}})
	i := w.instance().subscribe()
	one, two := i.run("p1", "a1"), i.run("p2", "a2")
	w.cluster.Agent("a2").Cut() // it does not come back to the new leader
	if err := w.cluster.FailOver(mesossim.FailOverOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("subscribed with the other master", func() bool {
		return i.Session.Status().Phase == Subscribed && w.cluster.Frameworks()[0].Subscribes >= 2 && i.Reconciled()
	})
	if i.state("p2") != ledger.Running {
		t.Errorf("silence is taken for %s", i.state("p2"))
	}
	w.until("the agent that is back answers for its task", func() bool {
		got, _ := i.book.Task("p1")
		return got.Answered && got.State == ledger.Running
	})
	w.until("the other is unreachable in the end", func() bool { return i.state("p2") == ledger.Unreachable })
	for _, task := range []ledger.Task{one, two} {
		if got, _ := w.cluster.Task(task.ID); !got.Live() {
			t.Errorf("%s is %s", task.ID, got.State)
		}
	}
	if n := w.calls("KILL"); n != 0 {
		t.Errorf("%d KILL calls", n)
	}
}

// C12: an offer that is no use at all is given back, and hides no other.
func TestC12_UnusableOffersAreDeclined(t *testing.T) {
	w := newWorld(t, mesossim.Options{Agents: []mesossim.AgentOptions{{Name: "good"}, {Name: "bad"}}})
	i := w.instance()
	i.book = ledger.New(ledger.Options{Clock: clock.RealClock{}, ReturnTime: time.Second, NodeName: func(o *mesos.Offer) string {
		if o.Hostname == "bad" {
			return ""
		}
		return o.Hostname
	}})
	i.Session.ledger = i.book
	i.subscribe()
	w.until("the bad one is declined, the good one held", func() bool {
		f := i.book.Fates()
		offers := w.cluster.Offers()
		return f.Declined >= 1 && f.Held == 1 && len(offers) == 1 && offers[0].Agent == "good"
	})
}

// C21: an inverse offer is answered, not left open.
func TestC21_InverseOffersAreAnswered(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	i := w.instance().subscribe()
	err := i.handle(w.ctx, &scheduler.Event{Type: scheduler.Event_INVERSE_OFFERS, InverseOffers: &scheduler.Event_InverseOffers{InverseOffers: []mesos.InverseOffer{{
		OfferID: mesos.OfferID{Value: "I1"}, AgentID: &mesos.AgentID{Value: "S1"}, Unavailability: mesos.Unavailability{Start: mesos.TimeInfo{Nanoseconds: 1}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	w.until("answered", func() bool {
		c := w.cluster.Counters().Calls
		return c["DECLINE_INVERSE_OFFERS"]+c["ACCEPT_INVERSE_OFFERS"] > 0
	})
}

// I7: events that lack what they should have do no harm.
func TestOddEvents(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	i := w.instance()
	for _, e := range []*scheduler.Event{
		{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{}}, {Type: scheduler.Event_HEARTBEAT}, {Type: 99},
		{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{}}, {Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: []mesos.Offer{{}}}},
		{Type: scheduler.Event_INVERSE_OFFERS, InverseOffers: &scheduler.Event_InverseOffers{InverseOffers: []mesos.InverseOffer{{}}}},
		{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{}}, {Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &mesos.AgentID{Value: "nobody"}}},
	} {
		if err := i.handle(w.ctx, e); err != nil {
			t.Errorf("%v: %v", e, err)
		}
	}
	for message, want := range map[string]error{"Framework failed over": ErrFailedOver, "Framework has been removed": errRemoved, "No entries found": nil} {
		err := i.handle(w.ctx, &scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: message}})
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v", message, err)
		}
	}
	if err := i.begin(w.ctx, nil, "F", &scheduler.Event_Subscribed{}); !errors.Is(err, mesosapi.ErrProtocol) {
		t.Errorf("SUBSCRIBED without an id: %v", err)
	}
}
