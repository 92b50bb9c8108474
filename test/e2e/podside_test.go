// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// annotated sets annotations that tell kwok how to play a pod.
func annotated(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		for i := 0; i < len(pairs); i += 2 {
			p.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func restarts(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
}

// waitBound waits until a pod is bound with a task, whose id it returns.
func (w *world) waitBound(name string) string {
	w.Helper()
	var task string
	w.waitFor("pod "+name+" bound", func() error {
		pod, err := w.get(name)
		if err != nil {
			return err
		}
		if task = pod.Annotations[wellknown.TaskIDAnnotation]; pod.Spec.NodeName == "" || task == "" {
			return fmt.Errorf("node %q, task %q; %s", pod.Spec.NodeName, task, conditions(pod))
		}
		return nil
	})
	return task
}

// waitGone waits until a pod of that UID is no longer there.
func (w *world) waitGone(pod *corev1.Pod) {
	w.Helper()
	w.waitFor("the end of pod "+pod.Name, func() error {
		now, err := w.get(pod.Name)
		if apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID {
			return nil
		}
		return fmt.Errorf("%v: still there", err)
	})
}

// tasksOf returns the tasks that were ever launched for a pod.
func (w *world) tasksOf(pod *corev1.Pod) []mesossim.Task {
	var out []mesossim.Task
	for _, task := range w.sim.Tasks() {
		if len(task.ID) > len(pod.UID) && task.ID[:len(pod.UID)] == string(pod.UID) {
			out = append(out, task)
		}
	}
	return out
}

// setStatus writes a pod's status as its kubelet would.
func (w *world) setStatus(name string, change func(*corev1.PodStatus)) {
	w.Helper()
	w.waitFor("status of "+name, func() error {
		pod, err := w.get(name)
		if err != nil {
			return err
		}
		change(&pod.Status)
		_, err = shared.Client.CoreV1().Pods(w.namespace).UpdateStatus(w.ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

// TestPodSide has pods do whatever pods do, at every step of their journey.
func TestPodSide(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 2})
	faults := w.sim.Faults()
	step := func(name string, f func(t *testing.T, w *world)) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			inner := *w
			inner.T = t
			f(t, &inner)
			inner.settle()
		})
	}

	step("deleted while it waits", func(t *testing.T, w *world) {
		pod := w.pod("waits", "32", "64Mi")
		w.waitFor("a failed attempt", func() error {
			now, err := w.get("waits")
			if err == nil && len(now.Status.Conditions) == 0 {
				err = fmt.Errorf("no condition yet")
			}
			return err
		})
		w.remove("waits")
		w.waitGone(pod)
		if tasks := w.tasksOf(pod); len(tasks) > 0 {
			t.Errorf("launched: %+v", tasks)
		}
	})

	step("deleted while its ACCEPT is on its way", func(t *testing.T, w *world) {
		before := w.sim.Counters().Calls["ACCEPT"]
		faults.Call(mesossim.CallFault{Call: "ACCEPT", Delay: 2 * time.Second})
		pod := w.pod("launching", "100m", "64Mi")
		w.waitFor("ACCEPT", func() error {
			if w.sim.Counters().Calls["ACCEPT"] == before {
				return fmt.Errorf("none has come")
			}
			return nil
		})
		w.remove("launching")
		w.waitGone(pod)
		w.waitFor("the end of its task", func() error {
			tasks := w.tasksOf(pod)
			if len(tasks) != 1 || tasks[0].Live() {
				return fmt.Errorf("%+v", tasks)
			}
			return nil
		})
	})

	step("deleted after its launch, before its Binding", func(t *testing.T, w *world) {
		faults.Update(mesossim.UpdateFault{Delay: 2 * time.Second, Match: func(_ string, s *mesos.TaskStatus) bool { return s.GetState() == mesos.TASK_STARTING }})
		pod := w.pod("unbound", "100m", "64Mi")
		w.waitFor("its task", func() error {
			if len(w.tasksOf(pod)) == 0 {
				return fmt.Errorf("none")
			}
			return nil
		})
		w.remove("unbound")
		w.waitGone(pod)
		w.waitFor("the end of its task", func() error {
			if tasks := w.tasksOf(pod); len(tasks) != 1 || tasks[0].Live() {
				return fmt.Errorf("%+v", tasks)
			}
			return nil
		})
	})

	for _, grace := range []int64{0, 1, 60} {
		step(fmt.Sprintf("deleted before it runs, grace %d s", grace), func(t *testing.T, w *world) {
			name := fmt.Sprintf("starting-%d", grace)
			pod := w.pod(name, "100m", "64Mi", annotated(cluster.ReadyAfterAnnotation, "never"), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &grace })
			task := w.waitBound(name)
			w.remove(name)
			w.waitGone(pod)
			w.waitTask(task, "TASK_KILLED")
		})
		step(fmt.Sprintf("deleted while it runs, grace %d s", grace), func(t *testing.T, w *world) {
			name := fmt.Sprintf("running-%d", grace)
			pod := w.pod(name, "100m", "64Mi", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &grace })
			task := w.waitRunning(name).Annotations[wellknown.TaskIDAnnotation]
			w.remove(name)
			w.waitGone(pod)
			w.waitTask(task, "TASK_KILLED")
		})
	}

	step("its containers take their time to stop", func(t *testing.T, w *world) {
		pod := w.pod("slow", "100m", "64Mi", annotated(cluster.StopAfterAnnotation, "4s"), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60) })
		id := w.waitRunning("slow").Annotations[wellknown.TaskIDAnnotation]
		w.remove("slow")
		w.waitGone(pod)
		w.waitTask(id, "TASK_KILLED")
	})

	step("recreated under its name", func(t *testing.T, w *world) {
		w.pod("again", "100m", "64Mi")
		old := w.waitRunning("again")
		w.ok(shared.Client.CoreV1().Pods(w.namespace).Delete(w.ctx, "again", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
		next := w.pod("again", "100m", "64Mi")
		if now := w.waitRunning("again"); now.UID != next.UID || now.Annotations[wellknown.TaskIDAnnotation] == old.Annotations[wellknown.TaskIDAnnotation] {
			t.Errorf("%s runs with the task of %s", now.UID, old.UID)
		}
		w.waitTask(old.Annotations[wellknown.TaskIDAnnotation], "TASK_KILLED")
	})

	step("complete at once", func(t *testing.T, w *world) {
		for name, code := range map[string]string{"done": "0", "failed": "3"} {
			w.pod(name, "100m", "64Mi", restarts(corev1.RestartPolicyNever), annotated(cluster.ReadyAfterAnnotation, "1ms", cluster.CompleteAfterAnnotation, "1ms", cluster.ExitCodeAnnotation, code))
		}
		w.waitTask(w.waitBound("done"), "TASK_FINISHED")
		w.waitTask(w.waitBound("failed"), "TASK_FAILED")
	})

	step("an init container fails for good", func(t *testing.T, w *world) {
		w.pod("init-never", "100m", "64Mi", restarts(corev1.RestartPolicyNever), annotated(cluster.ReadyAfterAnnotation, "never"), func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "registry.invalid/init"}}
		})
		task := w.waitBound("init-never")
		w.setStatus("init-never", func(s *corev1.PodStatus) {
			s.Phase = corev1.PodFailed
			s.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}}}
		})
		w.waitTask(task, "TASK_FAILED")
	})

	// What the kubelet will start again keeps its resources.
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure} {
		step("containers crash, restartPolicy "+string(policy), func(t *testing.T, w *world) {
			crashing := "crash-" + map[corev1.RestartPolicy]string{corev1.RestartPolicyAlways: "always", corev1.RestartPolicyOnFailure: "on-failure"}[policy]
			w.pod(crashing, "100m", "64Mi", restarts(policy))
			pod := w.waitRunning(crashing)
			w.waitTask(pod.Annotations[wellknown.TaskIDAnnotation], "TASK_RUNNING")
			waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
			w.setStatus(crashing, func(s *corev1.PodStatus) {
				for i := range s.ContainerStatuses {
					s.ContainerStatuses[i].State, s.ContainerStatuses[i].RestartCount, s.ContainerStatuses[i].Ready = waiting, 7, false
				}
			})
			initial := crashing + "-init"
			w.pod(initial, "100m", "64Mi", restarts(policy), annotated(cluster.ReadyAfterAnnotation, "never"), func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "registry.invalid/init"}}
			})
			task := w.waitBound(initial)
			w.setStatus(initial, func(s *corev1.PodStatus) {
				s.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", RestartCount: 7, State: waiting}}
			})
			// A pod that comes after both is served; by then whatever the crashes would have done is done.
			w.pod(crashing+"-after", "100m", "64Mi")
			w.waitRunning(crashing + "-after")
			for _, id := range []string{task, pod.Annotations[wellknown.TaskIDAnnotation]} {
				if now, ok := w.sim.Task(id); !ok || !now.Live() {
					t.Errorf("task %s: %+v", id, now)
				}
			}
		})
	}

	step("a finalizer keeps it", func(t *testing.T, w *world) {
		pod := w.pod("kept", "100m", "64Mi", func(p *corev1.Pod) { p.Finalizers = []string{"test.kube-mesos.io/keep"} })
		task := w.waitRunning("kept").Annotations[wellknown.TaskIDAnnotation]
		w.remove("kept")
		w.waitTask(task, "TASK_KILLED") // its containers have stopped
		now, err := w.get("kept")
		w.ok(err)
		if now.UID != pod.UID || now.DeletionTimestamp == nil {
			t.Errorf("%+v", now.ObjectMeta)
		}
		now.Finalizers = nil
		_, err = shared.Client.CoreV1().Pods(w.namespace).Update(w.ctx, now, metav1.UpdateOptions{})
		w.ok(err)
		w.waitGone(pod)
	})

	step("never ready, through a restart of the scheduler", func(t *testing.T, w *world) {
		w.pod("unready", "100m", "64Mi", annotated(cluster.ReadyAfterAnnotation, "never"))
		task := w.waitBound("unready")
		w.ok(w.scheduler.Kill())
		w.ok(w.scheduler.Start())
		w.pod("after-restart", "100m", "64Mi")
		w.waitRunning("after-restart")
		if now, err := w.get("unready"); err != nil || now.DeletionTimestamp != nil || now.Annotations[wellknown.TaskIDAnnotation] != task {
			t.Errorf("%v %+v", err, now)
		}
	})

	step("its node is deleted and comes back", func(t *testing.T, w *world) {
		w.pod("stays", "100m", "64Mi")
		pod := w.waitRunning("stays")
		task := pod.Annotations[wellknown.TaskIDAnnotation]
		w.ok(shared.Client.CoreV1().Nodes().Delete(w.ctx, pod.Spec.NodeName, metav1.DeleteOptions{}))
		w.ok(shared.AddKwokNodes(w.ctx, cluster.Node{Name: pod.Spec.NodeName, CPU: "64", Memory: "256Gi"}))
		now, err := w.get("stays")
		w.ok(err)
		if got, ok := w.sim.Task(task); !ok || !got.Live() || now.UID != pod.UID || now.DeletionTimestamp != nil {
			t.Errorf("task %+v, pod %+v", got, now.ObjectMeta)
		}
	})

	step("pods that are not ours", func(t *testing.T, w *world) {
		others := []*corev1.Pod{
			w.pod("other", "100m", "64Mi", func(p *corev1.Pod) { p.Spec.SchedulerName, p.Spec.NodeName = "other-scheduler", w.nodes[0] }),
			w.pod("waiting-for-another", "100m", "64Mi", func(p *corev1.Pod) { p.Spec.SchedulerName = "other-scheduler" }),
			w.pod("static", "100m", "64Mi", func(p *corev1.Pod) {
				p.Spec.NodeName, p.Annotations = w.nodes[0], map[string]string{corev1.MirrorPodAnnotationKey: "1", "kubernetes.io/config.source": "file"}
				p.Spec.SchedulerName = corev1.DefaultSchedulerName
			}),
		}
		ours := w.pod("ours", "100m", "64Mi", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: w.nodes[0]} })
		w.waitRunning("ours")
		w.ok(w.scheduler.Kill())
		w.ok(w.scheduler.Start())
		w.remove("ours")
		w.waitGone(ours)
		for _, other := range others {
			now, err := w.get(other.Name)
			if err != nil || now.UID != other.UID || now.DeletionTimestamp != nil || now.Annotations[wellknown.TaskIDAnnotation] != "" || now.Spec.NodeName != other.Spec.NodeName {
				t.Errorf("%s: %v %+v", other.Name, err, now)
			}
			if tasks := w.tasksOf(other); len(tasks) > 0 {
				t.Errorf("%s has tasks: %+v", other.Name, tasks)
			}
		}
	})
}
