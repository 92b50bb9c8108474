// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// TestEndExecutors starts a program of the executor's name in a sandbox of ours, one elsewhere, and another program in
// our sandbox: only the first is ended.
func TestEndExecutors(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	if sleep, err = filepath.EvalSymlinks(sleep); err != nil || filepath.Base(sleep) != "sleep" {
		t.Skip("sleep is part of a larger program here, which looks at its name")
	}
	program, err := os.ReadFile(sleep)
	require.NoError(t, err)
	bin := t.TempDir()
	for _, name := range []string{"kube-mesos-executor", "other"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), program, 0o755))
	}
	ours, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(ours, "sandbox"), 0o755))
	start := func(name, dir string) *cluster.Process {
		p := &cluster.Process{Name: name, Path: filepath.Join(bin, name), Args: []string{"1000"}, Dir: dir, LogFile: filepath.Join(bin, "log")}
		require.NoError(t, p.Start())
		t.Cleanup(func() { require.NoError(t, p.Stop()) })
		return p
	}
	executor := start("kube-mesos-executor", filepath.Join(ours, "sandbox"))
	others := []*cluster.Process{start("other", filepath.Join(ours, "sandbox")), start("kube-mesos-executor", elsewhere)}

	require.NoError(t, endExecutors(ours))
	require.ErrorContains(t, executor.Wait(t.Context()), "killed")
	for _, p := range others {
		require.True(t, p.Running(), p.Name)
	}
}
