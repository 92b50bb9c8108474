// SPDX-License-Identifier: Apache-2.0

// Command demo shows the main job on real parts: a Kubernetes control plane, kwok's nodes, a simulated Mesos cluster
// that starts real executors, and the scheduler as a second scheduler with the rights of the manifests.
//
//	demo       plays a story, says what happens, counts what got lost, and ends everything
//	demo up    leaves the same cluster running, with a kubeconfig in .run/kubeconfig
//	demo down  ends what `demo up` started
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "FAILED: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	state := filepath.Join(root, ".run")
	switch {
	case len(args) == 0:
		return demo(ctx, filepath.Join(state, "demo"))
	case len(args) == 1 && args[0] == "up":
		return up(ctx, state)
	case len(args) == 1 && args[0] == "down":
		return down(state)
	}
	return fmt.Errorf("usage: demo [up|down], not %q", args)
}
