// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
)

// What no event brings is found by looking: each case leaves a bound pod without a task that is known to live, and says
// whether it is held anew once time passes.
func TestTendLooksAfterPodsWithoutATask(t *testing.T) {
	const tick = soon
	away := func(f *fixture) {
		f.running("p")
		f.says("p.1", "S1", mesos.TASK_UNREACHABLE, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REMOVED)
		f.book.AgentGone("S1")
	}
	replaced := func(f *fixture) {
		away(f)
		f.offer("S2", "n")
	}
	// forgotten has lost its task without a word to OnChange, as when what worked on it has failed.
	forgotten := func(f *fixture) {
		f.store(pod("p"))
		f.restore(f.ctx, pod("p"), framework)
		f.book.Apply(ledger.Update{TaskID: "p.1", AgentID: "S1", Status: ledger.Status{State: mesos.TASK_RUNNING, Source: mesos.SOURCE_EXECUTOR}})
		f.book.Apply(ledger.Update{TaskID: "p.1", AgentID: "S1", Status: ledger.Status{State: mesos.TASK_FAILED, Source: mesos.SOURCE_AGENT, Reason: mesos.REASON_EXECUTOR_TERMINATED, HasWhy: true}})
	}
	for _, tt := range []struct {
		name         string
		set          func(f *fixture)
		unreconciled bool
		after        time.Duration
		want         bool
	}{
		{name: "another agent serves the node", set: replaced, after: tick, want: true},
		{name: "no other agent serves the node", set: away, after: time.Hour},
		{name: "another agent serves the node, but another leader may know more", set: replaced, unreconciled: true, after: tick},
		{name: "nothing works on it", set: forgotten, after: settleEnd, want: true},
		{name: "nothing works on it yet", set: forgotten, after: settleEnd - 2*tick},
		{name: "nothing works on it, but another leader may know more", set: forgotten, unreconciled: true, after: settleEnd},
		{name: "a task of an earlier leader turns out to be on its node", set: func(f *fixture) {
			forgotten(f)
			f.book.Apply(ledger.Update{TaskID: "p.2", AgentID: "S2", Status: ledger.Status{State: mesos.TASK_RUNNING, Source: mesos.SOURCE_EXECUTOR}})
			f.offer("S2", "n")
		}, after: settleEnd},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := setUp(t)
			held := make(chan types.UID, 100)
			f.launch = func(_ context.Context, uid types.UID) (ledger.Task, error) {
				held <- uid
				return ledger.Task{}, errors.New("not now")
			}
			tt.set(f)
			f.session.mu.Lock()
			f.session.reconciled = !tt.unreconciled
			f.session.mu.Unlock()
			looks := make(chan struct{})
			f.options.Clock = tickerClock{f.clock, looks}
			ctx, cancel := context.WithCancel(f.ctx)
			done := make(chan struct{})
			go func() { defer close(done); f.tend(ctx) }()
			defer func() { cancel(); <-done; f.holding.Wait() }()
			until := func(what string, condition func() bool) {
				t.Helper()
				if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) { return condition(), nil }); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			<-looks
			f.clock.Step(tt.after)
			looked := func() bool { // whoever tend has brought up is in the queue
				for f.queue.Len() > 0 {
					f.next(ctx)
				}
				return len(held) > 0
			}
			if tt.want {
				until("held anew", looked)
				return
			}
			// Each look asks twice whether tasks are known; the third time it is the look after it.
			until("tend looks", func() bool { return f.session.asked.Load() >= 1 })
			f.clock.Step(tick)
			until("tend has looked", func() bool { return f.session.asked.Load() >= 3 })
			if looked() {
				t.Error("held anew")
			}
		})
	}
}

// tickerClock tells when its one ticker was made.
type tickerClock struct {
	*testclock.FakeClock
	made chan struct{}
}

func (c tickerClock) NewTicker(d time.Duration) clock.Ticker {
	defer close(c.made)
	return c.FakeClock.NewTicker(d)
}

// offer has an agent offer room on a node.
func (f *fixture) offer(agent, node string) {
	f.book.AddOffers([]mesos.Offer{{
		ID: mesos.OfferID{Value: "O-" + agent}, AgentID: mesos.AgentID{Value: agent}, Hostname: node, AllocationInfo: &mesos.Resource_AllocationInfo{Role: ptr.To("k8s")},
		Resources: []mesos.Resource{{Name: "cpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 4}}},
	}})
}
