// SPDX-License-Identifier: Apache-2.0

// Package supervisor keeps a child process alive. The Mesos agent watches the supervisor: as long as it runs, the
// executor's container runs, and a child that crashed is back before anybody notices.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

const (
	// quick is the life below which a child counts as crashed at once.
	quick = 5 * time.Second
	// firstDelay and maxDelay bound the wait before a child that crashed at once is started again. A child that lived
	// for longer is started again without a wait.
	firstDelay = 20 * time.Millisecond
	maxDelay   = time.Second
	// stopTimeout is how long a child has to end after SIGTERM when it makes way for a newer version.
	stopTimeout = 2 * time.Second
	// RestartsVariable tells the child how often one before it has crashed, or was killed. It is in the environment so that
	// the count outlives an upgrade of the supervisor.
	RestartsVariable = "KUBE_MESOS_EXECUTOR_RESTARTS"
	// ExitFailed is the exit code if no child could be started before the supervisor had to stop.
	ExitFailed = 1
)

// Config says what to keep alive.
type Config struct {
	// Args are the arguments of the child, which runs this program's own executable.
	Args []string
	// Final says whether the child ended on purpose with an exit code, so that it is not to be started again.
	Final func(code int) bool
	// Version follows the executable on disk; nil means that upgrades are not looked for.
	Version *Version
}

// Supervisor runs one child at a time.
type Supervisor struct {
	cfg      Config
	logger   klog.Logger
	signals  chan os.Signal
	failures int
	stopping bool
	code     int
}

// Run starts the child, and starts it again whenever it ends, until it ends on purpose or the supervisor is told to
// stop by SIGTERM or SIGINT, which the child is told too. It returns the child's exit code, or 128 and the signal that
// killed it. On SIGHUP, and before each new start of the child, the process turns into the newer version if the
// executable on disk was replaced by one.
func Run(ctx context.Context, cfg Config) int {
	// The kernel kills the child when the thread that started it ends (PDEATHSIG): keep to one, which lives on.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &Supervisor{cfg: cfg, logger: klog.FromContext(ctx), signals: make(chan os.Signal, 16), code: ExitFailed}
	signal.Notify(s.signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(s.signals)
	adoptOrphans()
	for {
		began := time.Now()
		child, err := s.start()
		if err != nil {
			s.logger.Error(err, "Cannot start the child")
		} else if done := s.watch(child); done {
			return s.code
		}
		if s.pause(time.Since(began)) {
			return s.code
		}
		s.upgrade()
	}
}

// start starts the child from the image that this process runs, also if the file it came from is gone.
func (s *Supervisor) start() (*os.Process, error) {
	return os.StartProcess("/proc/self/exe", append([]string{os.Args[0]}, s.cfg.Args...), &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   childAttributes(),
	})
}

// watch hands signals on to the child until it has ended, and says whether the supervisor ends too.
func (s *Supervisor) watch(child *os.Process) (done bool) {
	ended := reap(child)
	var kill <-chan time.Time
	for {
		select {
		case sig := <-s.signals:
			switch {
			case sig != syscall.SIGHUP:
				s.stopping = true
				s.tell(child, syscall.SIGTERM)
			case s.stopping:
			case s.cfg.Version != nil && s.cfg.Version.Replaced():
				s.logger.Info("The executable was replaced, making way for it")
				s.tell(child, syscall.SIGTERM)
				kill = time.After(stopTimeout)
			default:
				s.logger.Info("SIGHUP: the executable is the one that runs, nothing to do")
			}
		case <-kill:
			s.tell(child, syscall.SIGKILL)
		case status := <-ended:
			s.code = exitCode(status)
			if s.stopping || status.Exited() && s.cfg.Final(s.code) {
				return true
			}
			if kill == nil {
				s.logger.Info("The child ended, starting it again", "status", describe(status))
				s.count()
			} else {
				s.failures = 0
			}
			return false
		}
	}
}

// count counts a crash.
func (s *Supervisor) count() {
	n, _ := strconv.Atoi(os.Getenv(RestartsVariable))
	if err := os.Setenv(RestartsVariable, strconv.Itoa(n+1)); err != nil {
		s.logger.Error(err, "Cannot count the child's restarts")
	}
}

func (s *Supervisor) tell(child *os.Process, sig syscall.Signal) {
	if err := child.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
		s.logger.Error(err, "Cannot signal the child", "signal", sig.String())
	}
}

// pause waits before the next start, for longer each time the child lived shortly, and says whether to stop instead.
func (s *Supervisor) pause(lived time.Duration) (stop bool) {
	if lived >= quick {
		s.failures = 0
	}
	delay := time.Duration(0)
	if s.failures > 0 {
		delay = min(maxDelay, firstDelay<<min(s.failures-1, 10))
	}
	s.failures++
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return false
		case sig := <-s.signals:
			// A SIGHUP has nothing to add: the newer version is looked for before the next start anyway.
			if sig != syscall.SIGHUP {
				return true
			}
		}
	}
}

// upgrade turns this process into the newer version of its executable, if there is one that can run with the same
// arguments. It keeps the process id, so that the agent sees the same executor.
func (s *Supervisor) upgrade() {
	if s.cfg.Version == nil || !s.cfg.Version.Replaced() {
		return
	}
	s.logger.Info("Turning into the newer executable", "path", s.cfg.Version.Path)
	if err := s.cfg.Version.Exec(); err != nil {
		s.logger.Error(err, "Cannot use the newer executable, going on with this one", "path", s.cfg.Version.Path)
	}
}

// exitCode is the exit code of a child, as a shell gives it.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "killed by " + status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}
