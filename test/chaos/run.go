// SPDX-License-Identifier: Apache-2.0

package chaos

import (
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
	// Length is for how long faults strike; 0 means 25 s.
	Length time.Duration
	// Out hears what happens.
	Out io.Writer
}

// Result counts over runs.
type Result struct {
	Runs, Faults, Pods, Violations int
}

// String is the last line of `make chaos`.
func (r Result) String() string {
	return fmt.Sprintf("chaos: runs=%d faults=%d pods=%d violations=%d", r.Runs, r.Faults, r.Pods, r.Violations)
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

// Run does the run of one seed and adds it to the result. An error says that the run itself could not be done.
func (r *Result) Run(ctx context.Context, c *cluster.Cluster, seed uint64, o Options) error {
	if o.Length == 0 {
		o.Length = 25 * time.Second
	}
	dir, err := makeDir(o.Dir, fmt.Sprintf("seed-%d", seed))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	start := time.Now()
	w, err := newWorld(ctx, c, seed, dir, o)
	if err != nil {
		return err
	}
	struck, violations, e, err := w.unleash(ctx, seed, o.Length)
	err = errors.Join(err, w.end(ctx))
	if err != nil {
		return err
	}
	crashes, err := crashed(dir)
	if err != nil {
		return err
	}
	violations = append(violations, crashes...)
	r.Runs++
	r.Faults += struck
	r.Pods += len(e.pods)
	r.Violations += len(violations)
	fmt.Fprintf(o.Out, "seed %d: %d faults, %d pods, %d tasks, %d violations in %.0f s\n", seed, struck, len(e.pods), len(e.lives), len(violations), time.Since(start).Seconds())
	if len(violations) == 0 {
		return os.RemoveAll(dir)
	}
	f, err := os.Create(filepath.Join(dir, "report.txt"))
	if err != nil {
		return err
	}
	defer f.Close()
	report(io.MultiWriter(o.Out, f), seed, dir, violations, e)
	return e.save(filepath.Join(dir, "history.txt"))
}

// unleash lets faults and workload loose, waits until all has settled, deletes everything, and checks.
func (w *world) unleash(ctx context.Context, seed uint64, length time.Duration) (struck int, violations []violation, e *evidence, err error) {
	load := newWorkload(w, seed)
	working, rest := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		load.run(working)
	}()
	in := &injector{world: w}
	struck = in.carryOut(ctx, draw(seed, agentCount, length))
	rest()
	<-done
	if ctx.Err() != nil {
		return struck, nil, nil, context.Cause(ctx)
	}
	violations = w.settle(ctx, settleLimit, w.unsettled)
	w.journal.notef("settled, but for %d", len(violations))
	violations = append(violations, w.settle(ctx, offerLimit, w.alive)...)
	if len(violations) == 0 {
		if err := load.clear(ctx); err != nil {
			return struck, nil, nil, err
		}
		violations = w.settle(ctx, clearLimit, func() []violation {
			_, _ = load.release(ctx) // tried again at the next look
			return w.cleared()
		})
		w.journal.notef("cleared, but for %d", len(violations))
	}
	if len(violations) == 0 {
		violations = w.settle(ctx, offerLimit, w.offersHeld)
	}
	e, err = w.evidence()
	if err != nil {
		return struck, nil, nil, err
	}
	for _, v := range e.check() {
		if !slices.Contains(violations, v) {
			violations = append(violations, v)
		}
	}
	return struck, violations, e, nil
}

func (w *world) evidence() (*evidence, error) {
	e := &evidence{incidents: w.journal.incidents()}
	var err error
	if e.pods, err = w.recorder.histories(); err != nil {
		return nil, err
	}
	if e.requests, err = requests(w.c, w.audit, w.namespace, w.api.sentAt()); err != nil {
		return nil, err
	}
	e.lives = lives(w.sim.Tasks(), e.incidents, agentsKnow(w.sim))
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
