// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/launcher"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/session"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

const role = "kubernetes"

// memoryIdentity keeps a framework id as long as the process lives.
type memoryIdentity struct{ id atomic.Pointer[string] }

func (m *memoryIdentity) Load(context.Context) (string, error) {
	if id := m.id.Load(); id != nil {
		return *id, nil
	}
	return "", nil
}

func (m *memoryIdentity) Save(_ context.Context, _, id string) error {
	m.id.Store(&id)
	return nil
}

func (m *memoryIdentity) Confirmed(context.Context, string) (bool, error) { return false, nil }
func (m *memoryIdentity) HowToConfirm(string) string                      { return "" }

// core is the plugin without Kubernetes: its ledger, launcher and session, wired as the plugin wires them.
type core struct {
	book     *ledger.Ledger
	launcher *launcher.Launcher
	session  *session.Session
	ctx      context.Context
	stop     func()
	woken    chan *v1.Pod   // pods that the economy wakes
	ended    chan types.UID // if set, hears of pods whose tasks have ended
	next     int            // where the search for an agent begins
	placed   int            // how many pods in a row were placed there
	nodes    []string
}

// startCore starts the plugin's core; restore, if set, fills the ledger before it subscribes.
func startCore(t *testing.T, master string, identity *memoryIdentity, nodes []string, restore func(*ledger.Ledger)) *core {
	t.Helper()
	metrics.Register()
	client, err := mesosapi.New(mesosapi.Config{Masters: []string{"http://" + master}})
	if err != nil {
		t.Fatal(err)
	}
	executor := taskinfo.Executor{Path: "/opt/kube-mesos/bin/kube-mesos-executor", Kubeconfig: "/etc/kubernetes/kubelet.conf",
		Amounts: resources.Amounts{CPUs: 100, Mem: 128_000}, BindTimeout: 10 * time.Minute, KillMargin: time.Minute, User: "root"}
	c := &core{nodes: nodes, woken: make(chan *v1.Pod, 1<<17)}
	real := clock.RealClock{}
	c.book = ledger.New(ledger.Options{Clock: real, NodeName: func(o *mesos.Offer) string { return o.Hostname }, Executor: executor, ReturnTime: 2 * time.Second})
	timeout, checkpoint := (7 * 24 * time.Hour).Seconds(), true
	capability := func(types ...mesos.FrameworkInfo_Capability_Type) (out []mesos.FrameworkInfo_Capability) {
		for _, t := range types {
			out = append(out, mesos.FrameworkInfo_Capability{Type: t})
		}
		return out
	}
	c.session = session.New(session.Options{
		Clock: real, Client: client, Roles: []string{role}, Identity: identity,
		Framework: mesos.FrameworkInfo{User: "root", Name: "core", FailoverTimeout: &timeout, Checkpoint: &checkpoint, Roles: []string{role},
			Capabilities: capability(mesos.FrameworkInfo_Capability_PARTITION_AWARE, mesos.FrameworkInfo_Capability_TASK_KILLING_STATE,
				mesos.FrameworkInfo_Capability_MULTI_ROLE, mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT, mesos.FrameworkInfo_Capability_REGION_AWARE)},
		Economy:           session.Economy{IdleAfter: 5 * time.Second, IdleRefuse: 5 * time.Minute, ShortRefuse: 2 * time.Second, OfferHold: 30 * time.Second},
		ReconcileInterval: 15 * time.Minute, KillRepeat: 5 * time.Second, KillPatience: 10 * time.Second, LaunchLimit: time.Minute, ExecutorMaxTasks: 1 << 20,
	}, session.Hooks{
		OnChange: func(change ledger.Change) {
			if change.Effect == ledger.Ended {
				c.book.PodGone(change.Task.UID)
				if c.ended != nil {
					c.ended <- change.Task.UID
				}
			}
		},
		Kick: func() { c.launcher.Kick() }, OnFrameworkGone: func([]ledger.Task) {}, Bound: func() int { return 0 },
		Match: func(*v1.Pod) func(string) bool { return func(string) bool { return true } }, Usable: func(string) bool { return true },
		Activate: func(pods []*v1.Pod) {
			for _, p := range pods {
				select {
				case c.woken <- p:
				default: // it will be woken again
				}
			}
		},
	}, c.book)
	c.launcher = launcher.New(launcher.Options{Clock: real, Executor: executor, Window: 5 * time.Millisecond, MaxTasks: 100, Timeout: time.Minute, Backing: 3 * time.Second, Retries: 3}, c.book, c.session, nothingToRecord{})
	if restore != nil {
		restore(c.book)
	}
	ctx, cancel := context.WithCancel(t.Context())
	group, ctx := errgroup.WithContext(ctx)
	c.ctx = ctx
	group.Go(func() error { c.launcher.Run(ctx); return nil })
	group.Go(func() error { return c.session.Run(ctx) })
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		client.Close()
	})
	t.Cleanup(c.stop)
	await(t, "reconciliation", c.session.Reconciled)
	return c
}

