// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// A leader that was stopped while it held a pod anew may find on its return that another one has done so meanwhile.
func TestReholdWaitsForReconciliation(t *testing.T) {
	begin := func(t *testing.T) *book {
		b := newBook(t)
		b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
		task := b.run("p", needOf(1000, 1024), "S1")
		b.because(task.ID, "S1", mesos.TASK_FAILED, mesos.SOURCE_AGENT, mesos.REASON_EXECUTOR_TERMINATED)
		if _, ok := b.Reclaim("p"); !ok {
			t.Fatal("the pod is held anew")
		}
		b.SetConnected(false)
		b.Resubscribed()
		b.Reconciling(true)
		b.SetConnected(true)
		b.add(b.offer("O2", "S1", "cpus:4;mem:8192"))
		if got := b.Batch("S1", poolOf(needOf(1000, 1024)), uids("p"), 10); got != nil {
			t.Fatalf("launched before it is known which tasks live: %+v", got.Launches)
		}
		return b
	}
	t.Run("another leader has launched a task", func(t *testing.T) {
		b := begin(t)
		if c := b.says("p.zz", "S1", mesos.TASK_RUNNING); c.Effect != Adopted {
			t.Errorf("%v", c.Effect)
		}
		b.Reconciling(false)
		if got := b.task("p"); got.State != Running || got.ID != "p.zz" {
			t.Errorf("%s %s", got.State, got.ID)
		}
		if got := b.Batch("S1", poolOf(needOf(1000, 1024)), uids("p"), 10); got != nil {
			t.Error("launched a second task")
		}
		b.audit()
	})
	t.Run("nobody has", func(t *testing.T) {
		b := begin(t)
		b.Reconciling(false)
		b.mustBatch("S1", "p")
		b.audit()
	})
}
