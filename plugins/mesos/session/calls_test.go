// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	testclock "k8s.io/utils/clock/testing"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
)

// TestAcknowledgementsDoNotWaitForMore: they are gathered for a moment, but not when there are enough.
func TestAcknowledgementsDoNotWaitForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Clock: testclock.NewFakeClock(time.Now())}, Hooks{}, nil) // time stands still
		for range mesosapi.MaxAcknowledge + ackEnough + 1 {
			s.acks <- calls.Acknowledge("agent", "task", []byte("uuid"))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group errgroup.Group
		group.Go(func() error { return s.ackLoop(ctx) })
		synctest.Wait() // until it waits for more
		if n := len(s.acks); n > 0 {
			t.Errorf("%d acknowledgements wait for others", n)
		}
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}
