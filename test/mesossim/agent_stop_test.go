// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"testing"
	"time"
)

// A process that was stopped answers the pings that came meanwhile when it goes on, so the next time-out does not count
// against it.
func TestStoppedAgentAnswersWhenItGoesOn(t *testing.T) {
	clock := NewTestClock(time.Unix(1_700_000_000, 0))
	c, err := Start(t.Context(), Options{Clock: clock, Agents: []AgentOptions{{Name: "a", Synthetic: &Script{}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const ping, pings = 15 * time.Second, 5
	for _, tt := range []struct {
		stopped     time.Duration
		unreachable bool
	}{{pings*ping - time.Second, false}, {(pings + 2) * ping, true}} {
		c.Agent("a").Stop()
		clock.Advance(tt.stopped)
		if got := c.Agents()[0].Unreachable; got != tt.unreachable {
			t.Fatalf("stopped for %v: unreachable=%t", tt.stopped, got)
		}
		c.Agent("a").Continue()
		clock.Advance(4 * ping)
		if a := c.Agents()[0]; a.Unreachable || !a.Connected {
			t.Errorf("stopped for %v and back: %+v", tt.stopped, a)
		}
	}
}
