// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// Options say how to run.
type Options struct {
	// Dir is where each run leaves its logs and records.
	Dir string
	// Binaries is the folder of the product's programs; empty means bin/.
	Binaries string
	// Hollow has real kubelet code for nodes, fewer of them.
	Hollow bool
	// Length is for how long faults strike; 0 means 25 s.
	Length time.Duration
	// Out hears what happens.
	Out io.Writer
}

// Result counts over runs.
type Result struct {
	Runs, Pods, Violations int
	// Struck and Missed count faults by kind: those that struck, and those that found nothing to strike.
	Struck, Missed map[string]int
}

// Add adds another result.
func (r *Result) Add(other Result) {
	r.Runs += other.Runs
	r.Pods += other.Pods
	r.Violations += other.Violations
	r.Struck, r.Missed = sum(r.Struck, other.Struck), sum(r.Missed, other.Missed)
}

func sum(a, b map[string]int) map[string]int {
	out := map[string]int{}
	for _, m := range []map[string]int{a, b} {
		for k, n := range m {
			out[k] += n
		}
	}
	return out
}

// Faults is how many faults struck.
func (r Result) Faults() int {
	n := 0
	for _, of := range r.Struck {
		n += of
	}
	return n
}

// Kinds says how often faults of each kind struck, and of how many there were.
func (r Result) Kinds() string {
	out := "struck:"
	for _, k := range kinds {
		out += fmt.Sprintf(" %s=%d/%d", k.name, r.Struck[k.name], r.Struck[k.name]+r.Missed[k.name])
	}
	return out
}

// String is the last line of `make chaos`.
func (r Result) String() string {
	return fmt.Sprintf("chaos: runs=%d faults=%d pods=%d violations=%d", r.Runs, r.Faults(), r.Pods, r.Violations)
}

// Start starts the API server that runs share.
func Start(ctx context.Context, dir string) (*cluster.Cluster, error) {
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir, ControllerManager: true})
	if err != nil {
		return nil, err
	}
	if err := install(ctx, c); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// install gives the scheduler its rights, also those to evict pods from agents in maintenance.
func install(ctx context.Context, c *cluster.Cluster) error {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	if err := c.InstallScheduler(ctx); err != nil {
		return err
	}
	_, err = c.Apply(ctx, filepath.Join(root, "manifests", "optional", "drain-rbac.yaml"))
	return err
}

// Run does the run of one seed. An error says that the run itself could not be done.
func Run(ctx context.Context, c *cluster.Cluster, seed uint64, o Options) (Result, error) {
	if o.Length == 0 {
		o.Length = 25 * time.Second
	}
	dir, err := makeDir(o.Dir, fmt.Sprintf("seed-%d", seed))
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	times := stopwatch{{"", time.Now()}}
	w, err := newWorld(ctx, c, seed, dir, o)
	if err != nil {
		return Result{}, err
	}
	times.lap("start")
	in := &injector{world: w}
	violations, e, err := w.unleash(ctx, seed, in, o.Length, &times)
	err = errors.Join(err, w.end(ctx))
	if err != nil {
		return Result{}, err
	}
	times.lap("end")
	crashes, err := crashed(dir)
	if err != nil {
		return Result{}, err
	}
	violations = append(violations, crashes...)
	result := Result{Runs: 1, Pods: len(e.pods), Violations: len(violations), Struck: in.struck, Missed: in.missed}
	var out bytes.Buffer
	fmt.Fprintf(&out, "seed %d: %d faults, %d pods, %d tasks, %d violations in %s%s\n", seed, result.Faults(), len(e.pods), len(e.lives), len(violations), times, in.slow)
	if len(violations) == 0 {
		_, _ = out.WriteTo(o.Out)
		return result, os.RemoveAll(dir)
	}
	f, err := os.Create(filepath.Join(dir, "report.txt"))
	if err != nil {
		return result, err
	}
	defer f.Close()
	report(io.MultiWriter(&out, f), seed, dir, violations, e)
	_, _ = out.WriteTo(o.Out)
	return result, e.save(filepath.Join(dir, "history.txt"))
}

// stopwatch says how long the parts of a run took.
type stopwatch []struct {
	name string
	at   time.Time
}

func (s *stopwatch) lap(name string) {
	*s = append(*s, struct {
		name string
		at   time.Time
	}{name, time.Now()})
}

// String is the whole time, and that of each part.
func (s stopwatch) String() string {
	out := ""
	for i, l := range s[1:] {
		out += fmt.Sprintf(" %s %.0f", l.name, l.at.Sub(s[i].at).Seconds())
	}
	return fmt.Sprintf("%.0f s:%s", s[len(s)-1].at.Sub(s[0].at).Seconds(), out)
}

// unleash lets faults and workload loose, waits until all has settled, deletes everything, and checks.
func (w *world) unleash(ctx context.Context, seed uint64, in *injector, length time.Duration, times *stopwatch) (violations []violation, e *evidence, err error) {
	load := newWorkload(w, seed)
	working, rest := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		load.run(working)
	}()
	in.carryOut(ctx, draw(seed, w.size, length))
	rest()
	<-done
	times.lap("faults")
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	violations = w.settle(ctx, settleLimit, func() []violation {
		in.clearRivals(ctx)
		return append(w.unsettled(), w.alive()...)
	})
	w.journal.notef("settled, but for %d", len(violations))
	times.lap("settle")
	if len(violations) == 0 {
		if err := load.clear(ctx); err != nil {
			return nil, nil, err
		}
		violations = w.settle(ctx, clearLimit, func() []violation {
			_, _ = load.release(ctx) // tried again at the next look
			if left := w.cleared(); len(left) > 0 {
				return left
			}
			return w.offersHeld()
		})
		w.journal.notef("cleared, but for %d", len(violations))
		times.lap("clear")
	}
	e, err = w.evidence()
	if err != nil {
		return nil, nil, err
	}
	for _, v := range e.check() {
		if !slices.Contains(violations, v) {
			violations = append(violations, v)
		}
	}
	return violations, e, nil
}

func (w *world) evidence() (*evidence, error) {
	e := &evidence{size: w.size, incidents: w.journal.incidents()}
	var err error
	if e.pods, err = w.recorder.histories(); err != nil {
		return nil, err
	}
	if e.requests, err = requests(w.c, w.audit, w.namespace, w.api.sentAt()); err != nil {
		return nil, err
	}
	e.lives = lives(w.tasks(), e.incidents, agentsKnow(w.sim))
	return e, nil
}

// save writes the histories of all pods, one after the other.
func (e *evidence) save(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	writeHistory(f, "", e)
	for _, h := range e.pods {
		fmt.Fprintf(f, "\n--- pod %s (%s)\n", h.name(), h.uid)
		writeHistory(f, h.uid, &evidence{pods: []*podHistory{h}, lives: e.lives, requests: e.requests})
	}
	return f.Close()
}
