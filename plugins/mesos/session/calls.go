// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
)

// call sends one call on the present subscription.
func (s *Session) call(ctx context.Context, call *scheduler.Call) error {
	stream := s.stream.Load()
	if stream == nil {
		return &mesosapi.CallError{Type: call.Type, Err: mesosapi.ErrNotSubscribed}
	}
	call.FrameworkID = &mesos.FrameworkID{Value: s.Status().FrameworkID}
	err := stream.Call(ctx, call)
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	metrics.Calls.WithLabelValues(call.Type.String(), outcome).Inc()
	return err
}

// Accept does operations on offers of one agent and role. What they leave comes back without a filter.
func (s *Session) Accept(ctx context.Context, role string, offerIDs []string, operations []mesos.Offer_Operation) error {
	call := calls.Accept(calls.OfferOperations(operations).WithOffers(ids(offerIDs)...)).With(calls.RefuseSeconds(0))
	err := s.call(ctx, call)
	s.economy.accepted(role)
	if mesosapi.Ambiguous(err) {
		nudge(s.fence)
	}
	return err
}

func ids(offerIDs []string) []mesos.OfferID {
	out := make([]mesos.OfferID, len(offerIDs))
	for i, id := range offerIDs {
		out[i].Value = id
	}
	return out
}

// maxAcks bounds the acknowledgements that wait to be sent. When there are more, events are read slower.
const maxAcks = 8192

// ackWindow is how long acknowledgements are gathered, unless there are enough: each packet that is saved, and each
// wake-up of the master, counts more than the delay. An agent keeps a task's next update back until the one before is
// acknowledged, so it delays TASK_RUNNING.
const ackWindow = 5 * time.Millisecond

// ackEnough is how many need not wait for more.
const ackEnough = 256

func (s *Session) acknowledge(ctx context.Context, call *scheduler.Call) {
	select {
	case s.acks <- call:
	case <-ctx.Done():
	}
}

// ackLoop sends acknowledgements, as many at once as have come meanwhile. One that fails is not sent again: the agent
// repeats the update.
func (s *Session) ackLoop(ctx context.Context) error {
	batch := make([]*scheduler.Call, 0, mesosapi.MaxAcknowledge)
	for {
		select {
		case call := <-s.acks:
			batch = append(batch[:0], call)
		case <-ctx.Done():
			return nil
		}
		if len(s.acks) < ackEnough && !s.sleep(ctx, ackWindow) {
			return nil
		}
		for len(batch) < cap(batch) && len(s.acks) > 0 { // this goroutine alone takes from it
			batch = append(batch, <-s.acks)
		}
		s.sendAcks(ctx, batch)
	}
}

func (s *Session) sendAcks(ctx context.Context, batch []*scheduler.Call) {
	taken, err := 0, error(&mesosapi.CallError{Type: scheduler.Call_ACKNOWLEDGE, Err: mesosapi.ErrNotSubscribed})
	if stream := s.stream.Load(); stream != nil {
		framework := &mesos.FrameworkID{Value: s.Status().FrameworkID}
		for _, call := range batch {
			call.FrameworkID = framework
		}
		taken, err = stream.Acknowledge(ctx, batch)
	}
	failed := len(batch) - taken
	if failed > 0 {
		klog.FromContext(ctx).V(2).Info("Acknowledgements failed; the agents will repeat the updates", "failed", failed, "of", len(batch), "err", err)
	}
	for outcome, n := range map[string]int{"ok": taken, "failed": failed} {
		metrics.Acknowledged.WithLabelValues(outcome).Add(float64(n))
		metrics.Calls.WithLabelValues(scheduler.Call_ACKNOWLEDGE.String(), outcome).Add(float64(n))
	}
}

// killTick is how often kills that are due are looked for.
const killTick = 250 * time.Millisecond

// retireTick is how often executors that are not needed are looked for, which takes a look at every agent.
const retireTick = 2 * time.Second

