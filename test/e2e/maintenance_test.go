// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesosalloc "github.com/mesos/mesos-go/api/v1/lib/allocator"
	mesosmaint "github.com/mesos/mesos-go/api/v1/lib/maintenance"
	mesosmaster "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/master/calls"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// operate makes a call of the master's operator API.
func (w *world) operate(call *mesosmaster.Call) *mesosmaster.Response {
	w.Helper()
	body, err := call.Marshal()
	w.ok(err)
	request, err := http.NewRequestWithContext(w.ctx, http.MethodPost, "http://"+w.sim.URL()+"/api/v1", bytes.NewReader(body))
	w.ok(err)
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Accept", "application/x-protobuf")
	response, err := http.DefaultClient.Do(request)
	w.ok(err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	w.ok(err)
	if response.StatusCode/100 != 2 {
		w.Fatalf("%s: %s: %s", call.Type, response.Status, answer)
	}
	out := &mesosmaster.Response{}
	if len(answer) > 0 {
		w.ok(out.Unmarshal(answer))
	}
	return out
}

// agentID returns the id of the agent of a node.
func (w *world) agentID(node string) mesos.AgentID {
	w.Helper()
	for _, a := range w.sim.Agents() {
		if a.Hostname == node {
			return mesos.AgentID{Value: a.ID}
		}
	}
	w.Fatalf("no agent of node %s", node)
	return mesos.AgentID{}
}

// schedule announces a maintenance window of a node; a length of 0 takes all announcements back.
func (w *world) schedule(node string, after, length time.Duration) {
	w.Helper()
	var s mesosmaint.Schedule
	if length > 0 {
		s.Windows = []mesosmaint.Window{{MachineIDs: []mesos.MachineID{{Hostname: &node}}, Unavailability: mesos.Unavailability{
			Start: mesos.TimeInfo{Nanoseconds: time.Now().Add(after).UnixNano()}, Duration: &mesos.DurationInfo{Nanoseconds: length.Nanoseconds()},
		}}}
	}
	w.operate(calls.UpdateMaintenanceSchedule(s))
}

// waitInverse waits until the framework has answered an inverse offer.
func (w *world) waitInverse(want mesosalloc.InverseOfferStatus_Status) {
	w.Helper()
	w.waitFor("inverse offer answered "+want.String(), func() error {
		var got []string
		for _, m := range w.operate(calls.GetMaintenanceStatus()).GetGetMaintenanceStatus().GetStatus().DrainingMachines {
			for _, s := range m.Statuses {
				if s.GetStatus() == want {
					return nil
				}
				got = append(got, s.GetStatus().String())
			}
		}
		return fmt.Errorf("answers: %v", got)
	})
}

// waitTaint waits until a node has a taint, or has it no more.
func (w *world) waitTaint(node, key string, want bool) {
	w.Helper()
	w.waitFor(fmt.Sprintf("taint %s on %s: %t", key, node, want), func() error {
		n, err := shared.Client.CoreV1().Nodes().Get(w.ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		has := false
		for _, t := range n.Spec.Taints {
			has = has || t.Key == key
		}
		if has != want {
			return fmt.Errorf("taints %v", n.Spec.Taints)
		}
		return nil
	})
}

// waitEvent waits for an event about something in the test's namespace.
func (w *world) waitEvent(reason, part string) {
	w.Helper()
	w.waitFor("event "+reason+" with "+part, func() error { return w.hasEvent(reason, part) })
}

func (w *world) hasEvent(reason, part string) error {
	events, err := shared.Client.CoreV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err != nil {
		return err
	}
	for _, e := range events.Items {
		if contains(e.Message, part) {
			return nil
		}
	}
	return fmt.Errorf("%d events of that reason", len(events.Items))
}

// web makes a Deployment of one pod and returns the pod once it runs.
func (w *world) web() *corev1.Pod {
	w.Helper()
	labels := map[string]string{"app": "web"}
	_, err := shared.Client.AppsV1().Deployments(w.namespace).Create(w.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{SchedulerName: cluster.SchedulerName, Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/pause"}}},
		}},
	}, metav1.CreateOptions{})
	w.ok(err)
	return w.waitWeb("")
}

// waitWeb waits until the Deployment's pod runs anywhere but on a node.
func (w *world) waitWeb(not string) (pod *corev1.Pod) {
	w.Helper()
	w.waitFor("pod of Deployment web not on node "+not, func() error {
		pods, err := shared.Client.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		var seen []string
		for i := range pods.Items {
			pod = &pods.Items[i]
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil && pod.Spec.NodeName != not {
				return nil
			}
			seen = append(seen, fmt.Sprintf("%s %s on %q: %s", pod.Name, pod.Status.Phase, pod.Spec.NodeName, conditions(pod)))
		}
		return fmt.Errorf("%v", seen)
	})
	return pod
}

// on pins a pod to a node.
func on(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node} }
}

