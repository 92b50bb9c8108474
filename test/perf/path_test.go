// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// world is a control plane with nodes, a simulator with an agent for each, and the scheduler as a process of its own.
// Executors are synthetic: nobody runs the pods, so a pod is bound and its task runs, and that is all.
type world struct {
	*testing.T
	cluster   *cluster.Cluster
	sim       *mesossim.Cluster
	scheduler *cluster.Scheduler

	mu    sync.Mutex
	bound map[string]time.Time
	more  chan struct{} // there are more bound pods
}

const perfNamespace = "perf"

// verbosity is that of the scheduler's log; PERF_LOG=4 shows each decision.
func verbosity() string {
	if v := os.Getenv("PERF_LOG"); v != "" {
		return v
	}
	return "1"
}

func newWorld(t *testing.T, agents int, cpus, mem int64, mesosArgs map[string]any) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "kube-mesos-perf-")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, bound: map[string]time.Time{}, more: make(chan struct{}, 1)}
	ctx := t.Context()
	// Service accounts need the controller manager, and nobody else does.
	w.cluster, err = cluster.Start(ctx, cluster.Options{Dir: dir, ControllerManager: true, NodeMonitorGracePeriod: time.Hour})
	w.ok(err)
	t.Cleanup(func() {
		_ = w.cluster.Stop()
		if t.Failed() || os.Getenv("PERF_LOG") != "" {
			t.Log("the logs are in ", dir)
		} else {
			_ = os.RemoveAll(dir)
		}
	})
	w.ok(w.cluster.InstallScheduler(ctx))
	_, err = w.cluster.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: perfNamespace}}, metav1.CreateOptions{})
	w.ok(err)
	await(t, "the default service account", func() bool {
		_, err := w.cluster.Client.CoreV1().ServiceAccounts(perfNamespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	sim, nodes := startSim(t, agents, fmt.Sprintf("cpus:%d;mem:%d;ports:[20000-21000]", cpus, mem))
	w.sim = sim
	var group errgroup.Group
	group.SetLimit(16)
	for _, name := range nodes {
		group.Go(func() error { return w.createNode(ctx, name, cpus, mem) })
	}
	w.ok(group.Wait())
	w.watch()
	w.scheduler, err = w.cluster.NewScheduler(ctx, cluster.SchedulerOptions{Masters: sim.URLs(), Mesos: mesosArgs, Args: []string{"--v=" + verbosity()}})
	w.ok(err)
	w.ok(w.scheduler.Start())
	t.Cleanup(func() { _ = w.scheduler.Stop() })
	await(t, "subscription", func() bool {
		frameworks := sim.Frameworks()
		return len(frameworks) > 0 && frameworks[0].Connected
	})
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) createNode(ctx context.Context, name string, cpus, mem int64) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(mem<<20, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(1000, resource.DecimalSI),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
		},
	}
	nodes := w.cluster.Client.CoreV1().Nodes()
	if _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	for { // without a kubelet a new node stays tainted until somebody says otherwise
		made, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if made.Spec.Taints = nil; true {
			if _, err = nodes.Update(ctx, made, metav1.UpdateOptions{}); err == nil {
				return nil
			}
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

// watch notes when pods are bound.
func (w *world) watch() {
	factory := informers.NewSharedInformerFactoryWithOptions(w.cluster.Client, 0, informers.WithNamespace(perfNamespace))
	see := func(obj any) {
		pod := obj.(*corev1.Pod)
		if pod.Spec.NodeName == "" {
			return
		}
		w.mu.Lock()
		if _, ok := w.bound[pod.Name]; !ok {
			w.bound[pod.Name] = time.Now()
		}
		w.mu.Unlock()
		select {
		case w.more <- struct{}{}:
		default:
		}
	}
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }})
	w.ok(err)
	factory.Start(w.Context().Done())
	factory.WaitForCacheSync(w.Context().Done())
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.bound)
}

// create creates n pods, many at a time.
func (w *world) create(prefix string, n int) {
	w.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			grace := int64(0)
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: perfNamespace, Name: fmt.Sprintf("%s-%d", prefix, i)},
				Spec: corev1.PodSpec{
					SchedulerName: cluster.SchedulerName, TerminationGracePeriodSeconds: &grace,
					Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/pause", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}}}},
				},
			}
			_, err := w.cluster.Client.CoreV1().Pods(perfNamespace).Create(w.Context(), pod, metav1.CreateOptions{})
			return err
		})
	}
	w.ok(group.Wait())
}

