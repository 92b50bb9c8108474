// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// TestAgentReplacedWhileNotSubscribed has the loss of the old agent go by while no stream stands: neither its FAILURE nor
// the end of its task is ever heard. That the master does not know the agent is told by reconciliation.
func TestAgentReplacedWhileNotSubscribed(t *testing.T) {
	for _, state := range []mesos.TaskState{mesos.TASK_UNKNOWN, mesos.TASK_UNREACHABLE} {
		t.Run(state.String(), func(t *testing.T) {
			b := newBook(t)
			b.add(b.offer("O1", "S1", "cpus:4;mem:4096", onNode("n")))
			b.Restore(Task{Pod: ledgerPod("p"), Need: needOf(1000, 1024), AgentID: "S1", Node: "n", ID: "p.1"})
			b.says("p.1", "S1", mesos.TASK_RUNNING)
			b.SetConnected(false)
			b.Resubscribed()
			b.SetConnected(true)
			b.add(b.offer("O2", "S2", "cpus:4;mem:4096", onNode("n")))
			if got := b.Snapshot().Node("n").Fit(needOf(100, 100), 0, b.clock.Now()); got != ReasonAmbiguous {
				t.Errorf("before anything is heard of the old agent: %q", got)
			}
			b.because("p.1", "S1", state, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
			if got := b.Snapshot().Node("n").Fit(needOf(100, 100), 0, b.clock.Now()); got != Fits {
				t.Errorf("after the master has said that it does not have the old agent: %q", got)
			}
			if got := b.Replaced(); len(got) != 1 || got[0].Effect != Lost {
				t.Fatalf("the pod's task is not given up: %+v", got)
			}
			if c, ok := b.Reclaim("p"); !ok || c.AgentID != "S2" {
				t.Errorf("the pod is to be held on %q", c.AgentID)
			}
			b.audit()
		})
	}
}
