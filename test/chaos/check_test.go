// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"slices"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// A harness that finds nothing proves something only if it would find what is wrong: each case breaks one invariant, or
// nearly does.

var zero = time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC)

func second(s float64) time.Time { return zero.Add(time.Duration(s * float64(time.Second))) }

func podState(phase corev1.PodPhase, node, task string, deleting bool) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: types.UID("u"), Annotations: map[string]string{wellknown.TaskIDAnnotation: task}},
		Spec: corev1.PodSpec{SchedulerName: cluster.SchedulerName, NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}}}}},
		Status: corev1.PodStatus{Phase: phase},
	}
	if deleting {
		grace := int64(1)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: second(9)}, &grace
	}
	return p
}

// healthy is a pod that is created at 0, bound at 2 with task u.1, deleted at 8 by its owner, and gone at 9.
func healthy() *podHistory {
	return &podHistory{uid: "u", events: []podEvent{
		{at: second(0), pod: podState(corev1.PodPending, "", "", false)},
		{at: second(2), pod: podState(corev1.PodPending, "n", "u.1", false)},
		{at: second(3), pod: podState(corev1.PodRunning, "n", "u.1", false)},
		{at: second(8), pod: podState(corev1.PodRunning, "n", "u.1", true)},
		{at: second(8.5), pod: podState(corev1.PodSucceeded, "n", "u.1", true)},
		{at: second(9), pod: podState(corev1.PodSucceeded, "n", "u.1", true), gone: true},
	}}
}

type change struct {
	at     float64
	state  mesos.TaskState
	source string
}

func taskOf(id string, changes ...change) mesossim.Task {
	t := mesossim.Task{ID: id, Agent: "n", AgentID: "S1", Launched: second(changes[0].at), Resources: mesossim.Amounts{CPUs: 0.1, Mem: 64}}
	for _, c := range changes {
		t.State = c.state
		t.History = append(t.History, mesossim.Transition{At: second(c.at), State: c.state, Source: c.source})
	}
	return t
}

// said is a task whose last update names another time than that at which the master heard of it.
func said(at float64, t mesossim.Task) mesossim.Task {
	t.History[len(t.History)-1].Said = second(at)
	return t
}

const byExecutor, byAgent, byMaster = "SOURCE_EXECUTOR", "SOURCE_AGENT", "SOURCE_MASTER"

func task1() mesossim.Task {
	return taskOf("u.1", change{1, mesos.TASK_STAGING, ""}, change{1.5, mesos.TASK_STARTING, byExecutor}, change{3, mesos.TASK_RUNNING, byExecutor}, change{8.6, mesos.TASK_KILLED, byExecutor})
}

func framework(t mesossim.Task) mesossim.Task {
	t.FrameworkID = "F"
	return t
}

// finish has the kubelet say, in whole seconds, when the container of a pod stopped.
func finish(h *podHistory, at float64) {
	for i := range h.events {
		if p := h.events[i].pod; p.Status.Phase == corev1.PodSucceeded {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Time{Time: second(at).Truncate(time.Second)}}}}}
		}
	}
}

// takeOut has a running pod leave the store at 8.
func takeOut(h *podHistory) {
	running := h.events[2].pod
	running.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	h.events = append(h.events[:3], podEvent{at: second(8), pod: running, gone: true})
}

func deletedBy(user string, at float64) request {
	return request{received: second(at), answered: second(at + 0.05), user: user, verb: "delete", resource: "pods", name: "pod", code: 200}
}

