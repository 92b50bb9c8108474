// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is the leader election's lock that remembers when this process last renewed it. A process that was stopped for
// a while, or starved, goes on as a leader until its next renewal fails; meanwhile another one may lead.
type lease struct {
	resourcelock.Interface
	duration time.Duration
	now      func() time.Time

	mu      sync.Mutex
	renewed time.Time
}

func newLease(lock resourcelock.Interface, duration time.Duration) *lease {
	return &lease{Interface: lock, duration: duration, now: time.Now}
}

// Create is resourcelock.Interface's.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.note(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update is resourcelock.Interface's.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.note(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *lease) note(record resourcelock.LeaderElectionRecord, write func() error) error {
	// Others count from when they see the renewal, which is later.
	at := l.now()
	err := write()
	if err == nil && record.HolderIdentity == l.Identity() {
		l.mu.Lock()
		l.renewed = at
		l.mu.Unlock()
	}
	return err
}

// held returns an error unless nobody else can hold the lease now.
func (l *lease) held() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := l.now().Sub(l.renewed); age >= l.duration {
		return fmt.Errorf("the leader's lease was last renewed %v ago and lasts %v: another scheduler may lead", age.Round(time.Millisecond), l.duration)
	}
	return nil
}
