// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// TestJourney follows one pod from its creation to its end.
func TestJourney(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.pod("one", "500m", "128Mi")
	pod := w.waitRunning("one")
	id := pod.Annotations[wellknown.TaskIDAnnotation]
	task := w.waitTask(id, "TASK_RUNNING")
	if task.Agent != pod.Spec.NodeName || task.Resources.CPUs != 0.5 || task.Resources.Mem != 128 {
		t.Errorf("the task holds %+v on agent %s; the pod asks for 0.5 cpus and 128 MiB on node %s", task.Resources, task.Agent, pod.Spec.NodeName)
	}
	if got := pod.Annotations[wellknown.ResourcesAnnotation]; got != "cpus:0.5;mem:128" {
		t.Errorf("resources on record: %q", got)
	}
	w.settle()
	w.remove("one")
	w.waitTask(id, "TASK_KILLED")
	w.settle()
}
