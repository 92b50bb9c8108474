// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// preemptionOn switches DefaultPreemption on, which the shipped profile leaves off.
func preemptionOn(config map[string]any) {
	profile := config["profiles"].([]any)[0].(map[string]any)
	delete(profile["plugins"].(map[string]any), "postFilter")
}

// priorities makes two priority classes of the test and returns edits that give a pod one of them.
func (w *world) priorities() (high, low func(*corev1.Pod)) {
	w.Helper()
	class := func(name string, value int32) func(*corev1.Pod) {
		name = w.namespace + "-" + name
		_, err := shared.Client.SchedulingV1().PriorityClasses().Create(w.ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{})
		w.ok(err)
		return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
	}
	return class("high", 1000), class("low", 1)
}

// TestC54_RoomIsKept gives the room of a victim to the pod that it was evicted for, not to one of low priority that
// waits for it, too.
func TestC54_RoomIsKept(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, resources: "cpus:4;mem:8192;disk:2000", edit: preemptionOn})
	high, low := w.priorities()
	w.pod("victim", "3500m", "64Mi", low)
	w.waitRunning("victim")
	w.pod("next", "3500m", "64Mi", low)
	w.waitReason("next", "Insufficient cpus")
	w.pod("important", "2", "64Mi", high)
	w.waitRunning("important")
	if pod, err := w.get("next"); err != nil || pod.Spec.NodeName != "" {
		t.Errorf("the pod of low priority is on node %q (%v)", pod.Spec.NodeName, err)
	}
	w.settle()
}

// TestC54_RoomGoesToOthers evicts nobody else when another framework gets the room of a victim.
func TestC54_RoomGoesToOthers(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, resources: "cpus:8;mem:8192;disk:2000", edit: preemptionOn})
	high, low := w.priorities()
	for i := range 2 {
		w.pod(fmt.Sprintf("low-%d", i), "3900m", "64Mi", low)
		w.waitRunning(fmt.Sprintf("low-%d", i))
	}
	rival, err := w.sim.StartRival(w.ctx, mesossim.RivalOptions{Role: "rival", CPUs: 3.5, MaxTasks: 1})
	w.ok(err)
	t.Cleanup(rival.Stop)
	w.pod("important", "3", "64Mi", high)
	w.waitFor("the rival to have the room", func() error {
		if n := rival.Live(); n != 1 {
			return fmt.Errorf("it has %d tasks", n)
		}
		return nil
	})
	w.waitEvent("PreemptionInVain", "round 1 of 3")
	w.waitFor("the nomination to be given up", func() error {
		pod, err := w.get("important")
		if err == nil && pod.Status.NominatedNodeName != "" {
			err = fmt.Errorf("nominated for %s", pod.Status.NominatedNodeName)
		}
		return err
	})
	pods, err := shared.Client.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	w.ok(err)
	left := 0
	for i := range pods.Items {
		if contains(pods.Items[i].Name, "low-") && pods.Items[i].DeletionTimestamp == nil {
			left++
		}
	}
	if left != 1 {
		t.Errorf("%d pods of low priority are left, want 1", left)
	}
	rival.Stop()
	w.waitRunning("important")
	w.settle()
}

// TestC54_ThreeRounds gives the room of every victim to another framework: after three rounds nobody else is evicted,
// although there are pods of low priority left.
func TestC54_ThreeRounds(t *testing.T) {
	const agents = 5
	w := newWorld(t, worldOptions{agents: agents, resources: "cpus:4;mem:8192;disk:2000", edit: preemptionOn})
	high, low := w.priorities()
	for i := range agents {
		w.pod(fmt.Sprintf("low-%d", i), "3900m", "64Mi", low)
	}
	for i := range agents {
		w.waitRunning(fmt.Sprintf("low-%d", i))
	}
	rival, err := w.sim.StartRival(w.ctx, mesossim.RivalOptions{Role: "rival", CPUs: 3.5, MaxTasks: agents})
	w.ok(err)
	t.Cleanup(rival.Stop)
	w.pod("important", "3", "64Mi", high)
	left := func() (n int) {
		pods, err := shared.Client.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
		w.ok(err)
		for i := range pods.Items {
			if contains(pods.Items[i].Name, "low-") && pods.Items[i].DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}
	for round := 1; round <= 3; round++ {
		w.waitFor(fmt.Sprintf("the rival to have the room of victim %d", round), func() error {
			if n := rival.Live(); n != round {
				if pod, err := w.get("important"); err == nil && pod.Spec.NodeName != "" {
					t.Skipf("in round %d the master gave the room to us, as it may", round)
				}
				return fmt.Errorf("it has %d tasks", n)
			}
			return nil
		})
		if n := left(); n != agents-round {
			t.Fatalf("%d pods of low priority are left in round %d, want %d", n, round, agents-round)
		}
		if round < 3 {
			w.waitEvent("PreemptionInVain", fmt.Sprintf("round %d of 3", round))
		}
	}
	w.waitEvent("PreemptionInVain", "for 30m")
	// The attempt that gives its nomination up evicts nobody.
	w.waitFor("the nomination to be given up", func() error {
		pod, err := w.get("important")
		if err == nil && pod.Status.NominatedNodeName != "" {
			err = fmt.Errorf("nominated for %s", pod.Status.NominatedNodeName)
		}
		return err
	})
	if n := left(); n != agents-3 {
		t.Errorf("%d pods of low priority are left, want %d", n, agents-3)
	}
	rival.Stop()
	w.waitRunning("important")
	w.settle()
}
