// SPDX-License-Identifier: Apache-2.0

// Command cmd does runs of package chaos, some at a time, and says at last what they found.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/test/chaos"
)

func main() {
	runs := flag.Int("runs", 3, "how many runs")
	seed := flag.String("seed", "1", `seed of the first run, each next one has the next; "fresh" draws it`)
	parallel := flag.Int("parallel", 1, "how many runs at a time, each on a control plane of its own")
	hollow := flag.Bool("hollow", false, "real kubelet code for nodes (fewer of them) instead of kwok")
	length := flag.Duration("length", 0, "for how long faults strike in each run (0: 25s)")
	dir := flag.String("dir", filepath.Join(".run", "chaos"), "where logs and records go")
	binaries := flag.String("binaries", "", "folder of the product's programs (empty: bin)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := run(ctx, *runs, max(1, min(*parallel, *runs)), *seed, chaos.Options{Dir: *dir, Binaries: *binaries, Length: *length, Hollow: *hollow, Out: os.Stdout})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	fmt.Println(result.Kinds())
	fmt.Println(result)
	if err != nil || result.Violations > 0 {
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, runs, parallel int, text string, o chaos.Options) (result chaos.Result, err error) {
	seed, err := strconv.ParseUint(text, 10, 64)
	if text == "fresh" {
		seed, err = uint64(rand.Uint32()), nil
	}
	if err != nil {
		return result, fmt.Errorf("seed: %w", err)
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return result, err
	}
	if o.Binaries != "" {
		if o.Binaries, err = filepath.Abs(o.Binaries); err != nil {
			return result, err
		}
	}
	fmt.Printf("%d runs from seed %d on, %d at a time\n", runs, seed, parallel)
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		next  int
		errs  []error
	)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= runs || ctx.Err() != nil {
			return 0, false
		}
		next++
		return seed + uint64(next-1), true
	}
	done := func(one chaos.Result, err error) {
		mu.Lock()
		defer mu.Unlock()
		result.Add(one)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			errs = append(errs, err)
		}
	}
	for i := range parallel {
		dir := filepath.Join(o.Dir, fmt.Sprintf("cluster-%s-%d", time.Now().Format("150405"), i+1))
		group.Go(func() {
			for n := 1; work(ctx, fmt.Sprintf("%s-%d", dir, n), o, take, done); n++ {
				fmt.Fprintln(os.Stderr, "going on with a new control plane")
			}
		})
	}
	group.Wait()
	return result, errors.Join(errs...)
}

// work does runs on one control plane until none is left. It returns true if one could not be done, so that the control plane
// may be in any state.
func work(ctx context.Context, dir string, o chaos.Options, take func() (uint64, bool), done func(chaos.Result, error)) (again bool) {
	clean := true
	c, err := chaos.Start(ctx, dir)
	if err != nil {
		done(chaos.Result{}, err)
		return false
	}
	defer func() {
		if err := c.Stop(); err != nil {
			done(chaos.Result{}, err)
		} else if clean {
			_ = os.RemoveAll(dir)
		}
	}()
	for {
		seed, ok := take()
		if !ok {
			return false
		}
		one, err := chaos.Run(ctx, c, seed, o)
		clean = clean && err == nil && one.Violations == 0
		if err != nil {
			done(one, fmt.Errorf("seed %d: %w", seed, err))
			return ctx.Err() == nil
		}
		done(one, nil)
	}
}
