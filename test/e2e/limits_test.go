// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

func withLimits(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
}

// TestTaskLimitsAccepted tells Mesos the limits of pods. Agents with the isolators take them: the tasks run with the pods'
// limits beside their requests, and a pod without limits has none.
func TestTaskLimitsAccepted(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, mesos: map[string]any{"taskLimits": "FromPod"}, sim: func(o *mesossim.Options) {
		o.Agents[0].Isolation = []string{"cgroups/cpu", "cgroups/mem"}
	}})
	w.pod("limited", "100m", "64Mi", withLimits)
	w.pod("plain", "100m", "64Mi")
	limited, plain := w.waitRunning("limited"), w.waitRunning("plain")
	task := w.waitTask(limited.Annotations[wellknown.TaskIDAnnotation], "TASK_RUNNING")
	if task.Limits["cpus"] != 1.5 || task.Limits["mem"] != 1024 || len(task.Limits) != 2 {
		t.Errorf("the task's limits are %v", task.Limits)
	}
	if task.Resources.CPUs != 0.1 || task.Resources.Mem != 64 {
		t.Errorf("the task holds %+v", task.Resources)
	}
	if task := w.waitTask(plain.Annotations[wellknown.TaskIDAnnotation], "TASK_RUNNING"); len(task.Limits) != 0 {
		t.Errorf("the limits of a pod without are %v", task.Limits)
	}
	for _, task := range w.sim.Tasks() {
		if task.State.String() == "TASK_DROPPED" {
			t.Errorf("task %s was refused", task.ID)
		}
	}
	w.settle()
}

// TestTaskLimits tells Mesos the limits of pods. The simulated agents enforce none, as real ones without the isolators, and
// refuse such tasks: the pods run all the same, are told once, and no further task is refused.
func TestTaskLimits(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, mesos: map[string]any{"taskLimits": "FromPod"}})
	w.pod("one", "100m", "64Mi", withLimits)
	w.waitRunning("one")
	w.waitEvent("MesosTaskLimitsRefused", "cgroups/cpu")
	w.pod("two", "100m", "64Mi", withLimits)
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
