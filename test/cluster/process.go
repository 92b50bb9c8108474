// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program that can be started, signalled, stopped, killed and started again. It runs in a process group
// of its own and dies with the process that started it, unless it is detached. Its methods may be called from any
// goroutine.
type Process struct {
	// Name says what it is; its log is named after it.
	Name string
	// Path is the program, Args are its arguments without the program's name.
	Path string
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// Dir is the working directory; empty means this process' own.
	Dir string
	// LogFile receives what the program writes; it is appended to over restarts.
	LogFile string
	// Detached lets the program outlive this process.
	Detached bool
	// StopGrace is what Stop waits between SIGTERM and SIGKILL. Zero means that Stop kills at once, as it fits
	// programs that keep nothing worth a graceful end.
	StopGrace time.Duration

	// started is called with each new process id.
	started func(pid int)

	mu  sync.Mutex
	run *run
}

// run is one life of a Process.
type run struct {
	pid  int
	done chan struct{}
	err  error // valid once done is closed
}

// Start starts the program. It fails if it runs already.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil && p.run.alive() {
		return fmt.Errorf("%s runs already (pid %d)", p.Name, p.run.pid)
	}
	if err := os.MkdirAll(filepath.Dir(p.LogFile), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir = p.Dir
	cmd.Env = append(environment(), p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if p.Detached {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	} else {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	}
	r := &run{done: make(chan struct{})}
	startErr := make(chan error, 1)
	go func() {
		// The kernel sends the death signal when the thread that forked ends, so this goroutine keeps its thread for
		// as long as the program lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		if err := cmd.Start(); err != nil {
			startErr <- err
			return
		}
		r.pid = cmd.Process.Pid
		startErr <- nil
		r.err = cmd.Wait()
		close(r.done)
	}()
	if err := <-startErr; err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.run = r
	if p.started != nil {
		p.started(r.pid)
	}
	return nil
}

// environment is this process' own without what would lead a client to another cluster.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "KUBECONFIG=") || strings.HasPrefix(kv, "KUBERNETES_SERVICE_")
	})
}

func (r *run) alive() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// Running says whether the program runs.
func (p *Process) Running() bool {
	r := p.current()
	return r != nil && r.alive()
}

// PID is the process id of the current or last run, 0 before the first.
func (p *Process) PID() int {
	if r := p.current(); r != nil {
		return r.pid
	}
	return 0
}

// closed is what Done returns for a program that was never started.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done is closed when the current run has ended.
func (p *Process) Done() <-chan struct{} {
	if r := p.current(); r != nil {
		return r.done
	}
	return closed
}

// Wait waits until the current run has ended and returns how: nil for exit code 0, else an *exec.ExitError.
func (p *Process) Wait(ctx context.Context) error {
	r := p.current()
	if r == nil {
		return fmt.Errorf("%s was never started", p.Name)
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the end of %s: %w", p.Name, context.Cause(ctx))
	}
}

// Signal sends a signal to the program alone, not to its children.
func (p *Process) Signal(sig syscall.Signal) error {
	r := p.current()
	if r == nil || !r.alive() {
		return fmt.Errorf("%s does not run", p.Name)
	}
	if err := syscall.Kill(r.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %v to %s: %w", sig, p.Name, err)
	}
	return nil
}

// Kill ends the program alone with SIGKILL and waits until it is gone. Its children live on. It is no error if it does
// not run.
func (p *Process) Kill() error {
	r := p.current()
	if r == nil || !r.alive() {
		return nil
	}
	if err := syscall.Kill(r.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	<-r.done
	return nil
}

// Stop ends the program: SIGTERM, up to StopGrace of patience, then SIGKILL to whatever is left of its process group.
// It is no error if it does not run.
func (p *Process) Stop() error {
	r := p.current()
	if r == nil {
		return nil
	}
	if r.alive() && p.StopGrace > 0 {
		if err := p.Signal(syscall.SIGTERM); err != nil && r.alive() {
			return err
		}
		select {
		case <-r.done:
		case <-time.After(p.StopGrace):
		}
	}
	// The group outlives its leader, and its number cannot be given to another process while it has members.
	if err := syscall.Kill(-r.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill the process group of %s: %w", p.Name, err)
	}
	<-r.done
	return nil
}

// Restart stops the program and starts it again.
func (p *Process) Restart() error {
	if err := p.Stop(); err != nil {
		return err
	}
	return p.Start()
}

// LogTail returns the last lines of the log, for messages about a failure.
func (p *Process) LogTail(lines int) string {
	const most = 64 << 10
	f, err := os.Open(p.LogFile)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(bytes.ToValidUTF8(b, []byte("?"))), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// WaitUntil waits until cond returns nil. It gives up when ctx ends or the program does, and then says why with the
// last lines of the log.
func (p *Process) WaitUntil(ctx context.Context, what string, cond func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func(done <-chan struct{}) {
		select {
		case <-done:
			cancel(fmt.Errorf("%s has ended", p.Name))
		case <-ctx.Done():
		}
	}(p.Done())
	if err := Wait(ctx, what, cond); err != nil {
		return fmt.Errorf("%w\nlast lines of %s:\n%s", err, p.LogFile, p.LogTail(15))
	}
	return nil
}
