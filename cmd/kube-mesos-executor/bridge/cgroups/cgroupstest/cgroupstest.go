// SPDX-License-Identifier: Apache-2.0

// Package cgroupstest makes real cgroups, with real processes in them, for tests.
package cgroupstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Kubepods makes a hierarchy as a kubelet has one, in the kernel's cgroups, and returns the directory above it. It
// skips the test where that is not allowed, and cleans up after it.
func Kubepods(t *testing.T) (root string) {
	t.Helper()
	const mount = "/sys/fs/cgroup"
	for _, base := range []string{mount, mount + "/memory", mount + "/pids", mount + "/systemd", mount + "/unified"} {
		if _, err := os.Stat(filepath.Join(base, "cgroup.procs")); err != nil {
			continue
		}
		dir, err := os.MkdirTemp(base, "executor-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { removeAll(dir) })
		if err := os.MkdirAll(filepath.Join(dir, "kubepods", "burstable"), 0o755); err != nil {
			t.Skip("This machine lets nobody make cgroups: ", err)
		}
		return dir
	}
	t.Skip("This machine lets nobody make cgroups")
	return ""
}

// removeAll removes a cgroup and those below it. Only directories can be removed: the files are the kernel's.
func removeAll(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeAll(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}

// Start starts a process in the cgroup of a container of the pod with the given UID, below root. The function that it
// returns ends the process.
func Start(t *testing.T, root, uid string) (stop func()) {
	t.Helper()
	container := filepath.Join(root, "kubepods", "burstable", "pod"+uid, "container")
	if err := os.MkdirAll(container, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(stop)
	if err := os.WriteFile(filepath.Join(container, "cgroup.procs"), fmt.Appendln(nil, cmd.Process.Pid), 0o644); err != nil {
		t.Skip("This machine does not let processes into cgroups: ", err)
	}
	return stop
}
