// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asCommand makes the test binary behave as mesos-sim.
const asCommand = "MESOS_SIM_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// inFolder counts the processes, zombies not, whose working directory is below the folder.
func inFolder(folder string) int {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	n := 0
	for _, link := range links {
		if dir, err := os.Readlink(link); err == nil && strings.HasPrefix(dir, folder) {
			n++
		}
	}
	return n
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
		time.Sleep(10 * time.Millisecond) // another process's state cannot be waited for
	}
}

// TestNoExecutorOutlivesTheCommand ends mesos-sim by each signal while a rival's tasks run as processes.
func TestNoExecutorOutlivesTheCommand(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			folder := t.TempDir()
			cmd := exec.Command(os.Args[0], "--listen", "127.0.0.1:0", "--work-dir", folder, "--allocation-interval", "20ms", "--rival", "other",
				"--agent", "name=a resources=cpus:2;mem:1024")
			cmd.Env = append(os.Environ(), asCommand+"=1")
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "agents: 1") {
			}
			waitFor(t, "the rival's tasks", func() bool { return inFolder(folder) >= 4 }) // two shells and their sleeps
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			err = cmd.Wait()
			if signal == syscall.SIGTERM && err != nil {
				t.Errorf("after SIGTERM: %v", err)
			}
			waitFor(t, "the end of the executors", func() bool { return inFolder(folder) == 0 })
		})
	}
}

func TestParseAgents(t *testing.T) {
	tests := []struct {
		text, err       string
		count           int
		first, resource string
	}{
		{text: "name=a", count: 1, first: "a"},
		{text: "name=a;resources=cpus:8;mem:16384;ports:[1-2];attributes=rack:r1;zone:z", count: 1, first: "a", resource: "cpus:8;mem:16384;ports:[1-2]"},
		{text: "name=a resources=cpus:8;mem:16384 count=3 synthetic=true", count: 3, first: "a-1", resource: "cpus:8;mem:16384"},
		{text: "resources=cpus:8", err: "name is missing"},
		{text: "name=a colour=red", err: `unknown key "colour"`},
		{text: "name=a count=0", err: "want a positive number"},
		{text: "name", err: "is no key=value"},
	}
	for _, tt := range tests {
		got, err := parseAgents(tt.text)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: %v, want %q", tt.text, err, tt.err)
			}
			continue
		}
		if err != nil || len(got) != tt.count || got[0].Name != tt.first || got[0].Resources != tt.resource {
			t.Errorf("%q: %+v, %v", tt.text, got, err)
		}
	}
}
