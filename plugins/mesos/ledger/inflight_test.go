// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Only what no pod tells of is in flight.
func TestInFlight(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
	wants := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, f := range b.InFlight() {
			if f.AgentID != "S1" || f.Node != "node-S1" {
				t.Errorf("%s: %+v", when, f)
			}
			got = append(got, f.TaskID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
		b.audit()
	}
	b.mustClaim("p", needOf(1000, 1024), "S1")
	wants("claimed")
	batch := b.mustBatch("S1", "p")
	id := batch.Launches[0].Task.ID
	wants("its ACCEPT is to be sent", id)
	b.Unclear(batch)
	wants("unclear", id)
	b.says(id, "S1", mesos.TASK_STARTING)
	wants("live", id)
	b.Bound("p", id)
	wants("bound")
	b.because(id, "S1", mesos.TASK_FAILED, mesos.SOURCE_AGENT, mesos.REASON_EXECUTOR_TERMINATED)
	if _, ok := b.Reclaim("p"); !ok {
		t.Fatal("the pod is held anew")
	}
	b.add(b.offer("O2", "S1", "cpus:4;mem:8192"))
	b.mustBatch("S1", "p")
	wants("held anew: the pod tells where")
	b.Unbound("p")
	wants("not bound after all", b.task("p").ID)
	b.says(b.task("p").ID, "S1", mesos.TASK_KILLED)
	wants("ended")
}

func TestRestoreLaunch(t *testing.T) {
	begin := func(t *testing.T) *book {
		b := newBook(t)
		b.SetConnected(false)
		b.RestoreLaunch(Task{Pod: Pod{UID: "p", Grace: time.Second}, Need: needOf(1000, 1024), AgentID: "S1", Node: "node-S1", ID: "p.1"})
		b.Resubscribed()
		b.SetConnected(true)
		if why, ok := b.Settled("p"); ok || why != "an earlier Mesos task of this pod may have been launched on node node-S1: waiting for the master's word" {
			t.Errorf("settled: %v, %q", ok, why)
		}
		if q := b.Unanswered(); len(q) != 1 || q[0] != (Query{"p.1", "S1"}) {
			t.Errorf("asks for %v", q)
		}
		if got := b.InFlight(); len(got) != 1 {
			t.Errorf("forgotten by the next record: %v", got)
		}
		return b
	}
	reconciled := func(b *book, state mesos.TaskState) Change {
		return b.because("p.1", "S1", state, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
	}
	t.Run("the agent never had it", func(t *testing.T) {
		b := begin(t)
		if c := reconciled(b, mesos.TASK_GONE); c.Effect != Freed {
			t.Errorf("%v", c.Effect)
		}
		if _, ok := b.Settled("p"); !ok {
			t.Error("the pod waits on")
		}
		b.audit()
	})
	t.Run("it lives", func(t *testing.T) {
		b := begin(t)
		reconciled(b, mesos.TASK_RUNNING)
		if d := b.Dooms(time.Hour, time.Second); len(d) != 1 || d[0].TaskID != "p.1" {
			t.Errorf("to be killed: %+v", d)
		}
		if c := b.says("p.1", "S1", mesos.TASK_KILLED); c.Effect != Freed {
			t.Errorf("%v", c.Effect)
		}
		b.audit()
	})
	t.Run("its agent is out of sight", func(t *testing.T) {
		b := begin(t)
		reconciled(b, mesos.TASK_UNREACHABLE)
		if why, ok := b.Settled("p"); ok || !strings.Contains(why, "may live on node node-S1, whose agent the master cannot reach") {
			t.Errorf("settled: %v, %q", ok, why)
		}
		b.add(b.offer("O1", "S2", "cpus:4;mem:8192"))
		if err := b.claim("p", needOf(1000, 1024), "S2"); err == nil {
			t.Error("claimed a second time")
		}
		reconciled(b, mesos.TASK_RUNNING)
		if d := b.Dooms(time.Hour, time.Second); len(d) != 1 {
			t.Errorf("to be killed when the agent is back: %+v", d)
		}
		b.audit()
	})
	t.Run("its Binding is stored late", func(t *testing.T) {
		b := begin(t)
		reconciled(b, mesos.TASK_RUNNING)
		if !b.Bound("p", "p.1") {
			t.Fatal("not taken")
		}
		if d := b.Dooms(time.Hour, time.Second); len(d) != 0 {
			t.Errorf("a bound pod's task is to be killed: %+v", d)
		}
		b.audit()
	})
	t.Run("its Binding is stored after the KILL", func(t *testing.T) {
		b := begin(t)
		reconciled(b, mesos.TASK_RUNNING)
		b.Dooms(time.Hour, time.Second)
		b.Bound("p", "p.1")
		if b.task("p").KillSince.IsZero() {
			t.Error("the task that is about to end passes for a healthy one")
		}
		b.audit()
	})
	t.Run("the pod has a record", func(t *testing.T) {
		b := newBook(t)
		b.Restore(Task{Pod: Pod{UID: "p"}, Need: needOf(1000, 1024), AgentID: "S1", Node: "node-S1", ID: "p.0"})
		b.RestoreLaunch(Task{Pod: Pod{UID: "p"}, Need: needOf(1000, 1024), AgentID: "S1", Node: "node-S1", ID: "p.1"})
		if got := b.task("p"); got.ID != "p.0" || !got.Bound {
			t.Errorf("%+v", got)
		}
		b.audit()
	})
}
