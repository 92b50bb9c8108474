// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// record is a file that lists the programs of a cluster, so that a later process can end a detached one.
type record struct {
	path string
	mu   sync.Mutex
}

// recorded is one line of the record. The start time tells a program from a later one with the same process id.
type recorded struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Start string `json:"start"`
}

func recordPath(dir string) string { return filepath.Join(dir, "processes") }

// add notes a started program. What cannot be noted is left out: the record is for tidying up only.
func (r *record) add(name string, pid int) {
	start, err := startTime(pid)
	if err != nil {
		return
	}
	line, err := json.Marshal(recorded{Name: name, PID: pid, Start: start})
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(append(line, '\n'))
}

func (r *record) remove() error {
	if err := os.Remove(r.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// startTime is when a process started, in clock ticks after boot.
func startTime(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the program's name in parentheses and may hold spaces; the start time is field 22.
	_, rest, ok := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat: unexpected form", pid)
	}
	if fields[0] == "Z" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return fields[19], nil
}

// Recorded returns the names of the programs of the cluster in dir that still run, in the order of their start.
func Recorded(dir string) ([]string, error) {
	all, err := readRecord(dir)
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}

// readRecord returns the recorded programs that still run.
func readRecord(dir string) ([]recorded, error) {
	f, err := os.Open(recordPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []recorded
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var p recorded
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		if start, err := startTime(p.PID); err == nil && start == p.Start {
			all = append(all, p)
		}
	}
	return all, lines.Err()
}

// StopRecorded ends the programs of a detached cluster in dir, the last started first: SIGTERM to those named in
// graceful, each with up to grace to end, and SIGKILL to the rest. It returns the names of those it ended.
func StopRecorded(dir string, grace time.Duration, graceful ...string) ([]string, error) {
	all, err := readRecord(dir)
	if err != nil {
		return nil, err
	}
	slices.Reverse(all)
	var ended []string
	for _, p := range all {
		if slices.Contains(graceful, p.Name) {
			_ = syscall.Kill(p.PID, syscall.SIGTERM)
			p.waitGone(grace)
		}
		// Every program leads a process group; the group may outlive it.
		if err := syscall.Kill(-p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return ended, fmt.Errorf("kill %s (pid %d): %w", p.Name, p.PID, err)
		}
		if !p.waitGone(10 * time.Second) {
			return ended, fmt.Errorf("%s (pid %d) does not end", p.Name, p.PID)
		}
		ended = append(ended, p.Name)
	}
	return ended, (&record{path: recordPath(dir)}).remove()
}

// waitGone waits until the program has ended and says whether it did within the limit. It is no child of this
// process, so its end can only be polled for.
func (p recorded) waitGone(limit time.Duration) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		if start, err := startTime(p.PID); err != nil || start != p.Start {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}
