// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulerperf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim/simprocess"
)

// stateNamespace is where the plugin keeps its framework id.
const stateNamespace = "kube-mesos"

// result is what one run measured.
type result struct {
	PodsPerSecond float64
	// CPU and SimulatorCPU are what a measured pod cost the process with the scheduler and the API server, and the simulator.
	CPU, SimulatorCPU time.Duration
	Calls             map[string]int
	// Quantiles are after how long a tenth, half, nine tenths, 99 in a hundred, and all of the pods were bound.
	Quantiles []time.Duration
	// Attempts counts scheduling attempts by their result; Means are those of histograms. Both are of all pods.
	Attempts, Means map[string]float64
}

// watcher takes the time of the measured pods from the scheduler's own informer.
type watcher struct {
	want int
	sim  *simulator

	mu                 sync.Mutex
	bound              map[string]bool
	times              []time.Duration
	begun, ended       time.Time
	cpuBegun, simBegun time.Duration
	cpuUsed, simUsed   time.Duration
	done               chan struct{}
	profile            *os.File
}

func (w *watcher) watch(informer cache.SharedIndexInformer) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.see(obj.(*v1.Pod)) },
		UpdateFunc: func(_, obj any) { w.see(obj.(*v1.Pod)) },
	})
	return err
}

func (w *watcher) see(pod *v1.Pod) {
	if pod.Namespace != measured {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun.IsZero() {
		w.begun, w.cpuBegun, w.simBegun = time.Now(), simprocess.CPU(os.Getpid()), w.simCPU()
		if path := os.Getenv("THROUGHPUT_PROFILE"); path != "" {
			if file, err := os.Create(path); err == nil && pprof.StartCPUProfile(file) == nil {
				w.profile = file
				runtime.SetMutexProfileFraction(10)
				lookUp("allocs", path+".allocs-before")
			}
		}
	}
	if pod.Spec.NodeName == "" || w.bound[pod.Name] {
		return
	}
	w.bound[pod.Name] = true
	w.times = append(w.times, time.Since(w.begun))
	if len(w.bound) == w.want {
		w.ended = time.Now()
		w.cpuUsed, w.simUsed = simprocess.CPU(os.Getpid())-w.cpuBegun, w.simCPU()-w.simBegun
		if w.profile != nil {
			pprof.StopCPUProfile()
			_ = w.profile.Close()
			lookUp("mutex", w.profile.Name()+".mutex")
			lookUp("allocs", w.profile.Name()+".allocs")
		}
		close(w.done)
	}
}

// lookUp writes one of the runtime's profiles.
func lookUp(profile, path string) {
	if file, err := os.Create(path); err == nil {
		_ = pprof.Lookup(profile).WriteTo(file, 0)
		_ = file.Close()
	}
}

func (w *watcher) simCPU() time.Duration {
	if w.sim == nil {
		return 0
	}
	return w.sim.CPU()
}

// result waits for the last task and returns the figures.
func (w *watcher) result() (*result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &result{CPU: w.cpuUsed / time.Duration(w.want), SimulatorCPU: w.simUsed / time.Duration(w.want)}
	for _, share := range []int{10, 50, 90, 99, 100} {
		r.Quantiles = append(r.Quantiles, w.times[w.want*share/100-1].Round(time.Millisecond))
	}
	r.Attempts, r.Means = attempts()
	ended := w.ended
	if w.sim != nil {
		running, err := w.lastRuns(r)
		if err != nil {
			return nil, err
		}
		if running.After(ended) {
			ended = running
		}
	}
	r.PodsPerSecond = float64(w.want) / ended.Sub(w.begun).Seconds()
	return r, nil
}

// lastRuns waits until the tasks of all measured pods run and returns when the last began to.
func (w *watcher) lastRuns(r *result) (last time.Time, err error) {
	const limit = 30 * time.Second
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		var state simulatorState
		if err := w.sim.State(context.Background(), &state); err != nil {
			return last, err
		}
		running := state.running(measured)
		if len(running) < w.want {
			if time.Since(begun) > limit {
				return last, fmt.Errorf("%d tasks of the %d bound pods run after %v", len(running), w.want, limit)
			}
			continue
		}
		for _, at := range running {
			if at.After(last) {
				last = at
			}
		}
		r.Calls = state.Counters.Calls
		return last, nil
	}
}

