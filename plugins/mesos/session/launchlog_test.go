// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
)

// logs are launch logs of one ConfigMap.
type logs struct {
	t      *testing.T
	client *fake.Clientset
	ended  chan error // of Run
}

func newLogs(t *testing.T, data map[string]string) *logs {
	client := fake.NewClientset()
	if data != nil {
		if _, err := client.CoreV1().ConfigMaps("ns").Create(t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "framework"}, Data: data}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	version := 0
	client.PrependReactor("update", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		// The fake does not compare versions; the API server does.
		changed := a.(clienttesting.UpdateAction).GetObject().(*v1.ConfigMap)
		stored, err := client.Tracker().Get(a.GetResource(), "ns", changed.Name)
		if err != nil {
			return true, nil, err
		}
		if now := stored.(*v1.ConfigMap).ResourceVersion; now != changed.ResourceVersion {
			return true, nil, apierrors.NewConflict(v1.Resource("configmaps"), "framework", nil)
		}
		version++
		changed = changed.DeepCopy()
		changed.ResourceVersion = fmt.Sprint(version)
		return true, changed, client.Tracker().Update(a.GetResource(), changed, "ns")
	})
	return &logs{t, client, make(chan error, 10)}
}

func (l *logs) data() map[string]string {
	l.t.Helper()
	stored, err := l.client.CoreV1().ConfigMaps("ns").Get(l.t.Context(), "framework", metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return stored.Data
}

// log begins a log that records what is in flight.
func (l *logs) log(flights func() []ledger.Flight) (*LaunchLog, []ledger.Flight) {
	l.t.Helper()
	log := NewLaunchLog(l.client, "ns", "framework", clock.RealClock{}, flights)
	left, err := log.TakeOver(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.ended <- log.Run(ctx) }()
	l.t.Cleanup(func() { cancel(); <-done })
	return log, left
}

func flights(f ...ledger.Flight) func() []ledger.Flight {
	return func() []ledger.Flight { return f }
}

func TestLaunchLogPassesOn(t *testing.T) {
	l := newLogs(t, map[string]string{frameworkKey: "F", clusterKey: "C"})
	want := []ledger.Flight{{TaskID: "p.1", AgentID: "S1", Node: "n1"}, {TaskID: "q.1", AgentID: "S1", Node: "n1"}, {TaskID: "r.2", AgentID: "S2"}}
	first, left := l.log(flights(want[2], want[1], want[0]))
	if left != nil {
		t.Errorf("left by nobody: %v", left)
	}
	if err := first.Record(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := l.data(); d[frameworkKey] != "F" || d[clusterKey] != "C" {
		t.Errorf("the framework's identity was lost: %v", d)
	}
	second, left := l.log(flights())
	if !slices.Equal(left, want) {
		t.Errorf("%v, want %v", left, want)
	}
	// Who was followed can launch nothing more, and overwrites nothing.
	if err := first.Record(t.Context()); !errors.Is(err, ErrFollowed) {
		t.Errorf("%v", err)
	}
	if err := <-l.ended; !errors.Is(err, ErrFollowed) {
		t.Errorf("a log that was followed goes on: %v", err)
	}
	if err := second.Record(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, left = l.log(flights()); len(left) != 0 {
		t.Errorf("nothing is in flight, but on record is %v", left)
	}
}

// TestLaunchLogIsNotTakenFromALeader has a process that was stopped for long go on in the middle of taking over, when another
// one leads: that one must not be followed.
func TestLaunchLogIsNotTakenFromALeader(t *testing.T) {
	l := newLogs(t, map[string]string{frameworkKey: "F"})
	leads, _ := l.log(flights())
	late := NewLaunchLog(l.client, "ns", "framework", clock.RealClock{}, flights())
	lost := errors.New("the lease has expired")
	late.MayLead = func() error { return lost }
	if _, err := late.TakeOver(t.Context()); !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
	if err := leads.Record(t.Context()); err != nil {
		t.Errorf("the leader cannot record: %v", err)
	}
	// It also loses its lease between the question and the write.
	late.MayLead = func() error {
		l.log(flights())
		return nil
	}
	if _, err := late.TakeOver(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("%v", err)
	}
}

func TestLaunchLogBeforeTheFirstFramework(t *testing.T) {
	l := newLogs(t, nil)
	log, left := l.log(flights(ledger.Flight{TaskID: "p.1", AgentID: "S1"}))
	if left != nil {
		t.Errorf("%v", left)
	}
	if err := log.Record(t.Context()); err == nil {
		t.Error("recorded without an object")
	}
	identity := ConfigMapIdentity{Client: l.client, Namespace: "ns", Name: "framework"}
	_, _ = l.client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "C"}}, metav1.CreateOptions{})
	if err := identity.Save(t.Context(), "", "F"); err != nil {
		t.Fatal(err)
	}
	if err := log.Record(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The object changes for other reasons, too.
	if err := identity.Save(t.Context(), "F", "G"); err != nil {
		t.Fatal(err)
	}
	if d := l.data(); d[launchesKey] != "" {
		t.Errorf("launches of a framework that is gone: %v", d)
	}
	if err := log.Record(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := l.data(); d[frameworkKey] != "G" || !strings.Contains(d[launchesKey], "p.1") {
		t.Errorf("%v", d)
	}
}

// However many launches ask while a write is under way, one more write is for all of them, and begins after they asked.
func TestLaunchLogWritesOnceForMany(t *testing.T) {
	l := newLogs(t, map[string]string{})
	var mu sync.Mutex
	var inFlight []ledger.Flight
	log, _ := l.log(func() []ledger.Flight {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(inFlight)
	})
	var writes atomic.Int32
	begun, goOn := make(chan struct{}), make(chan struct{})
	l.client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		if writes.Add(1) == 1 {
			close(begun)
			<-goOn
		}
		return false, nil, nil
	})
	var wg sync.WaitGroup
	record := func(id string) {
		mu.Lock()
		inFlight = append(inFlight, ledger.Flight{TaskID: id, AgentID: "S1"})
		mu.Unlock()
		wg.Go(func() {
			if err := log.Record(t.Context()); err != nil {
				t.Error(err)
			}
			if d := l.data(); !strings.Contains(d[launchesKey], `"`+id+`"`) {
				t.Errorf("%s is not on record: %v", id, d)
			}
		})
	}
	record("p.0")
	<-begun
	for i := range 50 {
		record(fmt.Sprintf("p%d.1", i))
	}
	close(goOn)
	wg.Wait()
	if n := writes.Load(); n > 5 {
		t.Errorf("%d writes for 51 launches that asked at two moments", n)
	}
}

