// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is a resourcelock whose writes fail on demand and take time.
type lock struct {
	resourcelock.Interface
	err  error
	take func()
}

func (l *lock) Identity() string { return "me" }
func (l *lock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	l.take()
	return l.err
}
func (l *lock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	l.take()
	return l.err
}

func TestLeaseIsHeldForItsDurationOnly(t *testing.T) {
	now := time.Unix(1000, 0)
	inner := &lock{take: func() { now = now.Add(time.Second) }}
	l := newLease(inner, 15*time.Second)
	l.now = func() time.Time { return now }
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	steps := []struct {
		name string
		do   func()
		held bool
	}{
		{"never acquired", func() {}, false},
		{"acquired", func() { _ = l.Create(t.Context(), mine) }, true},
		{"nearly over, counted from before the request", func() { now = now.Add(13*time.Second + 999*time.Millisecond) }, true},
		{"over", func() { now = now.Add(time.Millisecond) }, false},
		{"a renewal fails", func() { inner.err = errors.New("conflict"); _ = l.Update(t.Context(), mine) }, false},
		{"a renewal succeeds", func() { inner.err = nil; _ = l.Update(t.Context(), mine) }, true},
		{"the process was stopped", func() { now = now.Add(time.Minute) }, false},
		{"somebody else's record", func() { _ = l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "other"}) }, false},
	}
	for _, s := range steps {
		s.do()
		if err := l.held(); (err == nil) != s.held {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}
