// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the whole system: a real API server and etcd, the scheduler and the executor as processes under the
// rights that the manifests give them, kwok or real kubelet code as nodes, and the simulator where Mesos stands.
package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// shared is the control plane of all tests; each test brings its own nodes, agents and scheduler.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	code := func() int {
		dir, err := os.MkdirTemp("", "kube-mesos-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		ctx := context.Background()
		shared, err = cluster.Start(ctx, cluster.Options{
			Dir: dir, ControllerManager: true,
			// For gangs; a scheduler that does not switch the gate on takes no notice.
			FeatureGates: map[string]bool{"GenericWorkload": true}, RuntimeConfig: "scheduling.k8s.io/v1beta1=true",
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = shared.Stop() }()
		if err := shared.InstallScheduler(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if code == 0 {
			_ = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(os.Stderr, "the logs are in", dir)
		}
		return code
	}()
	os.Exit(code)
}

// world is one test's Mesos cluster, nodes and scheduler.
type world struct {
	*testing.T
	ctx       context.Context
	sim       *mesossim.Cluster
	scheduler *cluster.Scheduler
	namespace string
	nodes     []string
	options   worldOptions
}

type worldOptions struct {
	agents    int
	resources string // of each agent
	timing    mesossim.Timing
	masters   int
	mesos     map[string]any // merged over the plugin's args
	edit      func(config map[string]any)
	args      []string // more flags of the scheduler
	hollow    bool     // real kubelet code instead of kwok
	sim       func(*mesossim.Options)
}

var worlds atomic.Int32

const timeout = 60 * time.Second

// newWorld starts everything and waits until the scheduler is subscribed.
func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	n := worlds.Add(1)
	w := &world{T: t, ctx: ctx, namespace: fmt.Sprintf("world-%d", n), options: o}
	if o.agents == 0 {
		o.agents = 3
	}
	if o.resources == "" {
		o.resources = "cpus:4;mem:8192;disk:20000;ports:[31000-32000]"
	}
	simOptions := mesossim.Options{Masters: o.masters, Timing: o.timing, WorkDir: filepath.Join(shared.Dir(), w.namespace)}
	for i := range o.agents {
		name := fmt.Sprintf("w%d-node-%d", n, i+1)
		w.nodes = append(w.nodes, name)
		simOptions.Agents = append(simOptions.Agents, mesossim.AgentOptions{Name: name, Hostname: name, Resources: o.resources})
	}
	if o.sim != nil {
		o.sim(&simOptions)
	}
	var err error
	w.sim, err = mesossim.Start(ctx, simOptions)
	w.ok(err)
	t.Cleanup(w.sim.Close)
	for _, name := range w.nodes {
		if o.hollow {
			_, err = shared.StartHollowNode(ctx, name)
		} else {
			err = shared.AddKwokNodes(ctx, cluster.Node{Name: name, CPU: "64", Memory: "256Gi"})
		}
		w.ok(err)
	}
	_, err = shared.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{})
	w.ok(err)
	w.waitFor("default service account", func() error {
		_, err := shared.Client.CoreV1().ServiceAccounts(w.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	w.scheduler, err = shared.NewScheduler(ctx, cluster.SchedulerOptions{
		Masters: w.sim.URLs(), Mesos: o.mesos, Edit: o.edit, Args: append([]string{"--v=4"}, o.args...), Binary: os.Getenv("E2E_SCHEDULER"), Executor: os.Getenv("E2E_EXECUTOR"), Name: fmt.Sprintf("scheduler-%d", n),
	})
	w.ok(err)
	w.ok(w.scheduler.Start())
	t.Cleanup(w.end)
	w.waitFor("subscription", func() error {
		if fs := w.sim.Frameworks(); len(fs) == 0 {
			return fmt.Errorf("the master knows no framework; scheduler: %s", w.scheduler.LogTail(5))
		}
		return nil
	})
	return w
}

// end removes what the test made, so that the next one finds a clean control plane.
func (w *world) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if w.Failed() {
		w.Log(w.scheduler.LogTail(60))
	}
	_ = w.scheduler.Stop()
	zero := int64(0)
	_ = shared.Client.AppsV1().Deployments(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	_ = shared.Client.BatchV1().Jobs(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	_ = shared.Client.CoreV1().Pods(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &zero}, metav1.ListOptions{})
	for _, node := range w.nodes {
		_ = shared.Client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})
	}
	_ = shared.Client.CoreV1().ConfigMaps(cluster.SchedulerNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=kube-mesos-scheduler-framework"})
	_ = shared.Client.CoordinationV1().Leases(cluster.SchedulerNamespace).Delete(ctx, cluster.SchedulerName, metav1.DeleteOptions{})
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// waitFor waits until cond returns nil.
func (w *world) waitFor(what string, cond func() error) {
	w.Helper()
	w.waitAtMost(timeout, what, cond)
}

func (w *world) waitAtMost(limit time.Duration, what string, cond func() error) {
	w.Helper()
	if err := cluster.WaitAtMost(w.ctx, limit, what, func(context.Context) error { return cond() }); err != nil {
		w.Fatal(err)
	}
}

// pod makes a pod of ours; edits come last.
func (w *world) pod(name, cpu, memory string, edits ...func(*corev1.Pod)) *corev1.Pod {
	w.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: cluster.SchedulerName,
			Containers:    []corev1.Container{{Name: "main", Image: "registry.invalid/pause", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}},
		},
	}
	if cpu != "" {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	for _, edit := range edits {
		edit(p)
	}
	made, err := shared.Client.CoreV1().Pods(w.namespace).Create(w.ctx, p, metav1.CreateOptions{})
	w.ok(err)
	return made
}

// get returns a pod as it is now.
func (w *world) get(name string) (*corev1.Pod, error) {
	return shared.Client.CoreV1().Pods(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
}

// waitRunning waits until a pod is bound by us and runs, and returns it.
func (w *world) waitRunning(name string) *corev1.Pod {
	w.Helper()
	var pod *corev1.Pod
	w.waitFor("pod "+name+" running", func() (err error) {
		if pod, err = w.get(name); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning || pod.Annotations[wellknown.TaskIDAnnotation] == "" {
			return fmt.Errorf("phase %s on node %q, task %q; %s", pod.Status.Phase, pod.Spec.NodeName, pod.Annotations[wellknown.TaskIDAnnotation], conditions(pod))
		}
		return nil
	})
	return pod
}

func conditions(pod *corev1.Pod) string {
	var out []string
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse {
			out = append(out, string(c.Type)+": "+c.Message)
		}
	}
	return strings.Join(out, "; ")
}

// waitTask waits until the master has a task in a state.
func (w *world) waitTask(id, state string) mesossim.Task {
	w.Helper()
	var task mesossim.Task
	w.waitFor("task "+id+" "+state, func() error {
		var ok bool
		if task, ok = w.sim.Task(id); !ok {
			return fmt.Errorf("the master does not know the task")
		}
		if task.State.String() != state {
			return fmt.Errorf("it is %s", task.State)
		}
		return nil
	})
	return task
}

// remove deletes a pod with its own grace.
func (w *world) remove(name string) {
	w.Helper()
	w.ok(shared.Client.CoreV1().Pods(w.namespace).Delete(w.ctx, name, metav1.DeleteOptions{}))
}

// settle waits until every bound pod of ours that is not terminating has one live task and every live task one bound pod
// (invariant I1), from the API server's and the master's own records.
func (w *world) settle() {
	w.Helper()
	w.waitFor("pods and tasks to match", w.matched)
}

func (w *world) matched() error {
	pods, err := shared.Client.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	live := map[string]int{}
	for _, task := range w.sim.LiveTasks() {
		uid, _, _ := strings.Cut(task.ID, ".")
		live[uid]++
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.SchedulerName != cluster.SchedulerName || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if n := live[string(pod.UID)]; n != 1 {
			return fmt.Errorf("pod %s (%s) has %d live tasks", pod.Name, pod.Status.Phase, n)
		}
		delete(live, string(pod.UID))
	}
	if len(live) > 0 {
		return fmt.Errorf("%d live tasks have no bound pod: %v", len(live), live)
	}
	return nil
}
