// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/cgroups/cgroupstest"
)

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

func TestC41_LateBinding(t *testing.T) {
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

// X4, I6: with real processes in real cgroups. The pod's object is removed by force while they live.
func TestC44_RealCgroupHoldsTheTask(t *testing.T) {
	h := newHost(t)
	h.opts.CgroupRoot = cgroupstest.Kubepods(t)
	stop := cgroupstest.Start(t, h.opts.CgroupRoot, "u1")
	h.start()
	h.agent.awaitSubscribed(1)
	for _, name := range []string{"1", "2"} {
		h.agent.launch(task("u"+name, "p"+name))
		h.kube.bind("p"+name, "u"+name, "u"+name+".1")
		h.kube.status("p"+name, corev1.PodRunning)
		h.agent.awaitStates("u"+name+".1", starting, running)
		h.kube.remove("p" + name)
	}
	// The second pod never had a process; when its task has ended, the first one's was looked at too.
	h.agent.awaitStates("u2.1", starting, running, killed)
	h.agent.awaitStates("u1.1", starting, running)
	stop()
	h.agent.awaitStates("u1.1", starting, running, killed)
}

// X4: the cgroup decides, not the API server.
func TestC44_CgroupHoldsTheTask(t *testing.T) {
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

// Nobody confirms the end of a pod. The task ends after grace and margin, and the pod's owner can read it.
func TestC45_UnconfirmedEnd(t *testing.T) {
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

// A pod that an agent's return finds held by a newer task of another executor stays.
func TestC38_KillOfAReplacedTask(t *testing.T) {
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u1", "a"))
	h.kube.bind("a", "u1", "u1.2")
	h.kube.status("a", corev1.PodRunning)
	h.agent.awaitStates("u1.1", starting, running)
	h.agent.kill("u1.1", 0)
	h.agent.awaitStates("u1.1", starting, running, killed)
	h.kube.set(func() {
		if len(h.kube.deletes) > 0 {
			t.Errorf("Pods were deleted: %v", h.kube.deletes)
		}
	})
}

// A KILL comes while the view of the pods lags behind a Binding: the pod is found and ended before the task is.
func TestKillWhileTheViewLags(t *testing.T) {
	h := newHost(t).start()
	h.agent.awaitSubscribed(1)
	h.agent.launch(task("u0", "z"))
	h.kube.bind("z", "u0", "u0.1")
	h.kube.status("z", corev1.PodRunning)
	h.agent.awaitStates("u0.1", starting, running) // the view is current
	h.agent.launch(task("u1", "a"))
	h.agent.awaitStates("u1.1", starting)
	h.kube.set(func() { h.kube.lagging = true })
	h.kube.bind("a", "u1", "u1.1")
	h.agent.kill("u1.1", 0)
	h.kube.awaitDelete("a", 1)
	h.agent.awaitStates("u1.1", starting, killing)
	h.kube.set(func() { h.kube.lagging = false })
	h.kube.remove("a")
	h.agent.awaitStates("u1.1", starting, killing, killed)
}
