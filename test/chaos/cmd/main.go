// SPDX-License-Identifier: Apache-2.0

// Command cmd does runs of package chaos, one after the other, and says at last what they found.
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
	"syscall"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/test/chaos"
)

func main() {
	runs := flag.Int("runs", 3, "how many runs")
	seed := flag.String("seed", "1", `seed of the first run, each next one has the next; "fresh" draws it`)
	length := flag.Duration("length", 0, "for how long faults strike in each run (0: 25s)")
	dir := flag.String("dir", filepath.Join(".run", "chaos"), "where logs and records go")
	binaries := flag.String("binaries", "", "folder of the product's programs (empty: bin)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := run(ctx, *runs, *seed, chaos.Options{Dir: *dir, Binaries: *binaries, Length: *length, Out: os.Stdout})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	fmt.Println(result)
	if err != nil || result.Violations > 0 {
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, runs int, text string, o chaos.Options) (result chaos.Result, err error) {
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
	dir := filepath.Join(o.Dir, "cluster-"+time.Now().Format("150405"))
	c, err := chaos.Start(ctx, dir)
	if err != nil {
		return result, err
	}
	defer func() {
		err = errors.Join(err, c.Stop())
		if err == nil && result.Violations == 0 {
			err = os.RemoveAll(dir)
		}
	}()
	fmt.Printf("%d runs from seed %d on\n", runs, seed)
	for i := range runs {
		if err := result.Run(ctx, c, seed+uint64(i), o); err != nil {
			return result, fmt.Errorf("seed %d: %w", seed+uint64(i), err)
		}
	}
	return result, nil
}
