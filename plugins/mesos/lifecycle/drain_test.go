// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"

	mesosproto "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// reconciled is a framework that is subscribed and reconciled.
type reconciled struct{}

func (reconciled) Reconciled() bool    { return true }
func (reconciled) FrameworkID() string { return "F" }

// drainRig is a Lifecycle with one agent `S1` and what it evicts.
type drainRig struct {
	*Lifecycle
	t       *testing.T
	clock   *testclock.FakeClock
	events  *events.FakeRecorder
	evicted []string
	refuse  error
}

func newDrainRig(t *testing.T) *drainRig {
	clock := testclock.NewFakeClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	client := fake.NewClientset()
	r := &drainRig{t: t, clock: clock, events: events.NewFakeRecorder(100)}
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		e := a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
		if e.DeleteOptions.Preconditions == nil || *e.DeleteOptions.Preconditions.UID != types.UID(e.Name) {
			t.Errorf("eviction of %s without its UID", e.Name)
		}
		if r.refuse != nil {
			return true, nil, r.refuse
		}
		r.evicted = append(r.evicted, e.Name)
		return true, nil, nil
	})
	pods := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	if err := AddIndex(pods); err != nil {
		t.Fatal(err)
	}
	book := ledger.New(ledger.Options{Clock: clock, NodeName: func(o *mesosproto.Offer) string { return o.Hostname }, Executor: taskinfo.Executor{Path: "/x"}})
	book.Resubscribed()
	book.SetConnected(true)
	r.Lifecycle = New(Options{
		Clock: clock, Client: client, Pods: pods, Recorder: r.events, Ours: func(string) bool { return true },
		Drain: true, MaintenanceLead: 10 * time.Minute,
	}, book, nil, reconciled{})
	return r
}

// bound adds a bound pod with a task on the agent.
func (r *drainRig) bound(name string, grace time.Duration, edits ...func(*v1.Pod)) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{NodeName: "n"}}
	for _, edit := range edits {
		edit(pod)
	}
	if err := r.options.Pods.GetStore().Add(pod); err != nil {
		r.t.Fatal(err)
	}
	r.ledger.Restore(ledger.Task{Pod: ledger.Pod{UID: pod.UID, Namespace: "ns", Name: name, Grace: grace}, Need: resources.Need{Role: "r"},
		AgentID: "S1", Node: "n", ID: taskinfo.TaskID(pod.UID, 1)})
}

func (r *drainRig) pass(ctx context.Context) []string {
	r.evicted = nil
	r.drainAll(ctx)
	slices.Sort(r.evicted)
	return r.evicted
}

func (r *drainRig) window(after, length time.Duration) ledger.Unavailability {
	return ledger.Unavailability{Start: r.clock.Now().Add(after), Duration: length}
}

// ask is an inverse offer.
func (r *drainRig) ask(w ledger.Unavailability) {
	r.ledger.SetWindow("S1", w)
	r.OnInverseOffer("S1", w, 30*time.Second)
}

// TestDrainBegins says when an agent's pods are evicted.
func TestDrainBegins(t *testing.T) {
	deleted := func(p *v1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }
	for _, test := range []struct {
		name  string
		after time.Duration
		grace time.Duration
		want  []string
	}{
		{"long before", time.Hour, 30 * time.Second, nil},
		{"at the lead time", 10 * time.Minute, 30 * time.Second, []string{"a", "b"}},
		{"a long grace begins earlier", 29 * time.Minute, 30 * time.Minute, []string{"a", "b"}},
		{"within the window", -time.Minute, 30 * time.Second, []string{"a", "b"}},
		{"after the window", -2 * time.Hour, 30 * time.Second, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newDrainRig(t)
			r.bound("a", test.grace)
			r.bound("b", 0)
			r.bound("going", 0, deleted)
			r.ask(r.window(test.after, time.Hour))
			if got := r.pass(t.Context()); !slices.Equal(got, test.want) {
				t.Errorf("evicted %v, want %v", got, test.want)
			}
		})
	}
}

// TestDrainOff evicts nothing unless it is asked for.
func TestDrainOff(t *testing.T) {
	r := newDrainRig(t)
	r.options.Drain = false
	r.bound("a", 0)
	r.ask(r.window(0, time.Hour))
	if got := r.pass(t.Context()); got != nil {
		t.Errorf("evicted %v", got)
	}
}

