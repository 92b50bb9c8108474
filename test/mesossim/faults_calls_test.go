// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"slices"
	"sync"
	"testing"
)

// A hook hears of each call twice, and what it cuts at its arrival the master never sees.
func TestOnCall(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(1), Timing: fastTiming()})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	for _, tt := range []struct {
		name           string
		before, after  bool // cut there
		status, counts int
		heard          []bool
	}{
		{"passed", false, false, 202, 1, []bool{false, true}},
		{"cut at its arrival", true, false, 0, 0, []bool{false}},
		{"cut before its answer", false, true, 0, 1, []bool{false, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			var heard []bool
			c.Faults().OnCall(func(call SchedulerCall) bool {
				mu.Lock()
				defer mu.Unlock()
				if call.Kind != "REVIVE" || call.Framework == "" {
					t.Errorf("%+v", call)
				}
				heard = append(heard, call.Handled)
				_ = c.Frameworks() // it may ask the cluster
				return !call.Handled && tt.before || call.Handled && tt.after
			})
			before := c.Counters().Calls["REVIVE"]
			status, _ := post(c.URL(), "/api/v1/scheduler", f.stream, obj{"type": "REVIVE", "framework_id": id(f.id), "revive": obj{}})
			if n := c.Counters().Calls["REVIVE"] - before; status != tt.status || n != tt.counts {
				t.Errorf("answered %d and handled %d times, want %d and %d", status, n, tt.status, tt.counts)
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(heard, tt.heard) {
				t.Errorf("heard %v", heard)
			}
		})
	}
}

// A failover timeout passes only for a framework that is not connected.
func TestPassFailoverTimeout(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(1), Timing: fastTiming()})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	if c.Faults().PassFailoverTimeout(f.id) {
		t.Error("removed while it is connected")
	}
	c.Faults().CutStream("", 0)
	eventually(t, c, "the end of the stream", func() bool { return !c.Frameworks()[0].Connected })
	if !c.Faults().PassFailoverTimeout(f.id) || !c.Frameworks()[0].Removed {
		t.Errorf("%+v", c.Frameworks()[0])
	}
}

// A drain waits for what a framework has to acknowledge, and for no framework that is gone.
func TestDrainEndsWithTheFramework(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(1), Timing: fastTiming()})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	offer := running(t, c, f, "a")
	agent := obj{"agent_id": offer["agent_id"]}
	if status, text := post(c.URL(), "/api/v1", "", obj{"type": "DRAIN_AGENT", "drain_agent": agent}); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	reactivate := func() int {
		status, _ := post(c.URL(), "/api/v1", "", obj{"type": "REACTIVATE_AGENT", "reactivate_agent": agent})
		return status
	}
	if status := reactivate(); status != 400 {
		t.Errorf("reactivated before its task's end was acknowledged: %d", status)
	}
	if status, text := post(c.URL(), "/api/v1", "", obj{"type": "TEARDOWN", "teardown": obj{"framework_id": id(f.id)}}); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	if status := reactivate(); status != 200 {
		t.Errorf("not reactivated: %d", status)
	}
}
