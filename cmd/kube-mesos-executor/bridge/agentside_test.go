// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"testing"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/executor"
	corev1 "k8s.io/api/core/v1"
)

func TestAgentRestart(t *testing.T) {
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.kube.bind("a", "u1", "u1.1")
	h.kube.status("a", corev1.PodRunning)
	h.agent.awaitStates("u1.1", starting, running)

	// The agent restarts: its answers are those of recording R9. Meanwhile a pod ends.
	answers := []struct {
		code int
		text string
	}{{404, "404 Not Found."}, {503, "Agent has not finished recovery"}}
	n := 0
	h.agent.set(func() {
		h.agent.refuse = func(*executor.Call) (int, string) {
			n++
			a := answers[n%2]
			return a.code, a.text
		}
	})
	h.agent.disconnect()
	h.kube.status("a", corev1.PodSucceeded)
	began := time.Now()
	h.agent.await("five attempts", func() bool {
		h.agent.mu.Lock()
		defer h.agent.mu.Unlock()
		return n >= 5
	})
	if took := time.Since(began); took > 5*retryAfter+2*time.Second {
		t.Errorf("Five attempts took %v", took)
	}
	h.agent.set(func() { h.agent.refuse = nil })
	call := h.agent.awaitSubscribed(3)
	if got := call.Subscribe.UnacknowledgedUpdates; len(got) != 1 || got[0].Status.GetState() != finished {
		t.Errorf("SUBSCRIBE lists the updates %v, want FINISHED", got)
	}
	h.agent.awaitStates("u1.1", starting, running, finished)
}

// What was not acknowledged is listed, also by the next process (recordings E6 and R5).
func TestUnacknowledgedIsListed(t *testing.T) {
	h := newHost(t)
	h.agent.noAck = true
	h.start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.agent.awaitStates("u1.1", starting)
	for subscriptions := 2; subscriptions < 4; subscriptions++ {
		if subscriptions == 2 {
			h.agent.disconnect()
		} else {
			h.stop()
			h.start()
		}
		call := h.agent.awaitSubscribed(subscriptions)
		if got := call.Subscribe.UnacknowledgedTasks; len(got) != 1 || got[0].TaskID.Value != "u1.1" {
			t.Errorf("SUBSCRIBE lists the tasks %v", got)
		}
		if got := call.Subscribe.UnacknowledgedUpdates; len(got) != 1 || got[0].Status.GetState() != starting {
			t.Errorf("SUBSCRIBE lists the updates %v", got)
		}
	}
	h.agent.awaitStates("u1.1", starting)
}

// An update that the agent did not take is listed in the next SUBSCRIBE, which follows at once.
func TestFailedUpdate(t *testing.T) {
	for _, code := range []int{403, 500, 503} {
		h := newHost(t)
		refused := 0
		h.agent.refuse = func(c *executor.Call) (int, string) {
			if c.Type == executor.Call_UPDATE && refused < 2 {
				refused++
				return code, "no"
			}
			return 0, ""
		}
		h.start()
		h.agent.awaitSubscribed(1)
		h.agent.launch(task("u1", "a"))
		h.agent.awaitStates("u1.1", starting)
		h.stop()
	}
}

// An update that the agent finds fault with does not end the stream.
func TestInvalidUpdate(t *testing.T) {
	h := newHost(t)
	h.agent.refuse = func(c *executor.Call) (int, string) {
		if c.Type == executor.Call_UPDATE && c.Update.Status.TaskID.Value == "u1.1" {
			return 400, "Failed to validate Executor::Call: no"
		}
		return 0, ""
	}
	h.start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.agent.launch(task("u2", "b"))
	h.agent.awaitStates("u2.1", starting)
	h.agent.set(func() {
		if n := len(h.agent.subscribes); n != 1 {
			t.Errorf("%d subscriptions, want 1", n)
		}
	})
}

func TestShutdownWith110Pods(t *testing.T) {
	const pods = 110
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	name := func(i int) (uid, pod, id string) {
		return fmt.Sprint("u", i), fmt.Sprint("p", i), fmt.Sprintf("u%d.1", i)
	}
	for i := range pods {
		uid, pod, id := name(i)
		h.agent.launch(task(uid, pod))
		h.kube.bind(pod, uid, id)
		h.kube.status(pod, corev1.PodRunning)
	}
	for i := range pods {
		_, _, id := name(i)
		h.agent.awaitStates(id, starting, running)
	}
	began := time.Now()
	h.agent.send(&executor.Event{Type: executor.Event_SHUTDOWN})
	h.kube.await("the deletion of all pods", func() bool { return len(h.kube.deletes) == pods })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Asking for the deletion of %d pods took %v, more than the 5 s that an agent gives by default", pods, took)
	}
	for i := range pods {
		_, pod, _ := name(i)
		if grace := h.kube.awaitDelete(pod, 1); grace != 10 {
			t.Errorf("Pod %s deleted with grace %d, want the agent's 10", pod, grace)
		}
		h.kube.remove(pod)
	}
	if code := h.wait(); code != ExitDone {
		t.Errorf("Exit code %d, want %d", code, ExitDone)
	}
	for i := range pods {
		_, _, id := name(i)
		h.agent.awaitStates(id, starting, running, killing, killed)
	}
}

// A SHUTDOWN in place of SUBSCRIBED, when every task was killed before the executor was there (recording U9).
func TestShutdownOfAnUnusedExecutor(t *testing.T) {
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	h.agent.send(&executor.Event{Type: executor.Event_SHUTDOWN})
	if code := h.wait(); code != ExitDone {
		t.Errorf("Exit code %d, want %d", code, ExitDone)
	}
}

