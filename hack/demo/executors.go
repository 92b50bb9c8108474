// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// endExecutors kills the executors that work in a sandbox below dir. Executors outlive their agent, as they must on a
// real one, so a simulator that was killed leaves them behind.
func endExecutors(dir string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// The links of other users' processes and of processes that just ended cannot be read.
		program, err := os.Readlink(filepath.Join("/proc", entry.Name(), "exe"))
		if err != nil || filepath.Base(strings.TrimSuffix(program, " (deleted)")) != "kube-mesos-executor" {
			continue
		}
		folder, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		if err != nil || !strings.HasPrefix(folder, dir+string(filepath.Separator)) {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("kill executor %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}