// killLoop sends the KILLs that the ledger wants and does what time brings. A KILL is repeated until the task has ended:
// one that is sent while the executor's stream is broken is lost without a sign.
func (s *Session) killLoop(ctx context.Context) error {
	ticker := s.options.Clock.NewTicker(killTick)
	defer ticker.Stop()
	var retired time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.fence:
		case <-ticker.C():
		}
		s.ledger.Expire()
		if !s.ledger.Connected() {
			continue
		}
		s.raiseFences(ctx)
		s.shapeHolds(ctx)
		if !s.reconciled.Load() {
			continue // nothing is killed before the whole picture is known
		}
		if now := s.options.Clock.Now(); now.Sub(retired) >= retireTick {
			retired = now
			s.retire(ctx)
		}
		for _, d := range s.ledger.Dooms(s.options.KillPatience, s.options.KillRepeat) {
			call := calls.Kill(d.TaskID, d.AgentID)
			if d.Grace != nil {
				call.Kill.KillPolicy = killPolicy(*d.Grace)
			}
			metrics.Kills.WithLabelValues().Inc()
			klog.FromContext(ctx).V(2).Info("Sent KILL", "task", d.TaskID, "agent", d.AgentID)
			if err := s.call(ctx, call); err != nil {
				klog.FromContext(ctx).V(2).Info("KILL failed; it will be repeated", "task", d.TaskID, "err", err)
			}
		}
	}
}

func killPolicy(grace time.Duration) *mesos.KillPolicy {
	return &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: grace.Nanoseconds()}}
}

// raiseFences settles launches whose answer was lost. DECLINE of the same offers, answered, makes an ACCEPT that comes
// later invalid; only the master's word after that counts.
func (s *Session) raiseFences(ctx context.Context) {
	for _, f := range s.ledger.Fences() {
		if err := s.call(ctx, calls.Decline(ids(f.OfferIDs)...).With(calls.RefuseSeconds(0))); err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot fence a launch yet", "err", err)
			return
		}
		taskIDs := make([]string, len(f.Tasks))
		queries := make([]ledger.Query, len(f.Tasks))
		for i, t := range f.Tasks {
			taskIDs[i], queries[i] = t.TaskID, ledger.Query{TaskID: t.TaskID, AgentID: t.AgentID}
		}
		s.ledger.Fenced(taskIDs)
		if err := s.reconcile(ctx, queries); err != nil {
			return // they are unanswered; the reconciliation asks again
		}
	}
}

// maxQueries bounds the tasks of one RECONCILE.
const maxQueries = 1000

func (s *Session) reconcile(ctx context.Context, queries []ledger.Query) error {
	for len(queries) > 0 {
		n := min(len(queries), maxQueries)
		tasks := make(map[string]string, n)
		for _, q := range queries[:n] {
			tasks[q.TaskID] = q.AgentID
		}
		metrics.Reconciliations.WithLabelValues("explicit").Inc()
		if err := s.call(ctx, calls.Reconcile(calls.ReconcileTasks(tasks))); err != nil {
			return fmt.Errorf("reconcile %d tasks: %w", n, err)
		}
		queries = queries[n:]
	}
	return nil
}

// retire ends executors that are not needed. SHUTDOWN has no answer; it is repeated until the executor is gone.
func (s *Session) retire(ctx context.Context) {
	for _, r := range s.ledger.Retire(s.options.ExecutorIdle, s.options.ExecutorMaxTasks) {
		klog.FromContext(ctx).Info("Ending an executor that is not needed", "agent", r.AgentID, "executor", r.ExecutorID)
		if err := s.call(ctx, calls.Shutdown(r.ExecutorID, r.AgentID)); err != nil {
			klog.FromContext(ctx).V(2).Info("SHUTDOWN failed; it will be repeated", "executor", r.ExecutorID, "err", err)
		}
	}
}
