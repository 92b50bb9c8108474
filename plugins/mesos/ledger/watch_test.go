// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

func TestWatch(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096"))
	b.mustClaim("p", needOf(1000, 1024), "S1")
	wake := make(chan struct{}, 1)
	signals := func(want int, when string) {
		t.Helper()
		if got := len(wake); got != want {
			t.Fatalf("%s: %d signals, want %d", when, got, want)
		}
		for range want {
			<-wake
		}
	}
	if _, ok := b.Watch("q", wake); ok {
		t.Error("there is a record of a pod that nobody knows")
	}
	if task, ok := b.Watch("p", wake); !ok || task.State != Claimed {
		t.Fatalf("Watch = %+v, %v", task, ok)
	}
	b.Sent(b.mustBatch("S1", "p"))
	signals(0, "a claim that begins to be launched")
	b.says(b.task("p").ID, "S1", mesos.TASK_STARTING)
	signals(1, "the task starts")
	b.says(b.task("p").ID, "S1", mesos.TASK_RUNNING)
	signals(0, "nobody watches any more")
	b.Watch("p", wake)
	b.Kill("p")
	signals(0, "a task that lives is not watched")

	b.mustClaim("q", needOf(1000, 1024), "S1")
	other := make(chan struct{}, 1)
	b.Watch("q", other)
	b.Watch("q", wake)
	wake <- struct{}{} // of a change before
	b.PodGone("q")
	signals(1, "a signal that was not taken yet stands for two")
	if len(other) > 0 {
		t.Error("the watcher before is told, too")
	}
}