// podNeed is what each pod asks for.
var podNeed = resources.Need{Amounts: resources.Amounts{CPUs: 100, Mem: 64_000}, Role: role}

func barePod(i int) *v1.Pod {
	name := "pod-" + strconv.Itoa(i)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))}}
}

// place does for one pod what PreFilter, Filter, Score and Reserve do: it takes a snapshot, looks for an agent that fits,
// preferably one that can launch at once, and claims its room. Like Score it stays with an agent on which a batch is open, here
// until that is full, and loads agents evenly; it searches no further than needed.
func (c *core) place(pod *v1.Pod, need resources.Need) bool {
	snapshot, now := c.book.Wait(pod, need, 0), time.Now()
	if c.placed == perAccept {
		c.next, c.placed = c.next+1, 0
	}
	fits := -1
	for i := range c.nodes {
		v := snapshot.Node(c.nodes[(c.next+i)%len(c.nodes)])
		if v.Fit(need, 0, now) != ledger.Fits {
			continue
		}
		if ready := v.Ready(need); fits < 0 || ready {
			if fits = c.next + i; ready {
				break
			}
		}
		if i >= 500 { // kube-scheduler does not look at all nodes of a large cluster either
			break
		}
	}
	if fits < 0 {
		return false
	}
	if fits != c.next {
		c.next, c.placed = fits, 0
	}
	c.placed++
	return c.book.Claim(ledger.Pod{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}, need, c.nodes[fits%len(c.nodes)]) == nil
}

// launchAll places and launches pods, like kube-scheduler: placing one after the other, launching each in a goroutine of
// its own. It returns when all have tasks that the executors have. The pods are dropped from the list as they are taken: what
// the API server's side holds of them is not part of this.
func (c *core) launchAll(t *testing.T, pods []*v1.Pod) {
	t.Helper()
	var launches sync.WaitGroup
	var failed atomic.Int64
	queue := pods
	for _, pod := range pods { // as PreEnqueue does
		c.book.Enter(pod.UID)
	}
	again := make(chan *v1.Pod, len(pods))
	pending := atomic.Int64{}
	pending.Store(int64(len(pods)))
	done := make(chan struct{})
	for pending.Load() > 0 {
		var pod *v1.Pod
		if len(queue) > 0 {
			pod, queue[0], queue = queue[0], nil, queue[1:]
		} else {
			select {
			case pod = <-again:
			case pod = <-c.woken:
			case <-done:
				continue
			case <-c.ctx.Done():
				t.Fatal("ended before all tasks were launched")
			}
		}
		if _, held := c.book.Task(pod.UID); held || !c.place(pod, podNeed) {
			continue // it waits; the economy wakes it
		}
		launches.Add(1)
		go func() {
			defer launches.Done()
			task, err := c.launcher.Launch(c.ctx, pod.UID)
			if err != nil {
				if failed.Add(1) == 1 {
					t.Logf("the first launch to be repeated: %v (%v)", err, task.State)
				}
				c.book.Release(pod.UID)
				c.book.Enter(pod.UID)
				again <- pod
				return
			}
			c.book.Bound(pod.UID, task.ID)
			if pending.Add(-1) == 0 {
				close(done)
			}
		}()
		runtime.Gosched() // kube-scheduler's loop gives way at each of its locks
	}
	launches.Wait()
	if n := failed.Load(); n > 0 {
		t.Logf("%d launches were repeated", n)
	}
}

// await waits until a condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	limit := time.After(5 * time.Minute)
	for !condition() {
		select {
		case <-ticker.C:
		case <-limit:
			t.Fatalf("gave up waiting for %s", what)
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// nothingToRecord stands for the record of launches: there is no API server here.
type nothingToRecord struct{}

func (nothingToRecord) Record(context.Context) error { return nil }
