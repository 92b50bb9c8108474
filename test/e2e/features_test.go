// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// TestHostPorts gives pods the host ports that they ask for by number and by name, each port once.
func TestHostPorts(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, resources: "cpus:4;mem:8192;disk:2000;ports:[31000-31002]"})
	w.pod("fixed", "100m", "64Mi", func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 31001, Protocol: corev1.ProtocolTCP}}
	})
	w.waitRunning("fixed")
	w.pod("any", "100m", "64Mi", func(p *corev1.Pod) {
		p.Spec.HostNetwork = true
		p.Annotations = map[string]string{wellknown.HostPortsAnnotation: "http,admin"}
	})
	pod := w.waitRunning("any")
	got := map[string]bool{}
	for i := range 2 {
		got[pod.Annotations[wellknown.HostPortAnnotationPrefix+strconv.Itoa(i)]] = true
	}
	if !got["31000"] || !got["31002"] {
		t.Errorf("the pod was given ports %v, want 31000 and 31002", got)
	}
	task := w.waitTask(pod.Annotations[wellknown.TaskIDAnnotation], "TASK_RUNNING")
	if s := fmt.Sprint(task.Resources.Ports); s != "[{31000 31000} {31002 31002}]" {
		t.Errorf("the task holds ports %s", s)
	}
	w.pod("late", "100m", "64Mi", func(p *corev1.Pod) {
		p.Spec.HostNetwork = true
		p.Annotations = map[string]string{wellknown.HostPortsAnnotation: "http"}
	})
	w.waitReason("late", "host port not in the offered ranges")
	w.remove("any")
	w.waitRunning("late")
	w.settle()
}

// waitReason waits until a waiting pod's condition names a reason.
func (w *world) waitReason(name, reason string) {
	w.Helper()
	w.waitFor("pod "+name+" told "+reason, func() error {
		pod, err := w.get(name)
		if err != nil {
			return err
		}
		if got := conditions(pod); !contains(got, reason) {
			return fmt.Errorf("it is told %q", got)
		}
		return nil
	})
}

// TestGang runs a PodGroup of 8 on 3 agents: none is bound before all have tasks, and a second group that does not fit
// waits without holding anything.
func TestGang(t *testing.T) {
	w := newGangWorld(t, worldOptions{agents: 3, resources: "cpus:4;mem:8192;disk:2000"})
	w.gang("first", 8, "1")
	var bound, started []int64
	for i := range 8 {
		pod := w.waitRunning(fmt.Sprintf("first-%d", i))
		task, ok := w.sim.Task(pod.Annotations[wellknown.TaskIDAnnotation])
		if !ok {
			t.Fatalf("the master does not know task %s", pod.Annotations[wellknown.TaskIDAnnotation])
		}
		started = append(started, task.History[0].At.UnixNano())
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				bound = append(bound, c.LastTransitionTime.UnixNano()+1e9) // the API server's times are whole seconds
			}
		}
	}
	for _, s := range started {
		for _, b := range bound {
			if s > b {
				t.Errorf("a member was bound %d ms before another's task began", (s-b)/1e6)
			}
		}
	}
	w.gang("second", 8, "1")
	w.waitFor("the second gang to be tried", func() error {
		pod, err := w.get("second-0")
		if err != nil {
			return err
		}
		if conditions(pod) == "" {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	if n := w.sim.CountLive(); n != 8 {
		t.Errorf("%d tasks live while the second gang waits, want the 8 of the first", n)
	}
	for i := range 8 {
		w.remove(fmt.Sprintf("first-%d", i))
	}
	for i := range 8 {
		w.waitRunning(fmt.Sprintf("second-%d", i))
	}
	w.settle()
}

// TestC53_Preemption turns DefaultPreemption on: a victim of ours makes room in Mesos, and the preemptor gets it.
func TestC53_Preemption(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, resources: "cpus:4;mem:8192;disk:2000", edit: func(config map[string]any) {
		profile := config["profiles"].([]any)[0].(map[string]any)
		delete(profile["plugins"].(map[string]any), "postFilter") // DefaultPreemption is on by default
	}})
	for name, value := range map[string]int32{"high": 1000, "low": 1} {
		_, err := shared.Client.SchedulingV1().PriorityClasses().Create(w.ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name}, Value: value}, metav1.CreateOptions{})
		w.ok(err)
	}
	priority := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.PriorityClassName = w.namespace + "-" + name }
	}
	w.pod("small", "500m", "64Mi", priority("low"))
	w.waitRunning("small")
	w.pod("victim", "3", "64Mi", priority("low"))
	w.waitRunning("victim")
	w.pod("important", "2", "64Mi", priority("high"))
	w.waitRunning("important")
	if _, err := w.get("victim"); err == nil {
		t.Error("the victim is still there")
	}
	if pod, err := w.get("small"); err != nil || pod.DeletionTimestamp != nil {
		t.Error("a pod was evicted whose room was not needed")
	}
	w.settle()
}

// TestAttributes shows agents' attributes on their nodes, and that a node selector for one works.
func TestAttributes(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 2, sim: func(o *mesossim.Options) {
		o.Agents[0].Attributes = "rack:r1"
		o.Agents[1].Attributes = "rack:r2"
	}})
	w.pod("picky", "100m", "64Mi", func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{wellknown.AttributeLabelPrefix + "rack": "r2"}
	})
	if pod := w.waitRunning("picky"); pod.Spec.NodeName != w.nodes[1] {
		t.Errorf("bound to %s, want %s", pod.Spec.NodeName, w.nodes[1])
	}
}

// TestRoles lets a namespace use only the roles that select it.
func TestRoles(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, resources: "cpus(batch):1;cpus:2;mem:4096;disk:2000", mesos: map[string]any{"roles": []any{
		map[string]any{"name": "kubernetes"},
		map[string]any{"name": "batch", "namespaceSelector": map[string]any{"matchLabels": map[string]any{"batch": "yes"}}},
	}}})
	asked := func(p *corev1.Pod) { p.Annotations = map[string]string{wellknown.RoleAnnotation: "batch"} }
	w.pod("stranger", "100m", "64Mi", asked)
	w.waitReason("stranger", "may use kubernetes")
	ns, err := shared.Client.CoreV1().Namespaces().Get(w.ctx, w.namespace, metav1.GetOptions{})
	w.ok(err)
	ns.Labels["batch"] = "yes"
	_, err = shared.Client.CoreV1().Namespaces().Update(w.ctx, ns, metav1.UpdateOptions{})
	w.ok(err)
	w.pod("member", "500m", "64Mi", asked)
	pod := w.waitRunning("member")
	task := w.waitTask(pod.Annotations[wellknown.TaskIDAnnotation], "TASK_RUNNING")
	reserved := false
	for _, r := range task.Resources.Raw {
		if r.Name == "cpus" && len(r.Reservations) == 1 && r.AllocationInfo.GetRole() == "batch" {
			reserved = true
		}
	}
	if !reserved {
		t.Errorf("the task does not hold the role's reserved cpus: %v", task.Resources.Raw)
	}
	w.settle()
}

// TestEviction evicts a pod: its task ends with it.
func TestEviction(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1})
	w.pod("one", "100m", "64Mi")
	pod := w.waitRunning("one")
	w.ok(shared.Client.PolicyV1().Evictions(w.namespace).Evict(w.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: w.namespace}}))
	w.waitTask(pod.Annotations[wellknown.TaskIDAnnotation], "TASK_KILLED")
	w.settle()
}
