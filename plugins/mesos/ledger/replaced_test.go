// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

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

// TestParted tells which tasks may be waiting for an agent that comes back under another id.
func TestParted(t *testing.T) {
	b := newBook(t)
	b.Restore(Task{Pod: ledgerPod("p"), Need: needOf(1000, 1024), AgentID: "S1", Node: "n", ID: "p.1"})
	b.Restore(Task{Pod: ledgerPod("q"), Need: needOf(1000, 1024), AgentID: "S9", Node: "m", ID: "q.1"})
	parted := func(want bool, when string) {
		t.Helper()
		if got := b.Parted(); (len(got) > 0) != want || want && !got[role].Equal(b.clock.Now()) {
			t.Errorf("%s: %v at %v", when, got, b.clock.Now())
		}
	}
	parted(false, "nothing was heard")
	b.says("q.1", "S9", mesos.TASK_RUNNING)
	b.because("p.1", "S1", mesos.TASK_UNKNOWN, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
	parted(true, "the master does not know the task")
	b.says("p.1", "S1", mesos.TASK_RUNNING)
	parted(false, "it is back")
	b.clock.Step(time.Minute)
	b.because("p.1", "S1", mesos.TASK_UNREACHABLE, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REMOVED)
	parted(true, "the agent is out of reach")
	b.add(b.offer("O2", "S2", "cpus:4;mem:4096", onNode("n")))
	parted(false, "another agent serves the node: the task ends at the next look")
	b.audit()
}

// TestPartedPodGone: nothing is held for a pod that is gone.
func TestPartedPodGone(t *testing.T) {
	b := newBook(t)
	b.Restore(Task{Pod: ledgerPod("p"), Need: needOf(1000, 1024), AgentID: "S1", Node: "n", ID: "p.1"})
	b.because("p.1", "S1", mesos.TASK_UNREACHABLE, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REMOVED)
	b.PodGone("p")
	if got := b.Parted(); len(got) > 0 {
		t.Errorf("%v", got)
	}
}
