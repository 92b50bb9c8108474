// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// uidsAndTasks returns the pods of the test by UID with the task that each is bound with.
func (w *world) uidsAndTasks() map[string]string {
	w.Helper()
	pods, err := shared.Client.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	w.ok(err)
	out := map[string]string{}
	for _, p := range pods.Items {
		out[string(p.UID)] = p.Annotations[wellknown.TaskIDAnnotation]
	}
	return out
}

// same fails unless every pod is still there, runs, and is bound with the same live task.
func (w *world) same(before map[string]string) {
	w.Helper()
	after := w.uidsAndTasks()
	for uid, task := range before {
		if after[uid] != task {
			w.Errorf("pod %s was bound with task %s, now with %q", uid, task, after[uid])
		}
		if got, ok := w.sim.Task(task); !ok || !got.Live() {
			w.Errorf("task %s is no longer alive: %s", task, got.State)
		}
	}
	if len(after) != len(before) {
		w.Errorf("there are %d pods, there were %d", len(after), len(before))
	}
}

func (w *world) fill(n int) {
	w.Helper()
	for i := range n {
		w.pod(fmt.Sprintf("p%d", i), "100m", "64Mi")
	}
	for i := range n {
		w.waitRunning(fmt.Sprintf("p%d", i))
	}
	w.settle()
}

// TestC33_RestartKillsNothing kills the scheduler with SIGKILL and starts it again: the framework id is the same, and no
// pod or task is touched.
func TestC33_RestartKillsNothing(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.fill(15)
	before, framework := w.uidsAndTasks(), w.sim.Frameworks()[0].ID
	w.ok(w.scheduler.Kill())
	w.ok(w.scheduler.Start())
	w.pod("later", "100m", "64Mi")
	later := w.waitRunning("later")
	w.settle()
	if fs := w.sim.Frameworks(); len(fs) != 1 || fs[0].ID != framework {
		t.Errorf("frameworks after the restart: %+v, want only %s", fs, framework)
	}
	before[string(later.UID)] = later.Annotations[wellknown.TaskIDAnnotation]
	w.same(before)
	if n := w.sim.Counters().Calls["KILL"]; n != 0 {
		t.Errorf("%d KILLs were sent", n)
	}
}

// resubscribed waits for the nth SUBSCRIBE.
func (w *world) resubscribed(n int) {
	w.Helper()
	w.waitFor("another SUBSCRIBE", func() error {
		if got := w.sim.Counters().Calls["SUBSCRIBE"]; got < n {
			return fmt.Errorf("%d SUBSCRIBE calls", got)
		}
		return nil
	})
}

// TestMasterFailover changes the leading master: tasks stay, and the framework goes on with the same id.
func TestMasterFailover(t *testing.T) {
	w := newWorld(t, worldOptions{masters: 3, timing: mesossim.Timing{RegistrationBackoff: 200 * time.Millisecond}})
	w.fill(6)
	before := w.uidsAndTasks()
	w.ok(w.sim.FailOver(mesossim.FailOverOptions{}))
	w.resubscribed(2)
	w.pod("later", "100m", "64Mi")
	later := w.waitRunning("later")
	w.settle()
	before[string(later.UID)] = later.Annotations[wellknown.TaskIDAnnotation]
	w.same(before)
}

// TestStreamCut breaks the event stream: the scheduler subscribes again and loses nothing.
func TestStreamCut(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.fill(3)
	before := w.uidsAndTasks()
	w.sim.Faults().CutStream(w.sim.Frameworks()[0].ID, 0)
	w.resubscribed(2)
	w.pod("later", "100m", "64Mi")
	later := w.waitRunning("later")
	before[string(later.UID)] = later.Annotations[wellknown.TaskIDAnnotation]
	w.settle()
	w.same(before)
}

// TestTwoReplicas runs two schedulers: only the leader subscribes, and the standby takes over its framework.
func TestTwoReplicas(t *testing.T) {
	w := newWorld(t, worldOptions{})
	standby, err := shared.NewScheduler(w.ctx, cluster.SchedulerOptions{Masters: w.sim.URLs(), Args: []string{"--v=4"}, Name: w.namespace + "-standby"})
	w.ok(err)
	w.ok(standby.Start())
	t.Cleanup(func() { _ = standby.Stop() })
	w.fill(5)
	before := w.uidsAndTasks()
	if n := w.sim.Counters().Calls["SUBSCRIBE"]; n != 1 {
		t.Errorf("%d SUBSCRIBE calls with one leader, want 1", n)
	}
	w.ok(w.scheduler.Kill())
	w.pod("later", "100m", "64Mi")
	later := w.waitRunning("later")
	before[string(later.UID)] = later.Annotations[wellknown.TaskIDAnnotation]
	w.settle()
	w.same(before)
	if n := len(w.sim.Frameworks()); n != 1 {
		t.Errorf("%d frameworks, want 1", n)
	}
}

