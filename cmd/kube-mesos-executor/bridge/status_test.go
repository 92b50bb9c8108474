// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/executor"
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/metrics"
)

// awaitMetrics waits until each of the given lines, without prefix and the label executor, is served.
func (h *host) awaitMetrics(lines ...string) {
	h.t.Helper()
	var missing []string
	var text bytes.Buffer
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		text.Reset()
		if err := metrics.Collect(h.t.Context(), &text, h.env.Sandbox); err != nil {
			h.t.Fatal(err)
		}
		missing = nil
		for _, l := range lines {
			name, rest, _ := strings.Cut(l, "{")
			if rest == "" {
				name, rest, _ = strings.Cut(l, " ")
				rest = "} " + rest
			} else {
				rest = "," + rest
			}
			if want := fmt.Sprintf("\nkube_mesos_executor_%s{executor=%q%s\n", name, h.env.ExecutorID, rest); !strings.Contains(text.String(), want) {
				missing = append(missing, want)
			}
		}
		if len(missing) == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	h.t.Fatalf("Not served: %q in\n%s", missing, &text)
}

func TestMetricsOfTheRunningProgram(t *testing.T) {
	p := newProcess(t)
	p.agent.awaitSubscribed(1)
	p.awaitMetrics(`agent_subscribed 1`, `agent_away_seconds 0`, `agent_subscriptions_total 1`, `pods_current 1`, `bridge_restarts_total 0`,
		`tasks{state="RUNNING"} 0`, `unacknowledged_updates 0`)
	for _, n := range []string{"1", "2"} {
		p.agent.launch(task("u"+n, "p"+n))
		p.agent.awaitStates("u"+n+".1", starting)
		p.kube.bind("p"+n, "u"+n, "u"+n+".1")
		p.kube.status("p"+n, corev1.PodRunning)
		p.agent.awaitStates("u"+n+".1", starting, running)
	}
	p.agent.launch(task("u3", "p3"))
	p.awaitMetrics(`tasks{state="STARTING"} 1`, `tasks{state="RUNNING"} 2`, `updates_total{state="STARTING"} 3`, `updates_total{state="RUNNING"} 2`,
		`update_sends_total{outcome="taken"} 5`, `acknowledgements_total 5`, `unacknowledged_updates 0`, `kills_in_progress 0`)

	// A kill is in progress until the pod is gone.
	p.agent.kill("u1.1", 5*time.Second)
	p.kube.awaitDelete("p1", 1)
	p.awaitMetrics(`kills_in_progress 1`, `tasks{state="KILLING"} 1`, `pod_deletions_total{outcome="accepted"} 1`)
	p.kube.remove("p1")
	p.awaitMetrics(`kills_in_progress 0`, `updates_total{state="KILLED"} 1`, `longest_kill_seconds 0`)

	// A bridge that was killed is counted, and the next one serves in its place what it knows.
	if err := syscall.Kill(p.bridge(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.agent.awaitSubscribed(2)
	p.awaitMetrics(`bridge_restarts_total 1`, `tasks{state="RUNNING"} 1`, `updates_total{state="RUNNING"} 0`, `pods_current 1`)

	// The program prints the same for all executors of a host.
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary, "metrics", p.env.Sandbox).CombinedOutput(); err != nil || !strings.Contains(string(out), "\nkube_mesos_executor_info{executor=\"executor-1\",version=") {
		t.Errorf("%v: %s", err, out)
	}

	// Both sides go away.
	p.agent.set(func() { p.agent.noAck = true })
	p.kube.set(func() { p.kube.down = true })
	p.kube.cut()
	p.agent.kill("u2.1", time.Second)
	p.awaitMetrics(`pods_current 0`, `unacknowledged_updates 1`, `kills_in_progress 1`)
	p.agent.set(func() {
		p.agent.refuse = func(*executor.Call) (int, string) { return 503, "Agent has not finished recovery" }
	})
	p.agent.disconnect()
	p.awaitMetrics(`agent_subscribed 0`)
	p.kube.set(func() { p.kube.down = false })
	p.agent.set(func() { p.agent.refuse, p.agent.noAck = nil, false })
	p.awaitMetrics(`agent_subscribed 1`, `unacknowledged_updates 0`)

	// It ends with the executor.
	p.agent.send(&executor.Event{Type: executor.Event_SHUTDOWN})
	p.kube.awaitDelete("p2", 1)
	p.kube.remove("p2")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("The executor ended with %v", err)
	}
	if _, err := os.Stat(filepath.Join(p.env.Sandbox, metrics.SocketName)); !os.IsNotExist(err) {
		t.Errorf("The socket is still there: %v", err)
	}
}

// An executor that cannot serve metrics does its work all the same.
func TestSandboxWithoutASocket(t *testing.T) {
	h := newHost(t)
	// A folder with something in it cannot be replaced.
	if err := os.MkdirAll(filepath.Join(h.env.Sandbox, metrics.SocketName, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.agent.awaitStates("u1.1", starting)
}