// TestMaintenanceDrain promises an agent that Mesos wants back: its pod is evicted as soon as its PodDisruptionBudget
// allows it, another agent takes it, and when the window is called off the agent is used again.
func TestMaintenanceDrain(t *testing.T) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Apply(t.Context(), filepath.Join(root, "manifests", "optional", "drain-rbac.yaml")); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, worldOptions{agents: 2, mesos: map[string]any{"inverseOffers": "Drain", "maintenanceLeadTime": "1m"}})
	one := intstr.FromInt32(1)
	_, err = shared.Client.PolicyV1().PodDisruptionBudgets(w.namespace).Create(w.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	w.ok(err)
	pod := w.web()
	node := pod.Spec.NodeName
	w.schedule(node, time.Hour, time.Hour)
	w.waitInverse(mesosalloc.InverseOfferStatus_ACCEPT)
	w.schedule(node, 50*time.Second, time.Hour)
	w.waitTaint(node, wellknown.MaintenanceTaint, true)
	w.waitEvent("MesosMaintenanceRefused", "disruption budget")
	if now, err := w.get(pod.Name); err != nil || now.DeletionTimestamp != nil {
		t.Fatalf("the pod was removed against its PodDisruptionBudget: %v", err)
	}
	w.ok(shared.Client.PolicyV1().PodDisruptionBudgets(w.namespace).Delete(w.ctx, "web", metav1.DeleteOptions{}))
	w.waitWeb(node)
	w.waitTask(pod.Annotations[wellknown.TaskIDAnnotation], "TASK_KILLED")
	w.settle()
	for _, task := range w.sim.LiveTasks() {
		if task.Agent == node {
			t.Errorf("task %s still lives on the agent in maintenance", task.ID)
		}
	}
	w.schedule(node, 0, 0)
	w.pod("back", "100m", "64Mi", on(node))
	w.waitRunning("back")
	w.waitTaint(node, wellknown.MaintenanceTaint, false)
	w.settle()
}

// TestMaintenanceDecline promises nothing by default: pods stay, and new ones keep away.
func TestMaintenanceDecline(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1})
	w.pod("one", "100m", "64Mi")
	pod := w.waitRunning("one")
	w.schedule(w.nodes[0], 5*time.Minute, time.Hour)
	w.waitInverse(mesosalloc.InverseOfferStatus_DECLINE)
	w.waitTaint(w.nodes[0], wellknown.MaintenanceTaint, true)
	w.pod("two", "100m", "64Mi")
	w.waitReason("two", "untolerated taint")
	w.waitTask(pod.Annotations[wellknown.TaskIDAnnotation], "TASK_RUNNING")
	w.schedule(w.nodes[0], 0, 0)
	w.waitRunning("two")
	w.settle()
}

// TestDrainAgent drains an agent by Mesos: its pods move, its node is tainted until it is back.
func TestDrainAgent(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 2})
	pod := w.web()
	node := pod.Spec.NodeName
	w.operate(calls.DrainAgent(w.agentID(node)))
	w.waitTaint(node, wellknown.DrainingTaint, true)
	w.waitTask(pod.Annotations[wellknown.TaskIDAnnotation], "TASK_KILLED")
	w.waitWeb(node)
	w.settle()
	w.waitFor("the agent to be drained", func() error {
		for _, a := range w.operate(calls.GetAgents()).GetGetAgents().GetAgents() {
			if a.AgentInfo.Hostname == node && a.DrainInfo.GetState() != mesos.DrainState_DRAINED {
				return fmt.Errorf("it is %s", a.DrainInfo.GetState())
			}
		}
		return nil
	})
	w.operate(calls.ReactivateAgent(w.agentID(node)))
	w.pod("back", "100m", "64Mi", on(node))
	w.waitRunning("back")
	w.waitTaint(node, wellknown.DrainingTaint, false)
	w.settle()
}

// TestDeactivateAgent takes an agent out of the offers: its pods stay, and new ones are told.
func TestDeactivateAgent(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1})
	w.pod("one", "100m", "64Mi")
	pod := w.waitRunning("one")
	w.operate(calls.DeactivateAgent(w.agentID(w.nodes[0])))
	w.pod("two", "100m", "64Mi")
	w.waitReason("two", "no offer from this Mesos agent")
	w.waitTask(pod.Annotations[wellknown.TaskIDAnnotation], "TASK_RUNNING")
	w.operate(calls.ReactivateAgent(w.agentID(w.nodes[0])))
	w.waitRunning("two")
	w.settle()
}

// TestCordonedNode declines what the agents of cordoned and missing nodes offer, and uses them again afterwards.
func TestCordonedNode(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, mesos: map[string]any{"idleAfter": "1m"}})
	node := w.nodes[0]
	w.cordon(node, true)
	w.pod("one", "100m", "64Mi")
	w.waitReason("one", "unschedulable")
	declined := func(what string) {
		w.Helper()
		calls := w.sim.Counters().Calls["DECLINE"]
		w.waitFor("offers of a node that is "+what+" declined", func() error {
			if n := w.sim.Counters().Calls["DECLINE"] - calls; n == 0 || len(w.sim.Offers()) > 0 {
				return fmt.Errorf("%d DECLINE calls, %d offers held", n, len(w.sim.Offers()))
			}
			return nil
		})
	}
	declined("cordoned")
	w.cordon(node, false)
	w.waitRunning("one")
	w.pod("big", "64", "64Mi")
	w.ok(shared.Client.CoreV1().Nodes().Delete(w.ctx, node, metav1.DeleteOptions{}))
	declined("deleted")
}

func (w *world) cordon(node string, on bool) {
	w.Helper()
	_, err := shared.Client.CoreV1().Nodes().Patch(w.ctx, node, "application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, on), metav1.PatchOptions{})
	w.ok(err)
}
