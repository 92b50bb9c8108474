// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// restartWith stops the scheduler and starts one with other args.
func (w *world) restartWith(args map[string]any) {
	w.Helper()
	w.ok(w.scheduler.Stop())
	next, err := shared.NewScheduler(w.ctx, cluster.SchedulerOptions{
		Masters: w.sim.URLs(), Mesos: args, Args: append([]string{"--v=4"}, w.options.args...), Binary: w.scheduler.Path, Name: w.namespace + "-next",
	})
	w.ok(err)
	w.scheduler = next
	w.ok(w.scheduler.Start())
}

// executors returns the ids of the executors that an agent knows.
func (w *world) executors() map[string]bool {
	out := map[string]bool{}
	for _, e := range w.sim.Executors() {
		out[e.ID] = true
	}
	return out
}

// TestC47_ChangedExecutor changes the description of the executor while a pod runs: that pod keeps its executor, the next
// one on the same agent gets a new one, and the old one ends when its last pod is gone.
func TestC47_ChangedExecutor(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1})
	w.pod("old", "100m", "64Mi")
	old := w.waitRunning("old")
	w.restartWith(map[string]any{"executor": map[string]any{"environment": []any{map[string]any{"name": "RELEASE", "value": "2"}}}})
	w.pod("new", "100m", "64Mi")
	pod := w.waitRunning("new")
	was, is := old.Annotations[wellknown.ExecutorIDAnnotation], pod.Annotations[wellknown.ExecutorIDAnnotation]
	if was == is || was == "" || is == "" {
		t.Fatalf("executors %q and %q, want two", was, is)
	}
	if now, err := w.get("old"); err != nil || now.Annotations[wellknown.TaskIDAnnotation] != old.Annotations[wellknown.TaskIDAnnotation] || now.DeletionTimestamp != nil {
		t.Errorf("the old pod was touched: %v", err)
	}
	w.waitTask(old.Annotations[wellknown.TaskIDAnnotation], "TASK_RUNNING")
	if both := w.executors(); !both[was] || !both[is] {
		t.Errorf("executors %v, want %s and %s", both, was, is)
	}
	w.settle()
	w.remove("old")
	w.waitTask(old.Annotations[wellknown.TaskIDAnnotation], "TASK_KILLED")
	w.waitAtMost(2*timeout, "the old executor to end", func() error {
		if left := w.executors(); left[was] || !left[is] {
			return fmt.Errorf("executors %v", left)
		}
		return nil
	})
	w.pod("third", "100m", "64Mi")
	if got := w.waitRunning("third").Annotations[wellknown.ExecutorIDAnnotation]; got != is {
		t.Errorf("the next pod has executor %s, want %s", got, is)
	}
	w.settle()
}
