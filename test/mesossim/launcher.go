// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// A Launcher starts executors.
type Launcher interface {
	// Launch starts an executor; ctx ends with the cluster. An error becomes TASK_FAILED REASON_CONTAINER_LAUNCH_FAILED
	// "Failed to launch container: <error>".
	Launch(ctx context.Context, l Launch) (Process, error)
}

// A Launch is what a launcher needs to know.
type Launch struct {
	Agent, FrameworkID, ExecutorID, ContainerID string
	Info                                        mesos.ExecutorInfo
	// Builtin says that this is the command of a task of a command or default executor, not an executor.
	Builtin bool
	// Directory is the sandbox. It exists.
	Directory string
	// Environment is the whole environment, as "NAME=value".
	Environment []string
}

// A Process is a running executor.
type Process interface {
	Pid() int
	// Wait returns the raw wait(2) status once the process has ended. It may be called by several goroutines.
	Wait() int
	// Kill kills it and everything it started, and does not wait.
	Kill()
}

// processLauncher runs the command of ExecutorInfo in a process group of its own. If this process dies by SIGKILL the
// kernel kills the executor (the group's leader) too.
type processLauncher struct{ onProcess func(pid int, alive bool) }

func (pl processLauncher) Launch(_ context.Context, l Launch) (Process, error) {
	command := l.Info.Command
	if command == nil {
		return nil, errors.New("the executor has no command")
	}
	var cmd *exec.Cmd
	if command.GetShell() {
		cmd = exec.Command("/bin/sh", "-c", command.GetValue())
	} else {
		cmd = exec.Command(command.GetValue())
		if args := command.GetArguments(); len(args) > 0 {
			cmd.Args = args
		}
	}
	cmd.Dir, cmd.Env = l.Directory, l.Environment
	cmd.SysProcAttr = processAttributes()
	stdout, err := os.OpenFile(filepath.Join(l.Directory, "stdout"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	stderr, err := os.OpenFile(filepath.Join(l.Directory, "stderr"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	p := &osProcess{cmd: cmd, done: make(chan struct{}), started: make(chan error), onProcess: pl.onProcess}
	go p.run()
	if err := <-p.started; err != nil {
		// A command that cannot be executed is no launch failure for Mesos: the launcher helper exits with 1.
		_, _ = fmt.Fprintf(stderr, "Failed to execute command: %v\n", err)
		return exitedProcess(1 << 8), nil
	}
	return p, nil
}

type osProcess struct {
	cmd     *exec.Cmd
	started chan error
	done    chan struct{}
	status  int

	onProcess func(pid int, alive bool)
}

func (p *osProcess) tell(alive bool) {
	if p.onProcess != nil {
		p.onProcess(p.cmd.Process.Pid, alive)
	}
}

func (p *osProcess) Pid() int { return p.cmd.Process.Pid }

func (p *osProcess) Wait() int {
	<-p.done
	return p.status
}

// Kill kills the process group. What is left of it when its leader ends is killed by run.
func (p *osProcess) Kill() {
	select {
	case <-p.done: // the number may belong to somebody else by now
	default:
		p.killGroup()
	}
}

// Terminate asks the process group to end.
func (p *osProcess) Terminate() {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	}
}

func (p *osProcess) killGroup() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// exitedProcess is a process that ended at once with the status.
type exitedProcess int

func (exitedProcess) Pid() int    { return 0 }
func (p exitedProcess) Wait() int { return int(p) }
func (exitedProcess) Kill()       {}
