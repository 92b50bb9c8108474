// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2/ktesting"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Short names of the states.
const (
	starting = mesos.TASK_STARTING
	running  = mesos.TASK_RUNNING
	killing  = mesos.TASK_KILLING
	finished = mesos.TASK_FINISHED
	failed   = mesos.TASK_FAILED
	killed   = mesos.TASK_KILLED
)

// host is a node with its agent, its API server and a bridge.
type host struct {
	t     *testing.T
	agent *fakeAgent
	kube  *fakeKube
	opts  Options
	env   Environment
	token string // path of the token file

	cancel context.CancelFunc
	code   chan int
}

func newHost(t *testing.T) *host {
	h := &host{t: t, agent: newFakeAgent(t), kube: newFakeKube(t), opts: DefaultOptions()}
	h.opts.Kubeconfig, h.token = h.kube.kubeconfig()
	h.opts.NodeName = "node-1"
	h.opts.CgroupRoot = t.TempDir() // a host without cgroups of a kubelet
	h.env = Environment{
		FrameworkID: "framework-1", ExecutorID: "executor-1", AgentID: "agent-1",
		Endpoint: h.agent.endpoint(), Sandbox: t.TempDir(),
		RecoveryTimeout: time.Minute, ShutdownGrace: 10 * time.Second,
	}
	return h
}

// start starts the bridge; it ends with the test.
func (h *host) start() *host {
	_, ctx := ktesting.NewTestContext(h.t)
	ctx, h.cancel = context.WithCancel(ctx)
	h.code = make(chan int, 1)
	code := h.code
	go func() { code <- Run(ctx, h.opts, h.env) }()
	h.t.Cleanup(h.stop)
	return h
}

// stop ends the bridge as SIGKILL does, as far as tasks and pods are concerned.
func (h *host) stop() {
	if h.cancel != nil {
		h.cancel()
		h.cancel = nil
		<-h.code
	}
}

// wait returns the exit code of a bridge that ends by itself.
func (h *host) wait() int {
	h.t.Helper()
	select {
	case code := <-h.code:
		h.cancel()
		h.cancel = nil
		return code
	case <-time.After(20 * time.Second):
		h.t.Fatal("The bridge did not end")
		return -1
	}
}

func task(uid, name string) mesos.TaskInfo {
	return mesos.TaskInfo{
		Name: "ns/" + name, TaskID: mesos.TaskID{Value: uid + ".1"}, AgentID: mesos.AgentID{Value: "agent-1"},
		Data:       taskinfo.Reference{Namespace: "ns", Name: name, UID: uid, Node: "node-1", GraceSeconds: 30}.Marshal(),
		KillPolicy: &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: int64(30 * time.Second)}},
	}
}

func TestPodRunsAndSucceeds(t *testing.T) {
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.agent.awaitStates("u1.1", starting)
	h.kube.bind("a", "u1", "u1.1")
	h.kube.status("a", corev1.PodRunning)
	h.agent.awaitStates("u1.1", starting, running)
	h.kube.status("a", corev1.PodSucceeded)
	h.agent.awaitStates("u1.1", starting, running, finished)
}

func TestKillDeletesThePodAndWaitsForItsEnd(t *testing.T) {
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.kube.bind("a", "u1", "u1.1")
	h.kube.status("a", corev1.PodRunning)
	h.agent.awaitStates("u1.1", starting, running)
	h.agent.kill("u1.1", 0)
	if grace := h.kube.awaitDelete("a", 1); grace != 30 {
		t.Errorf("Deleted with grace %d, want the pod's 30", grace)
	}
	h.agent.kill("u1.1", 5*time.Second)
	if grace := h.kube.awaitDelete("a", 2); grace != 5 {
		t.Errorf("Deleted with grace %d, want the shorter 5", grace)
	}
	h.agent.awaitStates("u1.1", starting, running, killing)
	h.kube.remove("a")
	h.agent.awaitStates("u1.1", starting, running, killing, killed)
}

func TestRestartChangesNothing(t *testing.T) {
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.kube.bind("a", "u1", "u1.1")
	h.kube.status("a", corev1.PodRunning)
	h.agent.awaitStates("u1.1", starting, running)
	h.stop()
	h.start()
	call := h.agent.awaitSubscribed(2)
	if n := len(call.Subscribe.UnacknowledgedTasks); n != 0 {
		t.Errorf("SUBSCRIBE lists %d tasks, want none", n)
	}
	h.kube.status("a", corev1.PodFailed)
	h.agent.awaitStates("u1.1", starting, running, failed)
}

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

