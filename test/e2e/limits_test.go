// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// TestTaskLimits tells Mesos the limits of pods. The simulated agents enforce none, as real ones without the isolators, and
// refuse such tasks: the pods run all the same, are told once, and no further task is refused.
func TestTaskLimits(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, mesos: map[string]any{"taskLimits": "FromPod"}})
	limits := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	w.pod("one", "100m", "64Mi", limits)
	w.waitRunning("one")
	w.waitEvent("MesosTaskLimitsRefused", "cgroups/cpu")
	w.pod("two", "100m", "64Mi", limits)
	two := w.waitRunning("two")
	refused := 0
	for _, task := range w.sim.Tasks() {
		if task.State.String() == "TASK_DROPPED" {
			refused++
		}
	}
	if refused > 1 {
		t.Errorf("%d tasks were refused, want 1", refused)
	}
	if task := w.waitTask(two.Annotations[wellknown.TaskIDAnnotation], "TASK_RUNNING"); task.Resources.CPUs != 0.1 {
		t.Errorf("the task holds %+v", task.Resources)
	}
	w.settle()
}