// waitFor waits until n pods are bound and n tasks run.
func (w *world) waitFor(n int) {
	w.Helper()
	await(w.T, fmt.Sprintf("%d bound pods and running tasks", n), func() bool {
		return w.count() >= n && w.sim.Counters().Updates[mesos.TASK_RUNNING.String()] >= n
	})
}

// TestPath measures 500 pods from their creation to a running task and a binding, on few and on many agents.
func TestPath(t *testing.T) {
	for _, agents := range []int{3, 100} {
		t.Run(fmt.Sprintf("agents=%d", agents), func(t *testing.T) {
			w := newWorld(t, agents, 64, 65536, nil)
			const warm, pods = 20, 500
			w.create("warm", warm)
			w.waitFor(warm)
			begun, accepts := time.Now(), w.sim.Counters().Calls["ACCEPT"]
			w.create("pod", pods)
			created := time.Since(begun)
			w.waitFor(warm + pods)
			took := time.Since(begun).Seconds()
			accepts = w.sim.Counters().Calls["ACCEPT"] - accepts
			fmt.Printf("path: agents=%d pods=%d pods/s=%.0f an-agent=%.1f create-alone=%.0f/s tasks-an-accept=%.1f\n",
				agents, pods, pods/took, pods/took/float64(agents), pods/created.Seconds(), float64(pods)/float64(max(accepts, 1)))
		})
	}
}

// TestLatency measures one pod at a time on an idle cluster: offers are suppressed when it comes. floor is what a bare client
// needs for a launch on the same simulator, from REVIVE to TASK_RUNNING.
func TestLatency(t *testing.T) {
	w := newWorld(t, 10, 64, 65536, map[string]any{"idleAfter": "300ms"})
	const samples = 40
	times := make([]time.Duration, 0, samples)
	for i := range samples {
		await(t, "suppression", func() bool {
			f := w.sim.Frameworks()
			return len(f) > 0 && len(f[0].SuppressedRoles) > 0
		})
		begun := time.Now()
		w.create(fmt.Sprintf("pod-%d", i), 1)
		w.waitFor(i + 1)
		times = append(times, time.Since(begun))
	}
	_ = w.scheduler.Stop()
	b, stop := startBare(t, w.sim.URL())
	defer stop()
	b.launch(10, 1) // starts the executors
	floor := make([]time.Duration, 0, samples)
	for range samples {
		floor = append(floor, b.launch(1, 1))
	}
	slices.Sort(times)
	slices.Sort(floor)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	fmt.Printf("latency: idle p50=%.1f p99=%.1f floor=%.1f\n", ms(times[samples/2]), ms(times[samples*99/100]), ms(floor[samples/2]))
}

// TestRecovery measures a restart of the scheduler with many bound pods: from the start of the process to the first new launch
// and to the master's last answer for a task.
func TestRecovery(t *testing.T) {
	const agents, pods = 500, 5000
	w := newWorld(t, agents, 8, 16384, nil)
	w.create("pod", pods)
	w.waitFor(pods)
	before := w.sim.Counters()
	_ = w.scheduler.Kill()
	begun := time.Now()
	w.ok(w.scheduler.Start())
	w.create("new", 1)
	running := before.Updates[mesos.TASK_RUNNING.String()]
	await(t, "the first new launch", func() bool { return w.sim.Counters().TasksLaunched > before.TasksLaunched })
	first := time.Since(begun)
	// Each task is answered for by name and, as no name is asked for, once more.
	last, answers := first, 0
	quiet := time.Now()
	await(t, "the last answer", func() bool {
		if n := w.sim.Counters().Updates[mesos.TASK_RUNNING.String()] - running; n != answers {
			answers, last, quiet = n, time.Since(begun), time.Now()
		}
		return answers >= pods && time.Since(quiet) > time.Second
	})
	launched := w.sim.Counters().TasksLaunched - before.TasksLaunched
	fmt.Printf("recovery: agents=%d pods=%d first-launch=%v last-answer=%v answers=%d new-tasks=%d pods-touched=%d\n",
		agents, pods, first.Round(time.Millisecond), last.Round(time.Millisecond), answers, launched, w.touched())
}

// touched counts pods that are being deleted, or are gone.
func (w *world) touched() int {
	list, err := w.cluster.Client.CoreV1().Pods(perfNamespace).List(w.Context(), metav1.ListOptions{})
	w.ok(err)
	n := w.count() - len(list.Items)
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			n++
		}
	}
	return max(n, 0)
}