func TestCheck(t *testing.T) {
	const scheduler, node = "system:serviceaccount:kube-mesos:kube-mesos-scheduler", "system:node:n"
	tests := []struct {
		name      string
		tasks     []mesossim.Task
		edit      func(h *podHistory)
		incidents []incident
		requests  []request
		agents    known
		want      []string
	}{
		{name: "all is well", tasks: []mesossim.Task{task1()}},
		{name: "held anew after a loss", tasks: []mesossim.Task{
			taskOf("u.1", change{1, mesos.TASK_STAGING, ""}, change{4, mesos.TASK_FAILED, byAgent}),
			taskOf("u.2", change{4.01, mesos.TASK_STAGING, ""}, change{9, mesos.TASK_KILLED, byExecutor})}},
		{name: "two live tasks", want: []string{"I2"}, tasks: []mesossim.Task{
			task1(), taskOf("u.2", change{5, mesos.TASK_STAGING, ""}, change{6, mesos.TASK_KILLED, byExecutor})}},
		{name: "two live tasks to the end", want: []string{"I2"}, tasks: []mesossim.Task{
			taskOf("u.1", change{1, mesos.TASK_STAGING, ""}), taskOf("u.2", change{5, mesos.TASK_STAGING, ""})}},
		{name: "one task of two was on a host that died", tasks: []mesossim.Task{
			taskOf("u.1", change{1, mesos.TASK_STAGING, ""}, change{4.5, mesos.TASK_UNREACHABLE, byMaster}), taskOf("u.2", change{5, mesos.TASK_STAGING, ""})},
			incidents: []incident{{at: second(4), agentID: "S1", dead: true}}},
		{name: "one task of two ended with the only master that knew it", tasks: []mesossim.Task{
			taskOf("u.0", change{0.5, mesos.TASK_STAGING, ""}), taskOf("u.1", change{1, mesos.TASK_STAGING, ""}, change{8.6, mesos.TASK_KILLED, byExecutor})},
			incidents: []incident{{at: second(0.7), newMaster: true}}},
		{name: "one task of two never reached its agent, which is back", tasks: []mesossim.Task{func() mesossim.Task {
			t := taskOf("u.0", change{0.5, mesos.TASK_STAGING, ""}, change{0.8, mesos.TASK_UNREACHABLE, byMaster})
			t.Removed = true
			return t
		}(), task1()}, agents: known{registered: map[string]bool{"S1": true}}},
		{name: "one task of two never reached its agent, which came back without it and died later", tasks: []mesossim.Task{func() mesossim.Task {
			t := taskOf("u.0", change{0.5, mesos.TASK_STAGING, ""})
			t.Lost = second(0.9)
			return t
		}(), task1()}, incidents: []incident{{at: second(0.7), newMaster: true}, {at: second(6), agentID: "S1", dead: true}}},
		{name: "one task of two ended with the only master that knew it, as was seen when its agent came back long after", tasks: []mesossim.Task{func() mesossim.Task {
			t := taskOf("u.0", change{0.5, mesos.TASK_STAGING, ""})
			t.Lost = second(3)
			return t
		}(), task1()}, incidents: []incident{{at: second(0.7), newMaster: true}}},
		{name: "one task of two may have reached its agent, which died later", want: []string{"I2"}, tasks: []mesossim.Task{
			taskOf("u.0", change{0.5, mesos.TASK_STAGING, ""}), task1()}, incidents: []incident{{at: second(6), agentID: "S1", dead: true}}},
		{name: "one task of two may still live on an agent that is away", want: []string{"I2"}, tasks: []mesossim.Task{
			taskOf("u.0", change{0.5, mesos.TASK_STAGING, ""}, change{0.8, mesos.TASK_UNREACHABLE, byMaster}), task1()}},
		{name: "bound with no task", want: []string{"I2"}, tasks: nil},
		{name: "bound after the task had ended", want: []string{"I2"}, tasks: []mesossim.Task{
			taskOf("u.1", change{0.1, mesos.TASK_STAGING, ""}, change{0.5, mesos.TASK_FAILED, byAgent})}},
		{name: "bound after the task had ended, which nobody could know", incidents: []incident{{at: second(0.4), hides: true}}, tasks: []mesossim.Task{
			taskOf("u.1", change{0.1, mesos.TASK_STAGING, ""}, change{0.5, mesos.TASK_FAILED, byAgent})}},
		{name: "the Binding was sent in time and stored late", tasks: []mesossim.Task{
			taskOf("u.1", change{0.1, mesos.TASK_STAGING, ""}, change{0.5, mesos.TASK_FAILED, byAgent})},
			requests: []request{{received: second(0.4), answered: second(2), user: scheduler, verb: "create", resource: "pods", sub: "binding", name: "pod", code: 201}}},
		{name: "removed by the scheduler", want: []string{"I4"}, tasks: []mesossim.Task{task1()}, requests: []request{deletedBy(scheduler, 7.98)}},
		{name: "removed by an executor", want: []string{"I4"}, tasks: []mesossim.Task{task1()}, requests: []request{deletedBy(node, 7.98)}},
		{name: "removed by an executor after somebody else", tasks: []mesossim.Task{task1()}, requests: []request{deletedBy(node, 8.1)}},
		{name: "removed by the workload while the scheduler did, too", tasks: []mesossim.Task{task1()}, requests: []request{deletedBy(scheduler, 7.98)},
			incidents: []incident{{at: second(7.9), pod: "u"}}},
		{name: "removed because an operator took the agent", tasks: []mesossim.Task{task1()}, requests: []request{deletedBy(scheduler, 7.98)},
			incidents: []incident{{at: second(6), agentID: "S1"}}},
		{name: "removed because an operator took another agent", want: []string{"I4"}, tasks: []mesossim.Task{task1()}, requests: []request{deletedBy(scheduler, 7.98)},
			incidents: []incident{{at: second(6), agentID: "S2"}}},
		{name: "removed when it had finished", tasks: []mesossim.Task{task1()}, requests: []request{deletedBy(scheduler, 7.98)},
			edit: func(h *podHistory) { h.events[2].pod = podState(corev1.PodSucceeded, "n", "u.1", false) }},
		{name: "the task ends before the containers", want: []string{"I6"}, tasks: []mesossim.Task{
			taskOf("u.1", change{1, mesos.TASK_STAGING, ""}, change{7, mesos.TASK_KILLED, byExecutor})}},
		{name: "the executor said before the Binding that the task had ended, and the master heard of it later", tasks: []mesossim.Task{
			said(1.5, taskOf("u.1", change{1, mesos.TASK_STAGING, ""}, change{7, mesos.TASK_KILLED, byExecutor}))}},
		{name: "the executor said before the containers ended that the task had, and the master heard of it later", want: []string{"I6"}, tasks: []mesossim.Task{
			said(7, taskOf("u.1", change{1, mesos.TASK_STAGING, ""}, change{8.6, mesos.TASK_KILLED, byExecutor}))}},
		{name: "the record of the containers' end is late", tasks: []mesossim.Task{
			taskOf("u.1", change{1, mesos.TASK_STAGING, ""}, change{7.9, mesos.TASK_KILLED, byExecutor})}, edit: func(h *podHistory) { finish(h, 7.7) }},
		{name: "the task ends before the containers, which the kubelet says", want: []string{"I6"}, tasks: []mesossim.Task{
			taskOf("u.1", change{1, mesos.TASK_STAGING, ""}, change{6.4, mesos.TASK_KILLED, byExecutor})}, edit: func(h *podHistory) { finish(h, 7.7) }},
		{name: "the record of a pod that was taken out at once is late", tasks: []mesossim.Task{
			taskOf("u.1", change{1, mesos.TASK_STAGING, ""}, change{7, mesos.TASK_KILLED, byExecutor})}, edit: func(h *podHistory) { takeOut(h) }},
		{name: "the task ends long before the pod is taken out", want: []string{"I6"}, tasks: []mesossim.Task{
			taskOf("u.1", change{1, mesos.TASK_STAGING, ""}, change{5, mesos.TASK_KILLED, byExecutor})}, edit: func(h *podHistory) { takeOut(h) }},
		{name: "the framework was removed", tasks: []mesossim.Task{framework(task1())}, requests: []request{deletedBy(node, 7.98)},
			incidents: []incident{{at: second(6), framework: "F"}}},
		{name: "another framework was removed", want: []string{"I4"}, tasks: []mesossim.Task{framework(task1())}, requests: []request{deletedBy(node, 7.98)},
			incidents: []incident{{at: second(6), framework: "G"}}},
		{name: "the task ends before the containers by the agent's word", tasks: []mesossim.Task{
			taskOf("u.1", change{1, mesos.TASK_STAGING, ""}, change{7, mesos.TASK_FAILED, byAgent})}},
		{name: "the task holds less than the pod needs", want: []string{"I3"}, tasks: []mesossim.Task{func() mesossim.Task {
			t := task1()
			t.Resources.CPUs = 0.05
			return t
		}()}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := healthy()
			if tt.edit != nil {
				tt.edit(h)
			}
			e := &evidence{size: kwokSize, pods: []*podHistory{h}, incidents: tt.incidents, requests: tt.requests, lives: lives(tt.tasks, tt.incidents, tt.agents)}
			var got []string
			for _, v := range e.check() {
				got = append(got, v.invariant)
				t.Log(v.text)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %v, want %v", got, tt.want)
			}
		})
	}
}

func TestOvercommit(t *testing.T) {
	fill := func(n int, from, to float64) (out []*podHistory) {
		for range n {
			pod := podState(corev1.PodRunning, "n", "", false)
			pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
			out = append(out, &podHistory{uid: "u", events: []podEvent{{at: second(from), pod: pod}, {at: second(to), pod: pod, gone: true}}})
		}
		return out
	}
	for _, tt := range []struct {
		name string
		pods []*podHistory
		want int
	}{
		{"full", fill(4, 0, 1), 0},
		{"full twice, one after the other", append(fill(4, 0, 1), fill(4, 1, 2)...), 0},
		{"one too many", append(fill(4, 0, 2), fill(1, 1, 3)...), 1},
	} {
		if got := (&evidence{size: kwokSize, pods: tt.pods}).overcommitted(); len(got) != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
