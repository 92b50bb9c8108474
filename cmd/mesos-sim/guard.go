// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// guardArgument makes this program the guard.
const guardArgument = "--guard-executors"

// A guard is a child process that outlives mesos-sim by a moment: when mesos-sim is gone, by SIGKILL too, it kills the
// process groups of the executors that are left. (The kernel kills only their leaders.)
type guard struct {
	mu    sync.Mutex
	cmd   *exec.Cmd
	input io.WriteCloser
}

func startGuard() (*guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, guardArgument)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C at the terminal is not for it
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &guard{cmd: cmd, input: input}, nil
}

// note tells the guard of a process group that began or ended.
func (g *guard) note(pid int, alive bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	sign := "+"
	if !alive {
		sign = "-"
	}
	_, _ = fmt.Fprintf(g.input, "%s%d\n", sign, pid)
}

func (g *guard) end() {
	_ = g.input.Close()
	_ = g.cmd.Wait()
}

// runGuard is the guard itself: it reads "+pid" and "-pid" until its input ends with the death of mesos-sim.
func runGuard() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	groups := map[int]bool{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		pid, err := strconv.Atoi(strings.TrimLeft(lines.Text(), "+-"))
		if err != nil || pid <= 1 {
			continue
		}
		if strings.HasPrefix(lines.Text(), "-") {
			delete(groups, pid)
		} else {
			groups[pid] = true
		}
	}
	for pid := range groups {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}
