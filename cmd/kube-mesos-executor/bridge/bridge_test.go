// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"os"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2/ktesting"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if programDir != "" {
			_ = os.RemoveAll(programDir)
		}
		os.Exit(code)
	}))
}

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