func TestUnknownToTheAgent(t *testing.T) {
	for _, text := range []string{"Framework cannot be found", "Executor cannot be found"} {
		h := newHost(t).start()
		h.agent.awaitSubscribed(1)
		h.agent.launch(task("u1", "a"))
		h.kube.bind("a", "u1", "u1.1")
		h.kube.status("a", corev1.PodRunning)
		h.agent.awaitStates("u1.1", starting, running)
		h.agent.set(func() { h.agent.refuse = func(*executor.Call) (int, string) { return 400, text } })
		h.agent.disconnect()
		h.kube.awaitDelete("a", 1)
		h.kube.remove("a")
		if code := h.wait(); code != ExitDone {
			t.Errorf("Exit code %d, want %d", code, ExitDone)
		}
	}
}

// A clean agent in the place of ours (recording A5b) knows no executor of old. The framework lives and holds the pods
// anew: they are left alone.
func TestAnotherAgent(t *testing.T) {
	h := newHost(t)
	h.env.AgentID = "agent-0"
	h.start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.kube.bind("a", "u1", "u1.1")
	h.kube.status("a", corev1.PodRunning)
	h.agent.awaitStates("u1.1", starting, running)
	h.agent.set(func() {
		h.agent.refuse = func(*executor.Call) (int, string) { return 400, "Framework cannot be found" }
	})
	h.agent.disconnect()
	if code := h.wait(); code != ExitAgentGone {
		t.Errorf("Exit code %d, want %d", code, ExitAgentGone)
	}
	h.kube.set(func() {
		if len(h.kube.deletes) > 0 {
			t.Errorf("Pods were deleted: %v", h.kube.deletes)
		}
	})
}

// X5: an agent that stays away deletes nothing; the executor ends with its last pod.
func TestAgentAwayForLong(t *testing.T) {
	h := newHost(t)
	h.env.RecoveryTimeout = 300 * time.Millisecond
	h.start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.kube.bind("a", "u1", "u1.1")
	h.kube.status("a", corev1.PodRunning)
	h.agent.awaitStates("u1.1", starting, running)
	h.agent.set(func() { h.agent.refuse = func(*executor.Call) (int, string) { return 503, "away" } })
	h.agent.disconnect()
	h.agent.await("attempts beyond the recovery timeout", func() bool {
		h.agent.mu.Lock()
		defer h.agent.mu.Unlock()
		return len(h.agent.subscribes) > 8
	})
	h.kube.status("a", corev1.PodSucceeded)
	if code := h.wait(); code != ExitAgentGone {
		t.Errorf("Exit code %d, want %d", code, ExitAgentGone)
	}
	h.kube.set(func() {
		if len(h.kube.deletes) > 0 {
			t.Errorf("Pods were deleted: %v", h.kube.deletes)
		}
	})
}

func TestMalformedTask(t *testing.T) {
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	bad := task("u1", "a")
	bad.Data = []byte("nonsense")
	h.agent.launch(bad)
	h.agent.awaitStates("u1.1", failed)
	h.agent.send(&executor.Event{Type: executor.Event_Type(99)})
	h.agent.send(&executor.Event{Type: executor.Event_KILL})
	h.agent.send(&executor.Event{Type: executor.Event_HEARTBEAT})
	h.agent.launch(task("u2", "b"))
	h.agent.awaitStates("u2.1", starting)
}

// After an upgrade an executor of an older digest drains beside the new one.
func TestC47_EachExecutorMindsItsOwnTasks(t *testing.T) {
	old, fresh := newHost(t), newHost(t)
	fresh.kube, fresh.opts.Kubeconfig = old.kube, old.opts.Kubeconfig
	for i, h := range []*host{old, fresh} {
		h.start()
		h.agent.awaitSubscribed(1)
		uid, name := fmt.Sprint("u", i), fmt.Sprint("p", i)
		h.agent.launch(task(uid, name))
		h.kube.bind(name, uid, uid+".1")
		h.kube.status(name, corev1.PodRunning)
		h.agent.awaitStates(uid+".1", starting, running)
	}
	old.agent.send(&executor.Event{Type: executor.Event_SHUTDOWN})
	old.kube.awaitDelete("p0", 1)
	old.kube.remove("p0")
	if code := old.wait(); code != ExitDone {
		t.Errorf("Exit code %d, want %d", code, ExitDone)
	}
	fresh.kube.status("p1", corev1.PodSucceeded)
	fresh.agent.awaitStates("u1.1", starting, running, finished)
	fresh.kube.set(func() {
		if n := len(fresh.kube.deletes); n != 1 {
			t.Errorf("%d deletions, want 1: %v", n, fresh.kube.deletes)
		}
	})
}

func TestExecutorToken(t *testing.T) {
	h := newHost(t)
	h.agent.token, h.env.Token = "secret", "secret"
	h.start()
	h.agent.awaitSubscribed(1)
}

// Several tasks, each with its own order of updates, over a stream that breaks all the time.
func TestOrderSurvivesBrokenStreams(t *testing.T) {
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	const pods = 20
	for i := range pods {
		uid, name := fmt.Sprint("u", i), fmt.Sprint("p", i)
		h.agent.launch(task(uid, name))
	}
	for i := range pods {
		h.agent.awaitStates(fmt.Sprintf("u%d.1", i), starting)
	}
	for i := range pods {
		uid, name := fmt.Sprint("u", i), fmt.Sprint("p", i)
		h.kube.bind(name, uid, uid+".1")
		h.kube.status(name, corev1.PodRunning)
		if i%5 == 0 {
			h.agent.disconnect()
		}
		h.kube.status(name, corev1.PodSucceeded)
	}
	for i := range pods {
		h.agent.awaitStates(fmt.Sprintf("u%d.1", i), starting, running, finished)
	}
}
