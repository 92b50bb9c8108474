// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/metrics"
)

// commands are what the program does beside being an executor.
var commands = map[string]func(args []string) error{"install": runInstall, "metrics": runMetrics}

// runMetrics prints the metrics of all executors of a host as one scrape, or keeps a file with them up to date.
func runMetrics(args []string) error {
	var to string
	var every time.Duration
	fs := pflag.NewFlagSet(program+" metrics", pflag.ContinueOnError)
	fs.StringVar(&to, "to", "", "File to write, replaced in one step, instead of printing.")
	fs.DurationVar(&every, "every", 0, "Go on and write the file so often; 0 is once.")
	fs.Usage = func() {
		fmt.Fprintf(os.Stderr, "Usage: %s metrics [--to=FILE [--every=30s]] FOLDER\n\nPrints the metrics of all executors below FOLDER, a Mesos agent's --work_dir or a sandbox, in Prometheus' text format.\n\n%s", program, fs.FlagUsages())
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	switch {
	case fs.NArg() != 1 || !filepath.IsAbs(fs.Arg(0)):
		return fmt.Errorf("%s metrics wants one folder, the absolute path of a Mesos agent's --work_dir or of a sandbox, not %q", program, fs.Args())
	case to != "" && !filepath.IsAbs(to):
		return fmt.Errorf("--to=%s: must be an absolute path", to)
	case every < 0 || every > 0 && every < time.Second:
		return fmt.Errorf("--every=%v: must be 0 or at least 1s", every)
	case every > 0 && to == "":
		return errors.New("--every wants --to=FILE")
	}
	dir := fs.Arg(0)
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is no folder", dir)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if to == "" {
		return metrics.Collect(ctx, os.Stdout, dir)
	}
	for {
		err := writeMetrics(ctx, dir, to)
		if every == 0 {
			return err
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, program+":", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// writeMetrics replaces the file in one step, also if some executors did not answer.
func writeMetrics(ctx context.Context, dir, file string) error {
	var text bytes.Buffer
	err := metrics.Collect(ctx, &text, dir)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// The node exporter's textfile collector reads *.prom.
	next := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".new")
	if writeErr := os.WriteFile(next, text.Bytes(), 0o644); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	return errors.Join(err, os.Rename(next, file))
}
