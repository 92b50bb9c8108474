// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// TestTaskOfAnEarlierLeader: the leader before has held a bound pod anew, on another agent of its node, and died before the
// pod's record said so. The record names a task that is lost. A second launch would give the pod two tasks.
func TestTaskOfAnEarlierLeader(t *testing.T) {
	restored := func(t *testing.T) *book {
		b := newBook(t)
		b.Restore(Task{Pod: ledgerPod("p"), Need: needOf(1000, 1024), AgentID: "S1", Node: "n", ID: "p.1"})
		return b
	}
	lose := func(b *book) Effect {
		return b.because("p.1", "S1", mesos.TASK_LOST, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION).Effect
	}
	find := func(b *book) Effect { return b.says("p.2", "S2", mesos.TASK_RUNNING).Effect }
	offer := func(b *book, node string) { b.add(b.offer("O2", "S2", "cpus:4;mem:4096", onNode(node))) }
	held := func(b *book) {
		b.t.Helper()
		if got := b.task("p"); got.ID != "p.2" || got.AgentID != "S2" || got.State != Running {
			b.t.Errorf("%s on %s is %s", got.ID, got.AgentID, got.State)
		}
		if len(b.Strangers()) != 0 {
			b.t.Errorf("%v", b.Strangers())
		}
		b.audit()
	}

	t.Run("the loss is heard of last", func(t *testing.T) {
		b := restored(t)
		offer(b, "n")
		if got := find(b); got != Strange {
			t.Errorf("%v: the pod's record names another task, which may live", got)
		}
		if got := lose(b); got != Adopted {
			t.Errorf("%v", got)
		}
		held(b)
	})
	t.Run("the task is heard of last", func(t *testing.T) {
		b := restored(t)
		offer(b, "n")
		if got := lose(b); got != Lost {
			t.Errorf("%v", got)
		}
		if got := find(b); got != Adopted {
			t.Errorf("%v", got)
		}
		held(b)
	})
	t.Run("the offer comes last", func(t *testing.T) {
		b := restored(t)
		find(b)
		lose(b)
		if _, ok := b.Reclaim("p"); ok {
			t.Error("held anew while a live task of it may be on its node")
		}
		if got := b.Recognized(); len(got) != 0 {
			t.Errorf("%v", got)
		}
		if got := b.Parted(); got[role].IsZero() {
			t.Error("nobody asks for the offer that tells")
		}
		offer(b, "n")
		if got := b.Recognized(); len(got) != 1 || got[0].Effect != Adopted || got[0].Task.UID != "p" {
			t.Errorf("%v", got)
		}
		held(b)
	})
	t.Run("it is on another node", func(t *testing.T) {
		b := restored(t)
		find(b)
		lose(b)
		offer(b, "m")
		if got := b.Recognized(); len(got) != 0 {
			t.Errorf("%v", got)
		}
		if all := b.Strangers(); len(all) != 1 || !b.Second(all[0]) {
			t.Errorf("%v is to be killed", all)
		}
		if _, ok := b.Reclaim("p"); !ok {
			t.Error("the pod is to be held anew where it runs")
		}
		b.audit()
	})
	t.Run("it is to be killed", func(t *testing.T) {
		b := restored(t)
		find(b)
		b.KillStranger("p.2")
		lose(b)
		offer(b, "n")
		if got := b.Recognized(); len(got) != 0 {
			t.Errorf("%v", got)
		}
		if _, ok := b.Reclaim("p"); !ok {
			t.Error("nothing else may hold the pod")
		}
		b.clock.Step(time.Second)
		b.audit()
	})
}