func TestAPIServerAway(t *testing.T) {
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.kube.bind("a", "u1", "u1.1")
	h.kube.status("a", corev1.PodRunning)
	h.agent.awaitStates("u1.1", starting, running)
	h.kube.set(func() { h.kube.down = true })
	h.kube.cut()
	// The second failed call comes after the first was taken notice of.
	h.kube.await("failed calls", func() bool { return h.kube.aborted >= 2 })
	h.agent.kill("u1.1", 0)
	h.agent.launch(task("u2", "b"))
	h.agent.kill("u2.1", 0)
	// Neither is reported killed while nobody can know.
	h.agent.awaitStates("u1.1", starting, running, killing)
	h.agent.awaitStates("u2.1", starting, killing)
	h.kube.set(func() { h.kube.down = false })
	h.kube.awaitDelete("a", 1)
	h.kube.remove("a")
	h.agent.awaitStates("u1.1", starting, running, killing, killed)
	h.agent.awaitStates("u2.1", starting, killing, killed)
}

func TestRefusedDeletionIsRepeated(t *testing.T) {
	h := newHost(t)
	refused := 0
	h.kube.refuse = func(r *http.Request) (int, metav1.StatusReason, string) {
		if r.Method == http.MethodDelete && refused < 3 {
			refused++
			return []int{403, 500, 409}[refused-1], []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInternalError, metav1.StatusReasonConflict}[refused-1], "not now"
		}
		return 0, "", ""
	}
	h.start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.kube.bind("a", "u1", "u1.1")
	h.kube.status("a", corev1.PodRunning)
	h.agent.awaitStates("u1.1", starting, running)
	h.agent.kill("u1.1", 0)
	h.kube.awaitDelete("a", 1)
	h.kube.remove("a")
	h.agent.awaitStates("u1.1", starting, running, killing, killed)
}

func TestPodRecreatedUnderTheSameName(t *testing.T) {
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.kube.bind("a", "u1", "u1.1")
	h.kube.status("a", corev1.PodRunning)
	h.agent.awaitStates("u1.1", starting, running)
	h.kube.remove("a")
	h.agent.awaitStates("u1.1", starting, running, killed)
	h.kube.bind("a", "u9", "u9.1")
	h.kube.status("a", corev1.PodRunning)
	h.agent.launch(task("u2", "a"))
	h.agent.kill("u2.1", 0)
	h.agent.awaitStates("u2.1", starting, killed)
	h.kube.set(func() {
		if len(h.kube.deletes) > 0 {
			t.Errorf("Pods were deleted: %v", h.kube.deletes)
		}
	})
}

func TestBindTimeout(t *testing.T) {
	h := newHost(t)
	h.opts.BindTimeout = 200 * time.Millisecond
	h.start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.agent.awaitStates("u1.1", starting, failed)
	if got := h.agent.message("u1.1"); !strings.Contains(got, "ns/a") || !strings.Contains(got, "200ms") {
		t.Errorf("Message is %q", got)
	}
	// The Binding comes late: the pod has no task any more.
	h.kube.bind("a", "u1", "u1.1")
	h.kube.awaitDelete("a", 1)
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

// X4, C44: the cgroup decides, not the API server.
func TestCgroupHoldsTheTask(t *testing.T) {
	h := newHost(t)
	dir := filepath.Join(h.opts.CgroupRoot, "kubepods.slice", "kubepods-podu1.slice")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	events := filepath.Join(dir, "cgroup.events")
	write(t, events, "populated 1\n")
	h.start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.agent.launch(task("u2", "b"))
	for _, p := range []string{"1", "2"} {
		name := map[string]string{"1": "a", "2": "b"}[p]
		h.kube.bind(name, "u"+p, "u"+p+".1")
		h.kube.status(name, corev1.PodRunning)
		h.agent.awaitStates("u"+p+".1", starting, running)
	}
	h.kube.remove("a")
	h.kube.remove("b")
	h.agent.awaitStates("u2.1", starting, running, killed)
	h.agent.awaitStates("u1.1", starting, running)
	write(t, events, "populated 0\n")
	h.agent.awaitStates("u1.1", starting, running, killed)
}

// C45: nobody confirms the end of a pod. The task ends after grace and margin, and the pod's owner can read it.
func TestUnconfirmedEnd(t *testing.T) {
	h := newHost(t)
	h.opts.KillMargin = 100 * time.Millisecond
	h.start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.kube.bind("a", "u1", "u1.1")
	h.kube.status("a", corev1.PodRunning)
	h.agent.awaitStates("u1.1", starting, running)
	h.agent.kill("u1.1", time.Second)
	h.agent.awaitStates("u1.1", starting, running, killing, killed)
	h.kube.await("an event", func() bool {
		return len(h.kube.events) == 1 && h.kube.events[0].InvolvedObject.UID == "u1" && h.kube.events[0].Reason == "MesosTaskReleased"
	})
}

func TestCredentialsRotate(t *testing.T) {
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.kube.bind("a", "u1", "u1.1")
	h.kube.status("a", corev1.PodRunning)
	h.agent.awaitStates("u1.1", starting, running)
	h.kube.set(func() { h.kube.token = "token-2" })
	write(t, h.token, "token-2")
	h.kube.cut()
	h.kube.status("a", corev1.PodSucceeded)
	h.agent.awaitStates("u1.1", starting, running, finished)
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