func TestLaunchLogFailures(t *testing.T) {
	l := newLogs(t, map[string]string{})
	log, _ := l.log(flights(ledger.Flight{TaskID: "p.1", AgentID: "S1"}))
	var fails atomic.Int32
	l.client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		switch fails.Add(-1) {
		case 1:
			return true, nil, errors.New("the API server is away")
		case 0:
			return true, nil, apierrors.NewConflict(v1.Resource("configmaps"), "framework", nil)
		}
		return false, nil, nil
	})
	fails.Store(2)
	if err := log.Record(t.Context()); err == nil {
		t.Error("a write that failed passes for one that was done")
	}
	if err := log.Record(t.Context()); err != nil {
		t.Errorf("a conflict alone: %v", err)
	}
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	cancel()
	if err := NewLaunchLog(l.client, "ns", "framework", clock.RealClock{}, flights()).Record(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestLaunchLogRefusesWhatItCannotRead(t *testing.T) {
	for _, text := range []string{"{", `[{"agent":"S1","tasks":["no-attempt"]}]`, `[{"tasks":["p.1"]}]`, `{"agent":"S1"}`} {
		l := newLogs(t, map[string]string{launchesKey: text})
		_, err := NewLaunchLog(l.client, "ns", "framework", clock.RealClock{}, flights()).TakeOver(t.Context())
		if err == nil || !strings.Contains(err.Error(), "ns/framework") || !strings.Contains(err.Error(), launchesKey) {
			t.Errorf("%s: %v", text, err)
		}
		if got := l.data()[launchesKey]; got != text {
			t.Errorf("%s was overwritten with %s", text, got)
		}
	}
}
