// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/metrics"
)

func serveMetrics(t *testing.T, dir, executor string) {
	t.Helper()
	l, err := metrics.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		done <- metrics.Serve(ctx, l, dir, func(context.Context) (*metrics.Snapshot, error) {
			return &metrics.Snapshot{Identity: metrics.Identity{ExecutorID: executor}}, nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A file for the node exporter is replaced again and again until the program is told to end.
func TestMetricsInAFile(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "executors.prom")
	await := func(want string) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		for {
			text, err := os.ReadFile(out)
			if err == nil && strings.Contains(string(text), want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%v: %q has no %q", err, text, want)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if err := runMetrics([]string{"--to=" + out, dir}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(out); err != nil || len(text) > 0 {
		t.Errorf("Without an executor: %v, %q", err, text)
	}
	done := make(chan error, 1)
	go func() { done <- runMetrics([]string{"--to=" + out, "--every=1s", dir}) }()
	serveMetrics(t, dir, "e1")
	await(`kube_mesos_executor_info{executor="e1",`)
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(filepath.Dir(out))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestBadCallsOfCommands(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"metrics"}, "wants one folder"},
		{[]string{"metrics", "a", "b"}, `["a" "b"]`},
		{[]string{"metrics", "work"}, "absolute path"},
		{[]string{"metrics", "/no/such/folder"}, "/no/such/folder"},
		{[]string{"metrics", file}, "is no folder"},
		{[]string{"metrics", "--to=x.prom", dir}, "--to=x.prom: must be an absolute path"},
		{[]string{"metrics", "--every=10s", dir}, "--every wants --to=FILE"},
		{[]string{"metrics", "--to=/x", "--every=10ms", dir}, "--every=10ms: must be 0 or at least 1s"},
		{[]string{"metrics", "--to=/no/such/folder/x", dir}, "/no/such/folder"},
		{[]string{"metrics", "--nonsense", dir}, "--nonsense"},
		{[]string{"install"}, "absolute path"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			code, text := captured(t, tt.args)
			if code != bridge.ExitUsage || !strings.Contains(text, tt.want) {
				t.Errorf("Exit code %d, %q, want %d and %q", code, text, bridge.ExitUsage, tt.want)
			}
		})
	}
}
