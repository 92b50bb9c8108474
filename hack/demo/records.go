// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// records is what the API server and the Mesos master say, one shortly after the other.
type records struct {
	pods  []corev1.Pod // those that name our scheduler
	tasks []task
}

func (w *world) records(ctx context.Context) (records, error) {
	pods, err := w.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: "spec.schedulerName=" + cluster.SchedulerName,
	})
	if err != nil {
		return records{}, err
	}
	tasks, err := w.master.tasks(ctx)
	return records{pods: pods.Items, tasks: tasks}, err
}

// runningPods counts the pods that run.
func (r records) runningPods() int {
	n := 0
	for _, p := range r.pods {
		if p.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n
}

// count counts the tasks in a state.
func (r records) count(state string) int {
	n := 0
	for _, t := range r.tasks {
		if t.State == state {
			n++
		}
	}
	return n
}

// liveTasks returns the tasks that have not ended, by the UID of their pod.
func (r records) liveTasks() map[string][]task {
	live := map[string][]task{}
	for _, t := range r.tasks {
		if t.live() {
			live[t.podUID()] = append(live[t.podUID()], t)
		}
	}
	return live
}

// bound says that a pod holds resources of a node.
func bound(p corev1.Pod) bool {
	return p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// orphans returns what stands alone: live tasks without a bound pod, bound pods without a live task, and every task
// of a pod beyond its first.
func (r records) orphans() []string {
	live := r.liveTasks()
	var alone []string
	for _, p := range r.pods {
		if !bound(p) {
			continue
		}
		tasks := live[string(p.UID)]
		delete(live, string(p.UID))
		if len(tasks) == 0 {
			alone = append(alone, fmt.Sprintf("pod %s/%s on %s has no live task", p.Namespace, p.Name, p.Spec.NodeName))
		}
		for i := 1; i < len(tasks); i++ {
			alone = append(alone, fmt.Sprintf("task %s is one too many for pod %s/%s", tasks[i].ID.Value, p.Namespace, p.Name))
		}
	}
	for _, tasks := range live {
		for _, t := range tasks {
			alone = append(alone, fmt.Sprintf("task %s (%s, %s) has no bound pod", t.ID.Value, t.Name, t.State))
		}
	}
	slices.Sort(alone)
	return alone
}

// lost returns which of the pods that ran in r with their tasks no longer do in after: the pod is gone, ending, or was
// restarted, or its task has ended.
func (r records) lost(after records) []string {
	pods := map[string]corev1.Pod{}
	for _, p := range after.pods {
		pods[string(p.UID)] = p
	}
	running := map[string]bool{}
	for _, t := range after.tasks {
		if t.State == "TASK_RUNNING" {
			running[t.ID.Value] = true
		}
	}
	live := r.liveTasks()
	var lost []string
	for _, p := range r.pods {
		if p.Status.Phase != corev1.PodRunning {
			continue
		}
		now, there := pods[string(p.UID)]
		switch {
		case !there:
			lost = append(lost, fmt.Sprintf("pod %s/%s is gone", p.Namespace, p.Name))
			continue
		case now.DeletionTimestamp != nil:
			lost = append(lost, fmt.Sprintf("pod %s/%s is being deleted", p.Namespace, p.Name))
			continue
		case now.Status.Phase != corev1.PodRunning || restarts(now) != restarts(p):
			lost = append(lost, fmt.Sprintf("pod %s/%s is %s with %d restarts", p.Namespace, p.Name, now.Status.Phase, restarts(now)))
			continue
		}
		for _, t := range live[string(p.UID)] {
			if !running[t.ID.Value] {
				lost = append(lost, fmt.Sprintf("task %s of pod %s/%s no longer runs", t.ID.Value, p.Namespace, p.Name))
				break
			}
		}
	}
	return lost
}

func restarts(p corev1.Pod) (n int32) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// table prints a line a pod: what Kubernetes says and what Mesos says.
func (r records) table(out io.Writer, agents map[string]string) {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "    POD\tPHASE\tNODE\tMESOS TASK\tSTATE\tAGENT")
	tasks := map[string][]task{}
	for _, t := range r.tasks {
		tasks[t.podUID()] = append(tasks[t.podUID()], t)
	}
	pods := slices.Clone(r.pods)
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for _, p := range pods {
		node := p.Spec.NodeName
		if node == "" {
			node = "-"
		}
		rows := tasks[string(p.UID)]
		if len(rows) == 0 {
			rows = []task{{ID: id{"-"}, State: "-"}}
		}
		for _, t := range rows {
			agent := agents[t.AgentID.Value]
			if agent == "" {
				agent = "-"
			}
			fmt.Fprintf(tw, "    %s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Status.Phase, node, t.ID.Value, t.State, agent)
		}
	}
	tw.Flush()
}

// peaks are the most pods and tasks that were seen running at once.
type peaks struct {
	mu          sync.Mutex
	pods, tasks int
	done        chan struct{}
}

// watchPeaks looks every 100 ms until ctx ends. A look that fails is left out: the next one follows soon.
func (w *world) watchPeaks(ctx context.Context) *peaks {
	p := &peaks{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if r, err := w.records(ctx); err == nil {
				p.add(r)
			}
		}
	}()
	return p
}

func (p *peaks) add(r records) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods = max(p.pods, r.runningPods())
	p.tasks = max(p.tasks, r.count("TASK_RUNNING"))
}

func (p *peaks) get() (pods, tasks int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods, p.tasks
}
