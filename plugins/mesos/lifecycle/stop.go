// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
)

// Stop is the protection against a wrong signal: when too many agents lose tasks within a window, nothing is removed
// until an operator releases it.
type Stop struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	lost   map[string]time.Time // by agent, when it last lost a task
	since  time.Time            // when the stop began, zero while there is none
	waived time.Time            // losses before it are released
}

// Bounds of a Stop.
const (
	stopWindow   = 5 * time.Minute
	stopAgents   = 3
	stopFraction = 10 // one agent in so many
)

// NewStop returns a stop that is not in force.
func NewStop(c clock.PassiveClock) *Stop { return &Stop{clock: c, lost: map[string]time.Time{}} }

// Lost notes that an agent has lost a task without an operator's word.
func (s *Stop) Lost(agentID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[agentID] = s.clock.Now()
}

// Trip puts the stop in force, unless what it would stop has been released.
func (s *Stop) Trip() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.clock.Now(); s.since.IsZero() && now.Sub(s.waived) > stopWindow {
		s.since = now
	}
}

// Stopped says whether the stop is in force, and since when. agents is how many agents there are.
func (s *Stop) Stopped(agents int) (bool, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	n := 0
	for id, at := range s.lost {
		if now.Sub(at) > stopWindow || !at.After(s.waived) {
			delete(s.lost, id)
			continue
		}
		n++
	}
	if s.since.IsZero() && n > max(stopAgents, agents/stopFraction) {
		s.since = now
	}
	return !s.since.IsZero(), s.since
}

// Release ends the stop; what was lost before counts no more.
func (s *Stop) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.waived = time.Time{}, s.clock.Now()
}

// tendStop looks whether an operator has released the stop.
func (l *Lifecycle) tendStop(ctx context.Context) {
	stopped, since := l.stop.Stopped(l.ledger.AgentCount())
	if !stopped {
		return
	}
	released, err := l.options.Released(ctx, since)
	if err != nil || !released {
		return
	}
	l.stop.Release()
	metrics.Stopped.WithLabelValues().Set(0)
	klog.FromContext(ctx).Info("The protective stop was released", "since", since)
}

// StoppedSince returns when the protective stop began, zero if it is not in force.
func (l *Lifecycle) StoppedSince() time.Time {
	_, since := l.stop.Stopped(l.ledger.AgentCount())
	return since
}
