// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// refusal is what an agent without the isolator answers (recorded of a real one).
var refusal = Status{State: mesos.TASK_DROPPED, Source: mesos.SOURCE_AGENT, Reason: mesos.REASON_GC_ERROR, HasWhy: true,
	Message: "CPU limits can only be set on tasks launched in Mesos containers when the agent has loaded the 'cgroups/cpu' isolator"}

func TestLimitsRefused(t *testing.T) {
	for _, test := range []struct {
		status Status
		want   bool
	}{
		{refusal, true},
		{Status{State: mesos.TASK_ERROR, Message: "Agent is not capable of handling task resource limits"}, true},
		{Status{State: mesos.TASK_ERROR, Message: "Task uses no resources"}, false},
		{Status{State: mesos.TASK_DROPPED, Reason: mesos.REASON_GC_ERROR, HasWhy: true, Message: "Failed to unschedule directories scheduled for gc"}, false},
		{Status{State: mesos.TASK_FAILED, Message: refusal.Message}, false},
	} {
		if got := LimitsRefused(test.status); got != test.want {
			t.Errorf("%s: %t", test.status, got)
		}
	}
}

// TestExecutorThatNeverStarted is not used although offers name it: the master believes that the agent has launched it.
func TestExecutorThatNeverStarted(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096"))
	b.mustClaim("a", needOf(1000, 512), "S1")
	first := b.Batch("S1", PoolKey{Role: role}, uids("a"), 10)
	b.Sent(first)
	b.Apply(Update{TaskID: first.Launches[0].Task.ID, AgentID: "S1", Status: refusal})
	b.add(b.offer("O2", "S1", "cpus:4;mem:4096", running(first.ExecutorID)))
	if !b.Retry("a") {
		t.Fatal("the launch is not tried again")
	}
	second := b.Batch("S1", PoolKey{Role: role}, uids("a"), 10)
	if second == nil || !second.NewExecutor || second.ExecutorID == first.ExecutorID {
		t.Fatalf("launched with %+v, want a new executor", second)
	}
	b.Sent(second)
	b.Apply(Update{TaskID: second.Launches[0].Task.ID, AgentID: "S1", ExecutorID: second.ExecutorID, Status: Status{State: mesos.TASK_STARTING}})
	b.add(b.offer("O3", "S1", "cpus:2;mem:2048", running(first.ExecutorID, second.ExecutorID)))
	b.mustClaim("b", needOf(1000, 512), "S1")
	if third := b.Batch("S1", PoolKey{Role: role}, uids("b"), 10); third == nil || third.NewExecutor || third.ExecutorID != second.ExecutorID {
		t.Errorf("launched with %+v, want executor %s", third, second.ExecutorID)
	}
}

// TestRunningExecutorSurvivesRefusal: a refused task says nothing of an executor that runs.
func TestRunningExecutorSurvivesRefusal(t *testing.T) {
	b := newBook(t)
	id := b.executorID("S1")
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096", running(id)))
	b.mustClaim("a", needOf(1000, 512), "S1")
	first := b.Batch("S1", PoolKey{Role: role}, uids("a"), 10)
	b.Sent(first)
	b.Apply(Update{TaskID: first.Launches[0].Task.ID, AgentID: "S1", Status: refusal})
	b.add(b.offer("O2", "S1", "cpus:4;mem:4096", running(id)))
	b.Retry("a")
	if second := b.Batch("S1", PoolKey{Role: role}, uids("a"), 10); second == nil || second.ExecutorID != id {
		t.Errorf("launched with %+v, want executor %s", second, id)
	}
}
