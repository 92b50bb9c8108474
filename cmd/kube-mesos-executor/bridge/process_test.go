// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/executor"
	corev1 "k8s.io/api/core/v1"
)

// programDir is where program builds.
var programDir string

// program builds the executor, once, as it is shipped.
var program = sync.OnceValues(func() (string, error) {
	var err error
	if programDir, err = os.MkdirTemp("", "kube-mesos-executor-test-"); err != nil {
		return "", err
	}
	binary := filepath.Join(programDir, "kube-mesos-executor")
	build := exec.Command("go", "build", "-o", binary, "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
})

// process is the real program, with supervisor and bridge, started as an agent starts it.
type process struct {
	*host
	cmd *exec.Cmd
}

func newProcess(t *testing.T) *process {
	t.Helper()
	h := newHost(t)
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{host: h, cmd: exec.Command(binary, "--kubeconfig="+h.opts.Kubeconfig, "--node-name=node-1", "--cgroup-root="+h.opts.CgroupRoot, "--v=2")}
	p.cmd.Dir = h.env.Sandbox
	p.cmd.Env = []string{
		"MESOS_FRAMEWORK_ID=framework-1", "MESOS_EXECUTOR_ID=executor-1", "MESOS_SLAVE_ID=agent-1",
		"MESOS_AGENT_ENDPOINT=" + h.env.Endpoint, "MESOS_SANDBOX=" + h.env.Sandbox, "MESOS_DIRECTORY=" + h.env.Sandbox,
		"MESOS_CHECKPOINT=1", "MESOS_RECOVERY_TIMEOUT=15mins", "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD=5secs",
	}
	log, err := os.Create(filepath.Join(h.env.Sandbox, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		log.Close()
		if t.Failed() {
			b, _ := os.ReadFile(log.Name())
			t.Logf("The executor's log:\n%s", b)
		}
	})
	return p
}

// bridge returns the process id of the bridge.
func (p *process) bridge() int {
	p.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.cmd.Process.Pid, p.cmd.Process.Pid))
		if os.IsNotExist(err) {
			p.t.Skip("This kernel does not list children")
		}
		// The thread that starts children need not be the first one.
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
		for _, path := range threads {
			more, _ := os.ReadFile(path)
			b = append(b, more...)
		}
		if fields := strings.Fields(string(b)); len(fields) > 0 {
			if pid, err := strconv.Atoi(fields[0]); err == nil {
				return pid
			}
		}
		if time.Now().After(deadline) {
			p.t.Fatal("There is no bridge")
		}
		time.Sleep(time.Millisecond)
	}
}

// X1: a bridge killed by SIGKILL, again and again and while tasks begin and end, changes no task.
func TestKilledBridgeChangesNoTask(t *testing.T) {
	p := newProcess(t)
	p.agent.awaitSubscribed(1)
	const pods = 10
	for i := range pods {
		uid, name := fmt.Sprint("u", i), fmt.Sprint("p", i)
		p.agent.launch(task(uid, name))
		p.agent.awaitStates(uid+".1", starting)
		p.kube.bind(name, uid, uid+".1")
		p.kube.status(name, corev1.PodRunning)
	}
	for i := range pods {
		p.agent.awaitStates(fmt.Sprintf("u%d.1", i), starting, running)
	}
	for kill := range 3 {
		began := time.Now()
		if err := syscall.Kill(p.bridge(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p.kube.status(fmt.Sprint("p", kill), corev1.PodSucceeded)
		call := p.agent.awaitSubscribed(kill + 2)
		t.Logf("Subscribed again after %v", time.Since(began))
		if n := len(call.Subscribe.UnacknowledgedTasks); n != 0 {
			t.Errorf("SUBSCRIBE lists %d tasks", n)
		}
		p.agent.awaitStates(fmt.Sprintf("u%d.1", kill), starting, running, finished)
	}
	for i := 3; i < pods; i++ {
		p.agent.awaitStates(fmt.Sprintf("u%d.1", i), starting, running)
	}
	p.kube.set(func() {
		if len(p.kube.deletes) > 0 {
			t.Errorf("Pods were deleted: %v", p.kube.deletes)
		}
	})

	// A KILL is remembered over the death of the bridge.
	p.kube.set(func() { p.kube.down = true })
	p.kube.cut()
	p.agent.kill("u5.1", 3*time.Second)
	p.agent.awaitStates("u5.1", starting, running, killing)
	if err := syscall.Kill(p.bridge(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.kube.set(func() { p.kube.down = false })
	if grace := p.kube.awaitDelete("p5", 1); grace != 3 {
		t.Errorf("Deleted with grace %d, want 3", grace)
	}
	p.kube.remove("p5")
	p.agent.awaitStates("u5.1", starting, running, killing, killed)

	// SHUTDOWN ends both processes.
	p.agent.awaitSubscribed(5)
	p.agent.send(&executor.Event{Type: executor.Event_SHUTDOWN})
	for _, i := range []int{3, 4, 6, 7, 8, 9} {
		name := fmt.Sprint("p", i)
		p.kube.awaitDelete(name, 1)
		p.kube.remove(name)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("The executor ended with %v", err)
	}
}

// X7: it listens nowhere.
func TestNoListener(t *testing.T) {
	p := newProcess(t)
	p.agent.awaitSubscribed(1)
	inodes := map[string]bool{}
	for _, pid := range []int{p.cmd.Process.Pid, p.bridge()} {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil {
				inodes[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
			}
		}
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, _ := os.ReadFile(table)
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && inodes[f[9]] {
				t.Errorf("The executor listens on %s", f[1])
			}
		}
	}
}

// SIGTERM of the host's init is no order to end pods.
func TestSIGTERMTouchesNothing(t *testing.T) {
	p := newProcess(t)
	p.agent.awaitSubscribed(1)
	p.agent.launch(task("u1", "a"))
	p.kube.bind("a", "u1", "u1.1")
	p.kube.status("a", corev1.PodRunning)
	p.agent.awaitStates("u1.1", starting, running)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != ExitTerminated {
		t.Errorf("Exit code %d, want %d", got, ExitTerminated)
	}
	p.agent.awaitStates("u1.1", starting, running)
	p.kube.set(func() {
		if len(p.kube.deletes) > 0 {
			t.Errorf("Pods were deleted: %v", p.kube.deletes)
		}
	})
}
