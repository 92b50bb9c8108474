// SPDX-License-Identifier: Apache-2.0

package supervisor_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/supervisor"
)

// The test's own executable plays the supervisor and its child: role and child are in the environment.
const (
	roleVariable  = "SUPERVISOR_TEST_ROLE"
	childVariable = "SUPERVISOR_TEST_CHILD"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "--check":
		os.Exit(0)
	case len(os.Args) > 1 && os.Args[1] == "--child":
		child()
	case os.Getenv(roleVariable) == "supervisor":
		version, err := supervisor.CurrentVersion([]string{"--check"})
		if err != nil {
			fmt.Println(err)
			os.Exit(99)
		}
		fmt.Println("supervisor", os.Getpid())
		os.Exit(supervisor.Run(context.Background(), supervisor.Config{
			Args:    []string{"--child"},
			Final:   func(code int) bool { return code == 0 || code == 64 },
			Version: version,
		}))
	default:
		os.Exit(m.Run())
	}
}

// child says its process id and what version it is of, and then what the test asked for.
func child() {
	fmt.Println("child", os.Getpid())
	fmt.Println("restarts", os.Getenv(supervisor.RestartsVariable))
	switch what, arg, _ := strings.Cut(os.Getenv(childVariable), " "); what {
	case "exit":
		code, _ := strconv.Atoi(arg)
		os.Exit(code)
	case "orphan":
		// A grandchild that outlives its parent, so that the supervisor inherits it.
		cmd := exec.Command("sh", "-c", "sleep 0.1; exit 3")
		if err := cmd.Start(); err != nil {
			os.Exit(98)
		}
		fmt.Println("orphan", cmd.Process.Pid)
		os.Exit(1)
	case "term":
		ch := make(chan os.Signal, 1)
		signal.Notify(ch, syscall.SIGTERM)
		fmt.Println("ready")
		<-ch
		os.Exit(17)
	default:
		select {}
	}
}

type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	ended chan struct{}
}

// run starts a supervisor from a copy of the test's executable.
func run(t *testing.T, child string) (*process, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "executable")
	install(t, path)
	p := &process{t: t, cmd: exec.Command(path), lines: make(chan string, 1000), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), roleVariable+"=supervisor", childVariable+"="+child)
	p.cmd.Stderr = io.Discard
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		s := bufio.NewScanner(out)
		for s.Scan() {
			select {
			case p.lines <- s.Text():
			default:
			}
		}
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p, path
}

// install puts a copy of the test's executable at path, as an upgrade does: a new file takes the place of the old one.
func install(t *testing.T, path string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", b, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// next returns the number in the next line that begins with word.
func (p *process) next(word string) int {
	p.t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case line := <-p.lines:
			if rest, ok := strings.CutPrefix(line, word); ok {
				n, _ := strconv.Atoi(strings.TrimSpace(rest))
				return n
			}
		case <-timeout:
			p.t.Fatalf("Waited in vain for %q", word)
		}
	}
}

func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(20 * time.Second):
		p.t.Fatal("The supervisor does not end")
		return 0
	}
}

// dead waits until there is no such process.
func dead(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return
		}
		// A zombie that nobody but this machine's init has to reap is dead enough.
		if i := strings.LastIndex(string(b), ") "); i > 0 && b[i+2] == 'Z' {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Process %d lives on", pid)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestKilledChildIsBackSoon(t *testing.T) {
	p, _ := run(t, "wait")
	p.next("supervisor")
	pid := p.next("child")
	p.next("restarts")
	began := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if again := p.next("child"); again == pid {
		t.Error("The same child again")
	}
	if n := p.next("restarts"); n != 1 {
		t.Errorf("It is told of %d restarts, want 1", n)
	}
	if took := time.Since(began); took > 200*time.Millisecond {
		t.Logf("The child was back after %v; the aim is 200 ms", took)
		if took > 2*time.Second {
			t.Error("That is far too long")
		}
	}
}

