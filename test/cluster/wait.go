// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollInterval is short against everything that is waited for and long against one request.
const pollInterval = 50 * time.Millisecond

// Wait calls cond until it returns nil or ctx ends. The error names what was waited for and what cond said last.
func Wait(ctx context.Context, what string, cond func(context.Context) error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	start := time.Now()
	var last error
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		// An error that comes from the end of the wait hides what was wrong before.
		if last == nil || ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %.1f s for %s: %w: %w", time.Since(start).Seconds(), what, context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}

// WaitAtMost is Wait with a limit of its own.
func WaitAtMost(ctx context.Context, limit time.Duration, what string, cond func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("gave up"))
	defer cancel()
	return Wait(ctx, what, cond)
}