// TestDrainRefused tries again while a PodDisruptionBudget refuses, at the pace that the API server asks for, and says so
// once a minute.
func TestDrainRefused(t *testing.T) {
	r := newDrainRig(t)
	r.bound("a", 0)
	w := r.window(time.Minute, time.Hour)
	r.ask(w)
	refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	r.refuse = refusal
	r.pass(t.Context())
	r.refuse = nil
	r.clock.Step(5 * time.Second)
	if got := r.pass(t.Context()); got != nil {
		t.Errorf("tried again after 5s, the API server asked for 10s")
	}
	r.refuse = refusal
	r.clock.Step(5 * time.Second)
	r.pass(t.Context())
	if n := len(r.events.Events); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	if e := <-r.events.Events; !strings.Contains(e, "disruption budget") {
		t.Errorf("event %q", e)
	}
	r.refuse = nil
	r.ask(w)
	r.clock.Step(10 * time.Second)
	if got := r.pass(t.Context()); !slices.Equal(got, []string{"a"}) {
		t.Errorf("evicted %v", got)
	}
}

// TestDrainPodGone takes a pod that is gone, or is another one by now, for evicted.
func TestDrainPodGone(t *testing.T) {
	for _, err := range []error{apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "a"), apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("the UID in the precondition"))} {
		r := newDrainRig(t)
		r.bound("a", 0)
		r.refuse = err
		r.ask(r.window(0, time.Hour))
		r.pass(t.Context())
		if n := len(r.events.Events); n != 0 {
			t.Errorf("%v: %d events", err, n)
		}
	}
}

// TestDrainCalledOff stops when Mesos no longer asks, but not while nothing can be heard.
func TestDrainCalledOff(t *testing.T) {
	r := newDrainRig(t)
	r.bound("a", 0)
	r.ask(r.window(time.Hour, time.Hour))
	r.ledger.SetConnected(false)
	r.clock.Step(10 * time.Minute)
	r.pass(t.Context())
	r.ledger.SetConnected(true)
	r.pass(t.Context())
	if len(r.drains) != 1 {
		t.Fatal("given up although nothing could be heard")
	}
	r.clock.Step(3 * time.Minute)
	r.pass(t.Context())
	if len(r.drains) != 0 {
		t.Error("not given up after silence")
	}
	for _, a := range r.ledger.Agents() {
		if !a.Unavailable.Start.IsZero() {
			t.Errorf("the window stands: %v", a.Unavailable)
		}
	}
}

// TestDrainKeepsFree keeps an agent free from the time at which its pods were asked to go.
func TestDrainKeepsFree(t *testing.T) {
	r := newDrainRig(t)
	r.bound("slow", 30*time.Minute)
	w := r.window(25*time.Minute, time.Hour)
	r.ask(w)
	r.pass(t.Context())
	covers := func() bool {
		return r.ledger.Agents()[0].Unavailable.Covers(r.clock.Now(), 10*time.Minute)
	}
	if !covers() {
		t.Error("the agent takes new pods although its own were evicted")
	}
	r.ask(w)
	if !covers() {
		t.Error("a repeated inverse offer opens the agent again")
	}
	r.clock.Step(85 * time.Minute)
	r.ledger.Expire()
	if covers() {
		t.Error("the agent is kept free after its window")
	}
}

// TestDrainEndsWithTheWindow: Mesos takes a window back, or moves it. The next offer of the agent tells; pods that come to it
// from then on are none of the drain's.
func TestDrainEndsWithTheWindow(t *testing.T) {
	for _, test := range []struct {
		name string
		told time.Duration // of the window that the offer tells of, 0 for none
		want []string
	}{
		{"called off", 0, nil},
		{"moved", 24 * time.Hour, nil},
		{"as before", 5 * time.Minute, []string{"late"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newDrainRig(t)
			r.bound("p", time.Second)
			r.ask(r.window(5*time.Minute, time.Hour))
			if got := r.pass(t.Context()); !slices.Equal(got, []string{"p"}) {
				t.Fatalf("evicted %v", got)
			}
			offer := mesosproto.Offer{ID: mesosproto.OfferID{Value: "O"}, AgentID: mesosproto.AgentID{Value: "S1"}, Hostname: "n"}
			if test.told > 0 {
				offer.Unavailability = &mesosproto.Unavailability{Start: mesosproto.TimeInfo{Nanoseconds: r.clock.Now().Add(test.told).UnixNano()}, Duration: &mesosproto.DurationInfo{Nanoseconds: int64(time.Hour)}}
			}
			r.ledger.AddOffers([]mesosproto.Offer{offer})
			r.bound("late", time.Second)
			if got := slices.DeleteFunc(r.pass(t.Context()), func(name string) bool { return name == "p" }); !slices.Equal(got, test.want) {
				t.Errorf("evicted %v, want %v", got, test.want)
			}
		})
	}
}