func TestEndOnPurpose(t *testing.T) {
	for _, code := range []int{0, 64} {
		p, _ := run(t, fmt.Sprint("exit ", code))
		if got := p.exit(); got != code {
			t.Errorf("The supervisor ends with %d, want %d", got, code)
		}
	}
}

// A child that crashes at once is started again for ever, with waits that stay short.
func TestCrashLoop(t *testing.T) {
	p, _ := run(t, "exit 2")
	began := time.Now()
	const starts = 7
	for range starts {
		p.next("child")
	}
	// 0 + 20 + 40 + 80 + 160 + 320 ms at least.
	if took := time.Since(began); took < 600*time.Millisecond || took > 20*time.Second {
		t.Errorf("%d starts took %v", starts, took)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// The child's 2 between two starts; a child that was just there is killed by the signal.
	if got := p.exit(); got != 2 && got != 128+int(syscall.SIGTERM) {
		t.Errorf("Told to stop, the supervisor ends with %d", got)
	}
}

func TestSIGTERMIsPassedOn(t *testing.T) {
	p, _ := run(t, "term")
	pid := p.next("child")
	p.next("ready")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := p.exit(); got != 17 {
		t.Errorf("The supervisor ends with %d, want the child's 17", got)
	}
	dead(t, pid)
}

// A SIGTERM to the child alone is no order to the supervisor.
func TestTerminatedChildIsBack(t *testing.T) {
	p, _ := run(t, "wait")
	pid := p.next("child")
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.next("child")
}

func TestChildDiesWithTheSupervisor(t *testing.T) {
	p, _ := run(t, "wait")
	pid := p.next("child")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	dead(t, pid)
}

func TestOrphansAreReaped(t *testing.T) {
	p, _ := run(t, "orphan")
	pid := p.next("orphan")
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Process %d is still there", pid)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestUpgrade(t *testing.T) {
	hup := func(p *process) {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("SIGHUP without a newer version does nothing", func(t *testing.T) {
		p, _ := run(t, "wait")
		p.next("supervisor")
		pid := p.next("child")
		hup(p)
		// The supervisor takes signals in order: if the SIGHUP had an effect, it came before this one's.
		if err := syscall.Kill(pid, 0); err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if got, want := p.exit(), 128+int(syscall.SIGTERM); got != want {
			t.Errorf("The supervisor ends with %d, want %d", got, want)
		}
	})
	t.Run("SIGHUP with one turns the same process into it", func(t *testing.T) {
		p, path := run(t, "wait")
		pid := p.next("supervisor")
		old := p.next("child")
		p.next("restarts")
		install(t, path)
		hup(p)
		if again := p.next("supervisor"); again != pid {
			t.Errorf("Process %d became %d", pid, again)
		}
		if fresh := p.next("child"); fresh == old {
			t.Error("The old child runs on")
		}
		if n := p.next("restarts"); n != 0 {
			t.Errorf("%d restarts, though an upgrade is none", n)
		}
		dead(t, old)
	})
	t.Run("so does the child's next start", func(t *testing.T) {
		p, path := run(t, "wait")
		pid := p.next("supervisor")
		old := p.next("child")
		p.next("restarts")
		install(t, path)
		if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if again := p.next("supervisor"); again != pid {
			t.Errorf("Process %d became %d", pid, again)
		}
		p.next("child")
		if n := p.next("restarts"); n != 1 {
			t.Errorf("%d restarts, want 1 also after the upgrade", n)
		}
	})
	t.Run("a version that does not work is left alone", func(t *testing.T) {
		for name, content := range map[string]string{"no program": "garbage", "one that refuses": "#!/bin/sh\nexit 1\n"} {
			p, path := run(t, "wait")
			p.next("supervisor")
			old := p.next("child")
			if err := os.WriteFile(path+".new", []byte(content), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
			hup(p)
			if fresh := p.next("child"); fresh == old {
				t.Errorf("%s: the old child again", name)
			}
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", p.cmd.Process.Pid)); err != nil {
				t.Errorf("%s: the supervisor is gone", name)
			}
		}
	})
}