// attempts reads kube-scheduler's own count of attempts, and the means of what takes the scheduler's and the plugin's time.
func attempts() (count, means map[string]float64) {
	count, means = map[string]float64{}, map[string]float64{}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return nil, nil
	}
	for _, f := range families {
		name, timed := f.GetName(), false
		switch name {
		case "scheduler_schedule_attempts_total":
			for _, m := range f.GetMetric() {
				count[label(m, "result")] += m.GetCounter().GetValue()
			}
		case "scheduler_queue_incoming_pods_total":
			for _, m := range f.GetMetric() {
				count[label(m, "queue")+" by "+label(m, "event")] += m.GetCounter().GetValue()
			}
		case "scheduler_framework_extension_point_duration_seconds", "scheduler_scheduling_algorithm_duration_seconds":
			timed = true
		default:
			timed = strings.HasPrefix(name, "mesos_")
		}
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); timed && h.GetSampleCount() > 0 {
				means[strings.TrimSuffix(name+"/"+label(m, "extension_point")+label(m, "leg"), "/")] = math.Round(h.GetSampleSum()/float64(h.GetSampleCount())*1e6) / 1e6
			}
		}
	}
	return count, means
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// environment of a run.
const (
	workloadVariable = "THROUGHPUT_WORKLOAD" // id of the workload
	schedulerKind    = "THROUGHPUT_KIND"     // stock or mesos
	resultVariable   = "THROUGHPUT_RESULT"   // file for the result
)

// BenchmarkRun is one run of one workload. TestThroughput starts it in a process of its own.
func BenchmarkRun(b *testing.B) {
	var w *workload
	for i := range workloads {
		if workloads[i].id() == os.Getenv(workloadVariable) {
			w = &workloads[i]
		}
	}
	if w == nil {
		b.Skip("started by TestThroughput")
	}
	watch := &watcher{want: w.pods, bound: map[string]bool{}, done: make(chan struct{})}
	system := mesos.NewSystem()
	registry := frameworkruntime.Registry{mesos.Name: system.Factory}
	withMesos := os.Getenv(schedulerKind) == "mesos"
	if withMesos {
		sim, err := startSimulator()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(sim.Stop)
		watch.sim = sim
	}
	definition, err := write(b.TempDir(), w, watch.sim)
	if err != nil {
		b.Fatal(err)
	}
	// The result is written at once: the harness may take its time to end.
	written := make(chan struct{})
	go func() {
		defer close(written)
		<-watch.done
		r, err := watch.result()
		if err != nil {
			fmt.Fprintln(os.Stderr, "result:", err)
			return
		}
		data, _ := json.Marshal(r)
		if err := os.WriteFile(os.Getenv(resultVariable), data, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "result:", err)
		}
	}()

	schedulerperf.RunBenchmarkPerfScheduling(b, definition, "throughput", registry,
		schedulerperf.WithPrepareFn(func(tCtx ktesting.TContext) error {
			if withMesos {
				return lead(tCtx, system, func() {
					select {
					case <-watch.done:
						<-written
					default: // the run has failed
					}
				})
			}
			return nil
		}),
		schedulerperf.WithNodeUpdateFn(func(tCtx ktesting.TContext, sched *scheduler.Scheduler, _ *schedulerperf.Workload, nodes *v1.NodeList) error {
			if err := watch.watch(sched.Profiles[v1.DefaultSchedulerName].SharedInformerFactory().Core().V1().Pods().Informer()); err != nil {
				return err
			}
			if withMesos {
				return watch.sim.addAgents(tCtx, nodes.Items)
			}
			return nil
		}),
	)
	select {
	case <-watch.done:
		<-written
	default:
		b.Error("not all pods were bound")
	}
}

// lead makes the plugin's part of the process work, as the command does when it begins to lead. It goes on until hold returns
// after the end of the workload: tasks may have to be acknowledged yet.
func lead(tCtx ktesting.TContext, system *mesos.System, hold func()) error {
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: stateNamespace}}
	if _, err := tCtx.Client().CoreV1().Namespaces().Create(tCtx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(tCtx)
	done := make(chan error, 1)
	go func() { done <- system.Lead(ctx) }()
	tCtx.Cleanup(func() {
		hold()
		cancel()
		<-done
	})
	return nil
}

// write writes the scheduler's configuration and the workload's definition, and returns the latter's path.
func write(dir string, w *workload, sim *simulator) (string, error) {
	made, err := template.ParseFiles("testdata/scheduler.yaml")
	if err != nil {
		return "", err
	}
	config := filepath.Join(dir, "scheduler.yaml")
	file, err := os.Create(config)
	if err != nil {
		return "", err
	}
	defer file.Close()
	values := struct{ Master string }{}
	if sim != nil {
		values.Master = sim.Master
	}
	if err := made.Execute(file, values); err != nil {
		return "", err
	}
	definition := filepath.Join(dir, "workload.yaml")
	return definition, os.WriteFile(definition, []byte(w.definition(config)), 0o644)
}
