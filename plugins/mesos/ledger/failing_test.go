// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

func TestLaunchFailed(t *testing.T) {
	for _, c := range []struct {
		status Status
		want   bool
	}{
		{Status{State: mesos.TASK_FAILED, Source: mesos.SOURCE_AGENT, Reason: mesos.REASON_EXECUTOR_TERMINATED, HasWhy: true}, true},
		{Status{State: mesos.TASK_FAILED, Source: mesos.SOURCE_AGENT, Reason: mesos.REASON_CONTAINER_LAUNCH_FAILED, HasWhy: true}, true},
		{Status{State: mesos.TASK_DROPPED, Source: mesos.SOURCE_AGENT, Reason: mesos.REASON_AGENT_DRAINING, HasWhy: true}, true},
		{Status{State: mesos.TASK_LOST, Source: mesos.SOURCE_AGENT}, true},
		{Status{State: mesos.TASK_DROPPED, Source: mesos.SOURCE_AGENT, Reason: mesos.REASON_GC_ERROR, HasWhy: true}, true},
		// The master's own.
		{Status{State: mesos.TASK_DROPPED, Source: mesos.SOURCE_MASTER, Reason: mesos.REASON_INVALID_OFFERS, HasWhy: true}, false},
		{Status{State: mesos.TASK_ERROR, Source: mesos.SOURCE_MASTER, Reason: mesos.REASON_TASK_INVALID, HasWhy: true}, false},
		{Status{State: mesos.TASK_GONE, Source: mesos.SOURCE_MASTER, Reason: mesos.REASON_RECONCILIATION, HasWhy: true}, false},
		// The pod's own, and a KILL's.
		{Status{State: mesos.TASK_FAILED, Source: mesos.SOURCE_EXECUTOR}, false},
		{Status{State: mesos.TASK_KILLED, Source: mesos.SOURCE_AGENT, Reason: mesos.REASON_TASK_KILLED_DURING_LAUNCH, HasWhy: true}, false},
	} {
		if got := launchFailed(c.status); got != c.want {
			t.Errorf("%v from %v: %v", c.status, c.status.Source, got)
		}
	}
}

// A host that fails every launch, and goes on offering, does not get pod after pod.
func TestFailingAgentIsLeftAlone(t *testing.T) {
	b := newBook(t)
	need := needOf(1000, 1024)
	n := 0
	offer := func() {
		n++
		b.Rescind(fmt.Sprint("O", n-1))
		b.add(b.offer(fmt.Sprint("O", n), "S1", "cpus:8;mem:8192"))
	}
	fail := func(state mesos.TaskState, reason mesos.TaskStatus_Reason) {
		t.Helper()
		uid := fmt.Sprint("p", n)
		b.mustClaim(uid, need, "S1")
		batch := b.mustBatch("S1", uid)
		b.Sent(batch)
		b.because(batch.Launches[0].Task.ID, "S1", state, mesos.SOURCE_AGENT, reason)
		b.Release(types.UID(uid))
	}
	reason := func() Reason { return b.fit("S1", need) }
	for _, c := range []struct {
		state  mesos.TaskState
		reason mesos.TaskStatus_Reason
		pause  time.Duration
	}{
		{mesos.TASK_DROPPED, mesos.REASON_AGENT_DRAINING, time.Second},
		{mesos.TASK_FAILED, mesos.REASON_EXECUTOR_TERMINATED, 2 * time.Second},
		{mesos.TASK_DROPPED, mesos.REASON_EXECUTOR_TERMINATED, 4 * time.Second},
	} {
		offer()
		if got := reason(); got != Fits {
			t.Fatalf("before the failure: %s", got)
		}
		fail(c.state, c.reason)
		offer() // it goes on offering
		if got := reason(); got != ReasonFailing {
			t.Errorf("after %s: %q", c.state, got)
		}
		before := b.Snapshot().Version
		b.clock.Step(c.pause - time.Millisecond)
		b.Expire()
		if got := reason(); got != ReasonFailing {
			t.Errorf("%v after %s: %q", c.pause-time.Millisecond, c.state, got)
		}
		b.clock.Step(time.Millisecond)
		b.Expire()
		if got := reason(); got != Fits || b.Snapshot().Version == before {
			t.Errorf("%v after %s: %q, and who waits is not woken", c.pause, c.state, got)
		}
	}
	// One that succeeds makes up for all.
	offer()
	b.launch("good", need, "S1")
	b.says(b.task("good").ID, "S1", mesos.TASK_STARTING)
	offer()
	fail(mesos.TASK_DROPPED, mesos.REASON_AGENT_RESTARTED)
	b.clock.Step(time.Second)
	b.Expire()
	offer()
	if got := reason(); got != Fits {
		t.Errorf("a second after the first failure: %q", got)
	}
	// The pause has an end, however often launches fail.
	for range 20 {
		offer()
		fail(mesos.TASK_FAILED, mesos.REASON_EXECUTOR_TERMINATED)
		b.clock.Step(failingAtMost)
		b.Expire()
	}
	offer()
	if got := reason(); got != Fits {
		t.Errorf("%v after the last of many failures: %q", failingAtMost, got)
	}
}
