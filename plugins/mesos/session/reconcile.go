// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
)

// Pauses between explicit reconciliations of tasks that the master has not answered for.
const (
	firstAsk = time.Second
	lastAsk  = 30 * time.Second
	// askAgain bounds the pause after a call that failed: until a full pass is done much stands still.
	askAgain = 2 * time.Second
)

// settle is how long the stream must have been quiet after an implicit reconciliation before its answers count as
// complete: there is no end marker. settleLimit bounds the wait when the stream never is quiet.
const (
	settle      = 250 * time.Millisecond
	settleLimit = 5 * time.Second
)

// reconcileLoop asks for every task by name after each subscription, again and again with growing pauses until the
// master has answered for it, and then for all tasks without names; both again every ReconcileInterval. It is the only
// place that reconciles as a whole, so that no two reconciliations run at once. Silence is never taken for loss.
func (s *Session) reconcileLoop(ctx context.Context) error {
	timer := s.options.Clock.NewTimer(lastAsk)
	defer timer.Stop()
	pause := firstAsk
	var everything time.Time // when the next full pass is due
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.subscribed:
			pause, everything = firstAsk, time.Time{}
		case <-s.again:
			pause = firstAsk
		case <-timer.C():
		}
		if s.ledger.Connected() {
			full := !s.options.Clock.Now().Before(everything)
			if err := s.pass(ctx, full); err != nil {
				klog.FromContext(ctx).V(2).Info("Reconciliation failed; it will be repeated", "err", err)
				pause = min(pause, askAgain)
			} else if full {
				everything = s.options.Clock.Now().Add(s.options.ReconcileInterval)
			}
		}
		timer.Reset(pause)
		if pause = min(pause*2, lastAsk); len(s.ledger.Unanswered()) == 0 {
			pause = lastAsk
		}
	}
}

// pass asks for the tasks that are unanswered or launching for too long, and on a full pass for everything.
func (s *Session) pass(ctx context.Context, full bool) error {
	if full {
		s.ledger.AskAll()
	}
	begun := s.begun.Load()
	queries := append(s.ledger.Unanswered(), s.ledger.Stuck(s.options.LaunchLimit)...)
	if err := s.reconcile(ctx, queries); err != nil || !full {
		return err
	}
	metrics.Reconciliations.WithLabelValues("implicit").Inc()
	if err := s.call(ctx, calls.Reconcile()); err != nil {
		return err
	}
	if err := s.awaitQuiet(ctx); err != nil {
		return err
	}
	if s.begun.Load() != begun {
		return nil // the answers came in part from before the present subscription
	}
	s.ledger.Reconciling(false)
	if !s.reconciled.Swap(true) {
		klog.FromContext(ctx).Info("Reconciled", "tasks", len(queries), "unanswered", len(s.ledger.Unanswered()))
		s.hooks.Kick()
		s.economy.nudge()
	}
	return nil
}

// awaitQuiet waits until no event has come for a while.
func (s *Session) awaitQuiet(ctx context.Context) error {
	end := s.options.Clock.Now().Add(settleLimit)
	for {
		if !s.sleep(ctx, settle) {
			return ctx.Err()
		}
		now := s.options.Clock.Now()
		if now.After(end) || now.UnixNano()-s.lastEvent.Load() >= settle.Nanoseconds() {
			return nil
		}
	}
}
