// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	only  = flag.String("workloads", "", "the workloads to measure, separated by commas (default: all)")
	pairs = flag.Int("pairs", 3, "how often each workload runs with each scheduler, at least")
	logs  = flag.String("logs", "", "folder for the logs and CPU profiles of the runs (default: none are kept)")
)

// TestThroughput measures every workload and prints its lines. It fails only when a run does: figures are read by people,
// and by those who compare them with their own earlier ones.
func TestThroughput(t *testing.T) {
	if *pairs < 1 {
		t.Fatalf("-pairs=%d: want at least 1", *pairs)
	}
	for _, w := range workloads {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), w.id()) && !slices.Contains(strings.Split(*only, ","), w.name) {
			continue
		}
		t.Run(w.id(), func(t *testing.T) { compare(t, w) })
	}
}

// Where the rates of equal runs lie further apart than noisy, there are up to morePairs more.
const (
	noisy     = 0.1
	morePairs = 2
)

// compare runs a workload with both schedulers in turn. The ratio is the median of the pairs' own: the two runs of a pair follow
// each other, so a machine that others slow down for a while slows both.
func compare(t *testing.T, w workload) {
	var stock, withMesos []*result
	for i := 0; i < *pairs || i < *pairs+morePairs && max(spread(stock), spread(withMesos)) > noisy; i++ {
		// The second of a pair finds other caches than the first: they take turns at being it.
		for _, kind := range [][]string{{"stock", "mesos"}, {"mesos", "stock"}}[i%2] {
			r, err := run(t, w, kind, i)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			t.Logf("%s %s: %.1f pods/s, cpu %v/pod, simulator %v/pod, bound after %v, attempts %v, calls %v",
				w.id(), kind, r.PodsPerSecond, r.CPU, r.SimulatorCPU, r.Quantiles, r.Attempts, r.Calls)
			if *logs != "" {
				for _, name := range slices.Sorted(maps.Keys(r.Means)) {
					t.Logf("mean: %s %s=%g", kind, name, r.Means[name])
				}
			}
			if kind == "stock" {
				stock = append(stock, r)
			} else {
				withMesos = append(withMesos, r)
			}
		}
	}
	rate := func(r *result) float64 { return r.PodsPerSecond }
	ratios := make([]float64, len(stock))
	for i := range ratios {
		ratios[i] = withMesos[i].PodsPerSecond / stock[i].PodsPerSecond
	}
	fmt.Printf("throughput: workload=%s nodes=%d pods=%d stock=%.0f mesos=%.0f ratio=%.2f\n",
		w.name, w.nodes, w.pods, median(stock, rate), median(withMesos, rate), middle(ratios))
	used := func(r *result) float64 { return float64(r.CPU) / float64(time.Millisecond) }
	fmt.Printf("cpu: workload=%s nodes=%d stock=%.2fms/pod mesos=%.2fms/pod simulator=%.2fms/pod noise=%.2f\n", w.name, w.nodes, median(stock, used), median(withMesos, used),
		median(withMesos, func(r *result) float64 { return float64(r.SimulatorCPU) / float64(time.Millisecond) }), max(spread(stock), spread(withMesos)))
}

// median returns the middle one of a figure of several runs.
func median(runs []*result, of func(*result) float64) float64 {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = of(r)
	}
	return middle(values)
}

// middle returns the median of values, which it sorts.
func middle(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// spread is how far the rates of equal runs lie apart, as a share of their median: ratios within it are ties.
func spread(runs []*result) float64 {
	least, most := runs[0].PodsPerSecond, runs[0].PodsPerSecond
	for _, r := range runs {
		least, most = min(least, r.PodsPerSecond), max(most, r.PodsPerSecond)
	}
	return (most - least) / median(runs, func(r *result) float64 { return r.PodsPerSecond })
}

// runLimit is for one run; leaving is for its end after it has its result.
const (
	runLimit = 10 * time.Minute
	leaving  = 15 * time.Second
)

// run runs a workload in a process of its own.
func run(t *testing.T, w workload, kind string, i int) (*result, error) {
	dir := t.TempDir()
	path := filepath.Join(dir, "result.json")
	cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkRun$", "-test.benchtime=1x", "-test.timeout=0", "-data-items-dir="+dir, "-v=0")
	cmd.Env = append(os.Environ(), workloadVariable+"="+w.id(), schedulerKind+"="+kind, resultVariable+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log := filepath.Join(dir, "log")
	if *logs != "" {
		log = filepath.Join(*logs, fmt.Sprintf("%s-%s-%d", w.id(), kind, i))
		cmd.Env = append(cmd.Env, "THROUGHPUT_PROFILE="+log+".pprof")
		log += ".log"
	}
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// etcd and the simulator are in the group of the run.
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()

	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	if err := waitForFile(ctx, path, ended); err != nil {
		text, _ := os.ReadFile(log)
		return nil, fmt.Errorf("%w:\n%s", err, text[max(0, len(text)-4000):])
	}
	select {
	case <-ended:
	case <-time.After(leaving):
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &result{}
	return r, json.Unmarshal(data, r)
}

// waitForFile waits until a file is there with content.
func waitForFile(ctx context.Context, path string, ended chan error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return nil
		}
		select {
		case err := <-ended:
			if info, statErr := os.Stat(path); statErr == nil && info.Size() > 0 {
				ended <- err
				return nil
			}
			return fmt.Errorf("the run ended without a result: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("the run took more than %v", runLimit)
		case <-ticker.C:
		}
	}
}