// TestExecutorBridgeKilled kills the bridge under its supervisor: nothing changes at the master.
func TestExecutorBridgeKilled(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1})
	w.fill(5)
	before := w.uidsAndTasks()
	killed := 0
	for _, e := range w.sim.Executors() {
		for _, child := range children(t, e.Pid) {
			killed++
			w.ok(kill9(child))
		}
	}
	if killed != 1 {
		t.Fatalf("killed %d bridges, want 1", killed)
	}
	w.pod("later", "100m", "64Mi")
	later := w.waitRunning("later")
	before[string(later.UID)] = later.Annotations[wellknown.TaskIDAnnotation]
	w.settle()
	w.same(before)
}

// TestExecutorKilled kills a whole executor: its pods run on, and each is held by a new task.
func TestExecutorKilled(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1})
	w.fill(5)
	before := w.uidsAndTasks()
	for _, e := range w.sim.Executors() {
		w.sim.Agent(w.nodes[0]).KillExecutor(e.ID)
	}
	w.waitFor("new tasks on record", func() error {
		for uid, task := range w.uidsAndTasks() {
			if task == before[uid] {
				return fmt.Errorf("pod %s still names task %s", uid, task)
			}
		}
		return nil
	})
	w.settle()
	after := w.uidsAndTasks()
	for uid := range before {
		if after[uid] == "" {
			t.Errorf("pod %s is gone", uid)
		}
	}
}

// TestReasons shows what a pod is told that fits no agent, and that it runs when one comes.
func TestReasons(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1})
	w.pod("big", "16", "128Mi")
	w.waitFor("reason in the condition", func() error {
		pod, err := w.get("big")
		if err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && contains(c.Message, "Insufficient cpus in Mesos offers") {
				return nil
			}
		}
		return fmt.Errorf("conditions: %s", conditions(pod))
	})
	w.waitFor("event with amounts", func() error {
		events, err := shared.Client.CoreV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{FieldSelector: "reason=WaitingForMesosOffers"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if contains(e.Message, "cpus:16") && contains(e.Message, w.nodes[0]) {
				return nil
			}
		}
		return fmt.Errorf("%d events", len(events.Items))
	})
	name := w.nodes[0] + "-big"
	w.nodes = append(w.nodes, name)
	w.ok(shared.AddKwokNodes(w.ctx, cluster.Node{Name: name, CPU: "64", Memory: "64Gi"}))
	_, err := w.sim.AddAgent(mesossim.AgentOptions{Name: name, Hostname: name, Resources: "cpus:32;mem:8192;disk:1000"})
	w.ok(err)
	if pod := w.waitRunning("big"); pod.Spec.NodeName != name {
		t.Errorf("bound to %s, want %s", pod.Spec.NodeName, name)
	}
}

// TestJobCompletes runs a pod to its end: its task ends FINISHED, and the room is free.
func TestJobCompletes(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1})
	w.pod("brief", "4", "128Mi", func(p *corev1.Pod) {
		p.Annotations = map[string]string{cluster.CompleteAfterAnnotation: "500ms"}
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
	})
	var task string
	w.waitFor("completion", func() error {
		pod, err := w.get("brief")
		if err != nil {
			return err
		}
		task = pod.Annotations[wellknown.TaskIDAnnotation]
		if pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("phase %s; %s", pod.Status.Phase, conditions(pod))
		}
		return nil
	})
	w.waitTask(task, "TASK_FINISHED")
	w.pod("next", "3", "128Mi")
	w.waitRunning("next")
	w.settle()
}

// TestHollowKubelets runs pods on real kubelet code.
func TestHollowKubelets(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 2, hollow: true, resources: "cpus:1;mem:2048;disk:2000;ports:[31000-32000]"})
	for i := range 4 {
		w.pod(fmt.Sprintf("h%d", i), "200m", "64Mi", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "registry.k8s.io/pause" })
	}
	var tasks []string
	for i := range 4 {
		tasks = append(tasks, w.waitRunning(fmt.Sprintf("h%d", i)).Annotations[wellknown.TaskIDAnnotation])
	}
	w.settle()
	for i := range 4 {
		w.remove(fmt.Sprintf("h%d", i))
	}
	for _, task := range tasks {
		w.waitTask(task, "TASK_KILLED")
	}
	w.settle()
}

// TestIdle shows that an idle framework holds nothing and suppresses offers, and that the next pod is quick all the same,
// without a failed attempt on record.
func TestIdle(t *testing.T) {
	w := newWorld(t, worldOptions{mesos: map[string]any{"idleAfter": "1s"}})
	w.waitFor("SUPPRESS", func() error {
		if w.sim.Counters().Calls["SUPPRESS"] == 0 || len(w.sim.Offers()) > 0 {
			return fmt.Errorf("%d SUPPRESS calls, %d offers held", w.sim.Counters().Calls["SUPPRESS"], len(w.sim.Offers()))
		}
		return nil
	})
	w.pod("one", "500m", "128Mi")
	w.waitRunning("one")
	events, err := shared.Client.CoreV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{FieldSelector: "reason=FailedScheduling"})
	w.ok(err)
	if len(events.Items) > 0 {
		t.Errorf("failed attempts on record: %s", events.Items[0].Message)
	}
}
