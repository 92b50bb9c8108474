// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// Claiming and releasing is the identity, whatever is claimed, in any order.
func TestClaimAndReleaseIsTheIdentity(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:8192;disk:100;ports:[31000-31010]"))
	whole, ports := b.headroom("S1"), b.view("S1").Ports(needOf(0, 0)).String()
	needs := map[string]resources.Need{
		"a": needOf(1, 1), "b": needOf(333, 77, 31000), "c": {Amounts: resources.Amounts{CPUs: 1000, Mem: 1, Disk: 100_000}, Role: role}, "d": needOf(2566, 1, 31001, 31010),
	}
	for range 3 {
		left := whole
		for name, n := range needs {
			b.mustClaim(name, n, "S1")
			left = left.Sub(n.Amounts)
			if got := b.headroom("S1"); got != left {
				t.Fatalf("after %s: %s, want %s", name, got, left)
			}
			if err := b.claim(name, n, "S1"); err != nil || b.headroom("S1") != left {
				t.Fatalf("a second claim of %s moves something: %v", name, err)
			}
		}
		for name := range needs {
			b.Release(types.UID(name))
			b.Release(types.UID(name))
			b.audit()
		}
		if got := b.headroom("S1"); got != whole {
			t.Fatalf("headroom %s, want %s", got, whole)
		}
		if got := b.view("S1").Ports(needOf(0, 0)).String(); got != ports {
			t.Fatalf("ports %s, want %s", got, ports)
		}
	}
	b.Release("never seen")
}

func TestC09_PortsAreClaimedAsASetOfNumbers(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:8192;ports:[53-53,8000-9000]"))
	b.mustClaim("a", needOf(1000, 64, 53, 8300, 8301, 8302, 8400), "S1")
	if got := b.fit("S1", needOf(10, 32, 8301)); got != ReasonPorts {
		t.Errorf("8301/UDP beside 8301/TCP: %q", got)
	}
	if err := b.claim("b", needOf(10, 32, 8301), "S1"); !errors.Is(err, ErrNoRoom) {
		t.Errorf("%v", err)
	}
	batch := b.mustBatch("S1", "a")
	var got []mesos.Value_Range
	for _, r := range batch.Launches[0].Resources {
		if r.Name == "ports" {
			got = append(got, r.Ranges.Range...)
		}
	}
	if diff := cmp.Diff([]mesos.Value_Range{{Begin: 53, End: 53}, {Begin: 8300, End: 8302}, {Begin: 8400, End: 8400}}, got); diff != "" {
		t.Errorf("the task's ports (-want,+got):\n%s", diff)
	}
	if got := b.fit("S1", needOf(10, 32, 8301)); got != ReasonPorts {
		t.Errorf("what is launched is not free: %q", got)
	}
	if got := b.fit("S1", needOf(10, 32, 8303)); got != Fits {
		t.Errorf("the rest is expected back: %q", got)
	}
	// All ports of the offer: nothing of them is left to expect.
	b.add(b.offer("O2", "S1", "cpus:1;mem:128;ports:[53-53]"))
	b.says(b.task("a").ID, "S1", mesos.TASK_STARTING)
	b.mustClaim("c", needOf(100, 32, 53), "S1")
	b.mustBatch("S1", "c")
}

// Chaos seed 4193222533: a launch was repeated on an agent whose record had gone with the last task on it, so that the claim was
// charged to nothing and discharged, with its port, from the agent that came back.
func TestRetryOnAnAgentThatIsGone(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096;ports:[31000-31009]"))
	need := needOf(1000, 1024, 31000)
	b.mustClaim("a", need, "S1")
	b.mustClaim("b", needOf(1000, 1024), "S1")
	b.mustBatch("S1", "a", "b")
	b.AgentGone("S1")
	b.says(b.task("a").ID, "S1", mesos.TASK_GONE)
	b.Kill("b")
	b.says(b.task("b").ID, "S1", mesos.TASK_GONE)
	b.none("b")
	if b.Retry("a") {
		t.Error("repeated on an agent that is gone")
	}
	b.add(b.offer("O2", "S1", "cpus:4;mem:4096;ports:[31000-31009]"))
	if batch := b.batch("S1", "a"); batch != nil {
		t.Errorf("launched %+v", batch.Launches)
	}
	b.Release("a")
	if got := b.headroom("S1"); got.CPUs != 4000-b.options.Executor.Amounts.CPUs {
		t.Errorf("headroom %+v", got)
	}
	b.audit()
}

func TestC10_ReasonsForPorts(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:8192;ports:[31000-32000]"))
	if got := b.fit("S1", needOf(100, 64, 80)); got != ReasonPorts {
		t.Errorf("port 80: %q", got)
	}
	b.mustClaim("b", needOf(100, 64, 31081), "S1")
	if err := b.claim("b2", needOf(100, 64, 31081), "S1"); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a second pod with port 31081: %v", err)
	}
	b.mustClaim("c", needOf(100, 64), "S1")
}

func TestC35_TheLaunchWasSentAndNothingCameBack(t *testing.T) {
	begin := func(t *testing.T) (*book, Task) {
		b := newBook(t)
		b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
		b.mustClaim("p", needOf(1000, 1024), "S1")
		b.Unclear(b.mustBatch("S1", "p"))
		b.add(b.offer("O2", "S1", "cpus:4;mem:8192"))
		if b.batch("S1", "p") != nil || b.Retry("p") {
			t.Error("a second launch while the first is not settled")
		}
		if got := b.Dooms(0, time.Second); got != nil {
			t.Errorf("a KILL says nothing of an ACCEPT that may still come: %v", got)
		}
		if got := b.Unanswered(); got != nil {
			t.Errorf("asked before the fence: %v", got)
		}
		return b, b.task("p")
	}
	fence := func(t *testing.T, b *book, task Task) {
		t.Helper()
		if diff := cmp.Diff([]Fence{{OfferIDs: []string{"O1"}, Tasks: []Doomed{{TaskID: task.ID, AgentID: "S1"}}}}, b.Fences()); diff != "" {
			t.Errorf("fence (-want,+got):\n%s", diff)
		}
		b.Fenced([]string{task.ID})
		b.audit()
		if got := b.Fences(); len(got) != 0 {
			t.Errorf("fenced twice: %v", got)
		}
		if diff := cmp.Diff([]Query{{task.ID, "S1"}}, b.Unanswered()); diff != "" {
			t.Errorf("queries (-want,+got):\n%s", diff)
		}
	}
	t.Run("a: the master got it", func(t *testing.T) {
		b, task := begin(t)
		b.says(task.ID, "S1", mesos.TASK_STARTING)
		if got := b.task("p"); got.State != Starting || got.ID != task.ID {
			t.Errorf("%s %s: the task is adopted", got.State, got.ID)
		}
	})
	t.Run("b: it did not", func(t *testing.T) {
		b, task := begin(t)
		// The answer before the fence proves nothing: the calls travel on different connections.
		for _, s := range []mesos.TaskState{mesos.TASK_GONE, mesos.TASK_UNKNOWN, mesos.TASK_LOST} {
			b.because(task.ID, "S1", s, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
			if got := b.task("p").State; got != Unclear {
				t.Fatalf("%s before the fence: %s", s, got)
			}
		}
		fence(t, b, task)
		b.because(task.ID, "S1", mesos.TASK_GONE, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
		if !b.Retry("p") {
			t.Fatal("the pod is retried")
		}
		b.mustBatch("S1", "p")
		if got := b.task("p").ID; got == task.ID {
			t.Error("the new attempt has the old id")
		}
	})
	t.Run("a new subscription is a fence, too", func(t *testing.T) {
		b, task := begin(t)
		b.SetConnected(false)
		b.Resubscribed()
		b.SetConnected(true)
		if diff := cmp.Diff([]Query{{task.ID, "S1"}}, b.Unanswered()); diff != "" {
			t.Errorf("queries (-want,+got):\n%s", diff)
		}
		// The master does not know the agent: it may have lost its registry, and the agent may bring the task.
		b.because(task.ID, "S1", mesos.TASK_UNKNOWN, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
		if got := b.task("p").State; got != Unreachable {
			t.Errorf("%s", got)
		}
		b.because(task.ID, "S1", mesos.TASK_GONE, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
		if got := b.task("p").State; got != Terminal {
			t.Errorf("%s", got)
		}
	})
	t.Run("given up meanwhile", func(t *testing.T) {
		b, task := begin(t)
		b.Release("p")
		if got := b.Dooms(0, time.Second); got != nil {
			t.Errorf("a KILL before the fence could be overtaken by the ACCEPT: %v", got)
		}
		if why, ok := b.Settled("p"); ok || why == "" {
			t.Error("the pod may not be scheduled before the launch is settled")
		}
		fence(t, b, task)
		if got := b.Dooms(0, time.Second); len(got) != 1 {
			t.Errorf("after the fence the KILL goes out: %v", got)
		}
		if c := b.because(task.ID, "S1", mesos.TASK_GONE, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION); c.Effect != Freed {
			t.Errorf("%v", c.Effect)
		}
		if _, ok := b.Settled("p"); !ok {
			t.Error("settled now")
		}
	})
}

func TestC38_UnreachableThenBack(t *testing.T) {
	t.Run("back within the limit", func(t *testing.T) {
		b := newBook(t)
		b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
		task := b.run("p1", needOf(1000, 1024), "S1")
		if c := b.because(task.ID, "S1", mesos.TASK_UNREACHABLE, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REMOVED); c.Effect != Parted {
			t.Errorf("%v", c.Effect)
		}
		b.AgentGone("S1")
		if got := b.task("p1"); got.State != Unreachable || !got.Bound || !got.KillSince.IsZero() {
			t.Errorf("the pod is kept: %+v", got)
		}
		if got := b.fit("S1", needOf(1, 1)); got != ReasonUnreachable {
			t.Errorf("nothing is launched there: %q", got)
		}
		c := b.because(task.ID, "S1", mesos.TASK_RUNNING, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REREGISTERED)
		if c.Effect != Progressed || b.task("p1").State != Running {
			t.Errorf("%v, %s: nothing else happens", c.Effect, b.task("p1").State)
		}
		if got := b.Dooms(0, time.Second); got != nil {
			t.Errorf("dooms: %v", got)
		}
	})
	t.Run("replaced meanwhile", func(t *testing.T) {
		b := newBook(t)
		b.add(b.offer("O1", "S1", "cpus:4;mem:8192"), b.offer("O2", "S2", "cpus:4;mem:8192"))
		task := b.run("p1", needOf(1000, 1024), "S1")
		b.because(task.ID, "S1", mesos.TASK_UNREACHABLE, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REMOVED)
		b.PodGone("p1") // Kubernetes evicted it
		other := b.run("p2", needOf(1000, 1024), "S2")
		for range 3 { // while it is away KILLs may be sent, and are lost
			b.clock.Step(time.Minute)
			b.Expire()
		}
		b.because(task.ID, "S1", mesos.TASK_RUNNING, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REREGISTERED)
		b.clock.Step(time.Minute)
		got := b.Dooms(10*time.Second, 5*time.Second)
		if len(got) != 1 || got[0].TaskID != task.ID || got[0].AgentID != "S1" {
			t.Errorf("the ghost is killed, with its agent's id: %+v", got)
		}
		if now := b.task("p2"); now.ID != other.ID || now.State != Running {
			t.Errorf("its replacement is touched: %+v", now)
		}
		b.says(task.ID, "S1", mesos.TASK_KILLED)
		b.none("p1")
	})
}

// TASK_UNKNOWN is not loss: a master that lost its registry answers it for every healthy task until agents return.
func TestUnknownIsNotLoss(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
	bound := b.run("p", needOf(1000, 1024), "S1")
	b.add(b.offer("O2", "S1", "cpus:3;mem:4096", running(bound.ExecutorID)))
	young := b.launch("q", needOf(1000, 1024), "S1")
	b.says(young.ID, "S1", mesos.TASK_STARTING)
	for _, task := range []Task{bound, young} {
		b.because(task.ID, "S1", mesos.TASK_UNKNOWN, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
		if got := b.task(string(task.UID)).State; got != Unreachable {
			t.Errorf("%s: %s", task.UID, got)
		}
	}
	if b.Retry("q") {
		t.Error("a second launch while the first may live")
	}
	b.Release("q")
	b.clock.Step(forgetAfter + time.Minute)
	b.Expire()
	b.audit()
	b.none("q") // never bound, and nobody has heard of it for long
	if got := b.task("p").State; got != Unreachable {
		t.Errorf("a bound pod is kept: %s", got)
	}
	if b.says(young.ID, "S1", mesos.TASK_RUNNING); len(b.Strangers()) != 0 {
		t.Error("should it turn up again it is a ghost")
	}
}

func TestC41_ThePodIsDeletedBetweenReserveAndBind(t *testing.T) {
	other := needOf(3500, 1024)
	begin := func(t *testing.T) *book {
		b := newBook(t)
		b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
		b.mustClaim("p", needOf(3000, 1024), "S1")
		return b
	}
	t.Run("a: waiting in Permit", func(t *testing.T) {
		b := begin(t)
		b.PodGone("p")
		b.Release("p")
		b.none("p")
		b.mustClaim("q", other, "S1")
	})
	t.Run("b: before the ACCEPT", func(t *testing.T) {
		b := begin(t)
		b.PodGone("p")
		if got := b.task("p"); got.PodGone.IsZero() {
			t.Error("Launch looks at the record before it queues the claim")
		}
		if err := b.claim("q", other, "S1"); !errors.Is(err, ErrNoRoom) {
			t.Errorf("the room is given to two pods: %v", err)
		}
		b.Release("p")
		b.mustClaim("q", other, "S1")
	})
	t.Run("c: after the ACCEPT", func(t *testing.T) {
		b := begin(t)
		b.Sent(b.mustBatch("S1", "p"))
		b.PodGone("p")
		b.Release("p")
		b.Release("p") // twice
		if got := b.Dooms(time.Hour, 5*time.Second); len(got) != 1 || got[0].AgentID != "S1" || *got[0].Grace != 30*time.Second {
			t.Fatalf("KILL with the agent's id and the pod's grace: %+v", got)
		}
		if got := b.Dooms(time.Hour, 5*time.Second); got != nil {
			t.Errorf("repeated at once: %v", got)
		}
		b.clock.Step(5 * time.Second)
		if got := b.Dooms(time.Hour, 5*time.Second); len(got) != 1 {
			t.Errorf("a KILL is repeated until the task has ended: %v", got)
		}
		if err := b.claim("q", other, "S1"); err == nil {
			t.Error("the room is held until the task has ended")
		}
		b.says(b.task("p").ID, "S1", mesos.TASK_KILLED)
		b.none("p")
		b.add(b.offer("O2", "S1", "cpus:3.9;mem:8064", running(b.executorID("S1"))))
		b.mustClaim("q", other, "S1")
	})
	t.Run("d: after the Binding", func(t *testing.T) {
		b := newBook(t)
		b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
		task := b.run("p", needOf(3000, 1024), "S1")
		b.PodGone("p")
		if got := b.Dooms(10*time.Second, 5*time.Second); got != nil {
			t.Errorf("the executor reports the end by itself: %v", got)
		}
		b.clock.Step(10 * time.Second)
		if got := b.Dooms(10*time.Second, 5*time.Second); len(got) != 1 {
			t.Errorf("the backstop: %v", got)
		}
		if c := b.says(task.ID, "S1", mesos.TASK_KILLED); c.Effect != Ended {
			t.Errorf("%v", c.Effect)
		}
		b.none("p")
	})
	t.Run("another UID under the same name is another pod", func(t *testing.T) {
		b := begin(t)
		b.PodGone("other-uid")
		if got := b.task("p"); !got.PodGone.IsZero() {
			t.Error("a pod is what its UID says")
		}
	})
}

func TestC44_RoomIsHeldUntilTheTaskHasEnded(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4.1;mem:8192"))
	pod := ledgerPod("p")
	pod.Grace = 60 * time.Second
	if err := b.Claim(pod, needOf(4000, 1024), "node-S1"); err != nil {
		t.Fatal(err)
	}
	b.Sent(b.mustBatch("S1", "p"))
	task := b.task("p")
	b.says(task.ID, "S1", mesos.TASK_STARTING)
	b.Bound("p", task.ID)
	b.says(task.ID, "S1", mesos.TASK_RUNNING)
	b.Kill("p")
	if got := b.Dooms(0, 5*time.Second); len(got) != 1 || *got[0].Grace != 60*time.Second {
		t.Fatalf("the KILL carries the pod's own grace: %+v", got)
	}
	for _, at := range []time.Duration{0, 30 * time.Second, 30 * time.Second} {
		b.clock.Step(at)
		b.Expire()
		b.because(task.ID, "S1", mesos.TASK_KILLING, mesos.SOURCE_EXECUTOR, mesos.REASON_TASK_KILLED_DURING_LAUNCH)
		if err := b.claim("q", needOf(100, 64), "S1"); err == nil {
			t.Fatal("a pod is launched into room that is still in use")
		}
	}
	b.says(task.ID, "S1", mesos.TASK_KILLED)
	if got := b.task("p"); got.State != Terminal {
		t.Errorf("%s", got.State)
	}
}

// A pod whose node is dead stays charged to its node for as long as anything of it may run, and no longer.
func TestC45_TheNodeIsDead(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4.1;mem:8192"))
	task := b.run("p", needOf(4000, 1024), "S1")
	b.Kill("p") // it is deleted, and nobody confirms that it has stopped
	b.clock.Step(90 * time.Second)
	if got := b.Dooms(10*time.Second, 5*time.Second); len(got) != 1 {
		t.Fatalf("KILL is sent: %v", got)
	}
	b.says(task.ID, "S1", mesos.TASK_KILLED) // the executor: cgroups gone, or grace and margin have passed
	if got := b.task("p").State; got != Terminal {
		t.Errorf("%s", got)
	}
	b.PodGone("p")
	b.none("p")

	// Variant: the agent is gone, too.
	b = newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4.1;mem:8192"))
	task = b.run("p", needOf(4000, 1024), "S1")
	c := b.because(task.ID, "S1", mesos.TASK_GONE_BY_OPERATOR, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REMOVED_BY_OPERATOR)
	if c.Effect != Withdrawn || b.task("p").State != Unheld {
		t.Errorf("%v, %s", c.Effect, b.task("p").State)
	}
	b.AgentGone("S1")
	b.PodGone("p")
	b.none("p")
	if n := b.AgentCount(); n != 0 {
		t.Errorf("%d agents are remembered", n)
	}
}

// B2: what a pod without a task uses is not given to another one.
func TestUnheldPodsKeepTheirRoom(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4.1;mem:8192"))
	task := b.run("p", needOf(3000, 1024), "S1")
	c := b.because(task.ID, "S1", mesos.TASK_FAILED, mesos.SOURCE_AGENT, mesos.REASON_EXECUTOR_TERMINATED)
	if c.Effect != Lost {
		t.Fatalf("%v", c.Effect)
	}
	b.add(b.offer("O2", "S1", "cpus:4.1;mem:8192"))
	if got := b.headroom("S1").CPUs; got != 1000 {
		t.Errorf("headroom %d, want what the pod does not use", got)
	}
	if got := b.ShortRoles(); len(got) != 0 {
		t.Errorf("nothing is claimed: %v", got)
	}
	if _, ok := b.Reclaim("p"); !ok {
		t.Fatal("it is held anew")
	}
	if _, ok := b.Reclaim("p"); ok {
		t.Error("twice")
	}
	b.GiveUp("p")
	if got := b.task("p").State; got != Unheld {
		t.Fatalf("%s", got)
	}
	b.Reclaim("p")
	// Bound pods go before others, whatever their priority.
	q := ledgerPod("q")
	q.Priority = 1000
	if err := b.Claim(q, needOf(1000, 64), "node-S1"); err != nil {
		t.Fatal(err)
	}
	batch := b.Batch("S1", PoolKey{Role: role}, uids("q", "p"), 1)
	if batch == nil || len(batch.Launches) != 1 || batch.Launches[0].Task.UID != "p" || !batch.Launches[0].Task.Bound {
		t.Fatalf("%+v", batch)
	}
	if batch.Launches[0].Task.ID == task.ID {
		t.Error("a new attempt has a new id")
	}
	b.audit()
	b.Release("p")
	if got := b.task("p"); got.State != Launching || !got.KillSince.IsZero() {
		t.Error("Unreserve takes nothing from a bound pod")
	}
}

// A pod has one task, however often it stands in a batch, and also when its claim is on another agent or to be killed.
func TestBatchTakesEachClaimOnce(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:8;mem:8192"), b.offer("O2", "S2", "cpus:8;mem:8192"))
	b.mustClaim("p", needOf(1000, 1024), "S1")
	b.mustClaim("other", needOf(1000, 1024), "S2")
	batch := b.batch("S1", "p", "p", "other", "gone", "p")
	if batch == nil || len(batch.Launches) != 1 {
		t.Fatalf("%+v", batch)
	}
	if n := b.Counts()[Launching]; n != 1 {
		t.Errorf("%d tasks", n)
	}
}

func TestBatchLimitsAndPriorities(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:8;mem:8192", running(b.executorID("S1"))))
	var names []string
	for i := range 6 {
		pod := ledgerPod(fmt.Sprintf("p%d", i))
		pod.Priority = int32(i % 3)
		if err := b.Claim(pod, needOf(1000, 512), "node-S1"); err != nil {
			t.Fatal(err)
		}
		names = append(names, string(pod.UID))
	}
	batch := b.Batch("S1", PoolKey{Role: role}, uids(names...), 4)
	var got []string
	for _, launch := range batch.Launches {
		got = append(got, string(launch.Task.UID))
	}
	if diff := cmp.Diff([]string{"p2", "p5", "p1", "p4"}, got); diff != "" {
		t.Errorf("launched (-want,+got):\n%s", diff)
	}
	b.audit()
	b.SetConnected(false)
	if b.batch("S1", "p0") != nil {
		t.Error("nothing is launched without a subscription")
	}
}

// M11: until a new executor's first status at most one ACCEPT for its agent is in flight.
func TestOneAcceptUntilTheExecutorAnswers(t *testing.T) {
	answers := map[string]func(b *book, id, executor string){
		"its first status":           func(b *book, id, _ string) { b.says(id, "S1", mesos.TASK_STARTING) },
		"its first status is an end": func(b *book, id, _ string) { b.says(id, "S1", mesos.TASK_FAILED) },
		"an offer names it": func(b *book, _, executor string) {
			b.add(b.offer("O3", "S1", "cpus:1;mem:1024", running(executor)))
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			b.add(b.offer("O1", "S1", "cpus:4;mem:4096"), b.offer("O2", "S1", "cpus:4;mem:4096"))
			task := b.launch("p", needOf(1000, 1024), "S1")
			b.mustClaim("q", needOf(1000, 1024), "S1")
			if b.batch("S1", "q") != nil {
				t.Fatal("a second ACCEPT could overtake the one that pays for the executor")
			}
			answer(b, task.ID, task.ExecutorID)
			batch := b.mustBatch("S1", "q")
			if batch.NewExecutor || batch.ExecutorID != task.ExecutorID {
				t.Errorf("executor %s, new: %v; want %s", batch.ExecutorID, batch.NewExecutor, task.ExecutorID)
			}
		})
	}
	ends := map[string]func(b *book, batch *Batch){
		"the ACCEPT was not processed": func(b *book, batch *Batch) { b.NotSent(batch) },
		"the task was refused": func(b *book, batch *Batch) {
			b.because(batch.Launches[0].Task.ID, "", mesos.TASK_ERROR, mesos.SOURCE_MASTER, mesos.REASON_TASK_INVALID)
		},
		"the executor has ended": func(b *book, batch *Batch) { b.ExecutorGone("S1", batch.ExecutorID) },
		"the executor never registered": func(b *book, batch *Batch) {
			b.because(batch.Launches[0].Task.ID, "S1", mesos.TASK_FAILED, mesos.SOURCE_AGENT, mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			b.add(b.offer("O1", "S1", "cpus:4;mem:4096"), b.offer("O2", "S1", "cpus:4;mem:4096"))
			b.mustClaim("p", needOf(1000, 1024), "S1")
			first := b.mustBatch("S1", "p")
			b.mustClaim("q", needOf(1000, 1024), "S1")
			end(b, first)
			b.audit()
			batch := b.mustBatch("S1", "q")
			if !batch.NewExecutor || batch.ExecutorID == first.ExecutorID {
				t.Errorf("executor %s after %s, new: %v", batch.ExecutorID, first.ExecutorID, batch.NewExecutor)
			}
		})
	}
}

// TestGivenUpWhileTheAcceptIsOnItsWay: what is not processed then is nobody's any more, and holds no offer.
func TestGivenUpWhileTheAcceptIsOnItsWay(t *testing.T) {
	for name, test := range map[string]struct {
		giveUp func(b *book)
		freed  bool
	}{
		"the pod was deleted":        {func(b *book) { b.PodGone("p"); b.Release("p") }, true},
		"released, the pod is there": {func(b *book) { b.Release("p") }, true},
		"nothing happened":           {func(*book) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			b.add(b.offer("O1", "S1", "cpus:4;mem:4096"))
			b.mustClaim("p", needOf(1000, 1024), "S1")
			batch := b.mustBatch("S1", "p")
			test.giveUp(b)
			b.NotSent(batch)
			b.audit()
			got := b.Freed()
			if (len(got) == 1 && got[0].Task.UID == "p" && got[0].Effect == Freed) != test.freed || len(b.Freed()) > 0 {
				t.Errorf("freed: %+v", got)
			}
			if _, known := b.Task("p"); known == test.freed {
				t.Errorf("in the book: %t", known)
			}
			if o := b.Offers(); len(o) != 1 || o[0].Claimed == test.freed {
				t.Errorf("%+v", o)
			}
		})
	}
	t.Run("held anew, then the pod was deleted", func(t *testing.T) {
		b := newBook(t)
		b.add(b.offer("O1", "S1", "cpus:4;mem:8192"))
		task := b.run("p", needOf(1000, 1024), "S1")
		b.because(task.ID, "S1", mesos.TASK_FAILED, mesos.SOURCE_AGENT, mesos.REASON_EXECUTOR_TERMINATED)
		b.add(b.offer("O2", "S1", "cpus:4;mem:8192"))
		if _, ok := b.Reclaim("p"); !ok {
			t.Fatal("the pod is held anew")
		}
		batch := b.mustBatch("S1", "p")
		b.PodGone("p")
		b.NotSent(batch)
		b.audit()
		if _, known := b.Task("p"); known {
			t.Error("still in the book")
		}
	})
}

func TestC47_AnotherDescriptionAnotherExecutor(t *testing.T) {
	old := newBook(t)
	oldID := old.executorID("S1")
	b := newBook(t)
	b.options.Executor.BindTimeout = time.Hour // a changed flag
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096", running(oldID)), b.offer("O2", "S2", "cpus:4;mem:4096"))
	for _, agent := range []string{"S1", "S2"} {
		b.mustClaim("p"+agent, needOf(1000, 1024), agent)
		batch := b.mustBatch(agent, "p"+agent)
		if !batch.NewExecutor || batch.ExecutorID == oldID {
			t.Errorf("%s: executor %s, new: %v: it runs beside the old one", agent, batch.ExecutorID, batch.NewExecutor)
		}
		if e, ok := taskinfo.ParseExecutorID(batch.ExecutorID); !ok || e.Digest == "" {
			t.Errorf("%s: %q", agent, batch.ExecutorID)
		}
	}
}

func TestAdoptTheYoungestExecutorOfThePresentDescription(t *testing.T) {
	b := newBook(t)
	id := func(kind resources.ReservationKind, n int64) string {
		e, _ := taskinfo.ParseExecutorID(b.executorID("S1"))
		e.Kind, e.Incarnation = kind, n
		return e.String()
	}
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096", running("not-ours", id(resources.Unreserved, 5), id(resources.Static, 9), id(resources.Other, 20), id(resources.Unreserved, 7))))
	b.mustClaim("p", needOf(100, 64), "S1")
	if got := b.mustBatch("S1", "p").ExecutorID; got != id(resources.Static, 9) {
		t.Errorf("%s: one whose resources cannot be told from its id is not used", got)
	}
	// An offer that does not name the running one says that it has ended.
	b.says(b.task("p").ID, "S1", mesos.TASK_STARTING)
	b.add(b.offer("O2", "S1", "cpus:4;mem:4096"))
	b.mustClaim("q", needOf(100, 64), "S1")
	if batch := b.mustBatch("S1", "q"); !batch.NewExecutor {
		t.Error("the executor has ended unnoticed")
	}
}

func TestRetire(t *testing.T) {
	b := newBook(t)
	executor := b.executorID("S1")
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096", running(executor)))
	task := b.run("p", needOf(100, 64), "S1")
	b.clock.Step(time.Hour)
	if got := b.Retire(10*time.Minute, 5000); got != nil {
		t.Errorf("it has a task: %v", got)
	}
	b.says(task.ID, "S1", mesos.TASK_FINISHED)
	b.PodGone("p")
	b.clock.Step(9 * time.Minute)
	if got := b.Retire(10*time.Minute, 5000); got != nil {
		t.Errorf("not idle for long enough: %v", got)
	}
	b.clock.Step(2 * time.Minute)
	if diff := cmp.Diff([]Retired{{"S1", executor}}, b.Retire(10*time.Minute, 5000)); diff != "" {
		t.Errorf("idle (-want,+got):\n%s", diff)
	}
	// Offers that still name it do not bring it back.
	b.add(b.offer("O2", "S1", "cpus:4;mem:4096", running(executor)))
	b.mustClaim("q", needOf(100, 64), "S1")
	if batch := b.mustBatch("S1", "q"); !batch.NewExecutor {
		t.Error("a launch on an executor that was asked to end")
	}

	// One that has had its number of tasks.
	b = newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096", running(executor)))
	for i := range 3 {
		name := fmt.Sprintf("p%d", i)
		b.run(name, needOf(100, 64), "S1")
		b.add(b.offer(fmt.Sprintf("O%d", i+2), "S1", "cpus:2;mem:2048", running(executor)))
	}
	if got := b.Retire(0, 3); got != nil {
		t.Errorf("it still has tasks: %v", got)
	}
	b.add(b.offer("O9", "S1", "cpus:2;mem:2048", running(executor)))
	b.mustClaim("q", needOf(100, 64), "S1")
	if batch := b.mustBatch("S1", "q"); !batch.NewExecutor {
		t.Error("it takes no more tasks")
	}
}

func TestC33_NothingIsLostByARestart(t *testing.T) {
	b := newBook(t)
	restore := func(i int) Task {
		return Task{Pod: ledgerPod(fmt.Sprintf("p%03d", i)), Need: needOf(100, 64), AgentID: fmt.Sprintf("S%d", i%10), Node: fmt.Sprintf("node-S%d", i%10), ID: fmt.Sprintf("p%03d.1", i)}
	}
	// Updates come before the list of pods.
	for i := range 101 {
		b.because(fmt.Sprintf("p%03d.1", i), fmt.Sprintf("S%d", i%10), mesos.TASK_RUNNING, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
	}
	if got := b.Dooms(0, time.Second); got != nil {
		t.Fatalf("%d kills before the pods are known", len(got))
	}
	for i := range 100 {
		b.Restore(restore(i))
		b.Restore(restore(i))
		b.audit()
	}
	if got := b.Counts()[Running]; got != 100 {
		t.Errorf("%d tasks run, want 100: Mesos has confirmed them already", got)
	}
	strangers := b.Strangers()
	if len(strangers) != 1 || strangers[0].TaskID != "p100.1" || strangers[0].UID != "p100" {
		t.Fatalf("the 101st task has no pod: %+v", strangers)
	}
	b.KillStranger("p100.1")
	if got := b.Dooms(0, time.Second); len(got) != 1 || got[0].TaskID != "p100.1" || got[0].AgentID != "S0" {
		t.Errorf("%v", got)
	}
	if got := b.Dooms(0, time.Second); got != nil {
		t.Errorf("killed twice at once: %v", got)
	}
	if _, ok := b.Settled("p100"); ok {
		t.Error("its pod, should there be one, waits for its end")
	}
	b.says("p100.1", "S0", mesos.TASK_KILLED)
	if _, ok := b.Settled("p100"); !ok {
		t.Error("it has ended")
	}
	// A task of another UID is not this pod's.
	if _, bound := b.Task("p000"); !bound || b.Bound("p000", "p001.1") {
		t.Error("a task id of another pod counts")
	}
}

func TestC34_SilenceIsNotLoss(t *testing.T) {
	b := newBook(t)
	for _, s := range []string{"1", "2", "3"} {
		b.Restore(Task{Pod: ledgerPod("p" + s), Need: needOf(100, 64), AgentID: "S" + s, Node: "node-S" + s, ID: "p" + s + ".1"})
		b.because("p"+s+".1", "S"+s, mesos.TASK_RUNNING, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
	}
	b.SetConnected(false)
	b.Resubscribed() // with the new leader
	b.SetConnected(true)
	ask := func() []string {
		var out []string
		for _, q := range b.Unanswered() {
			out = append(out, q.TaskID+"@"+q.AgentID)
		}
		slices.Sort(out)
		return out
	}
	if diff := cmp.Diff([]string{"p1.1@S1", "p2.1@S2", "p3.1@S3"}, ask()); diff != "" {
		t.Errorf("asked for, with agents (-want,+got):\n%s", diff)
	}
	b.because("p1.1", "S1", mesos.TASK_RUNNING, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
	if diff := cmp.Diff([]string{"p2.1@S2", "p3.1@S3"}, ask()); diff != "" {
		t.Errorf("asked for again (-want,+got):\n%s", diff)
	}
	b.clock.Step(4 * time.Minute)
	b.Expire()
	b.because("p2.1", "S2", mesos.TASK_RUNNING, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
	b.clock.Step(6 * time.Minute)
	b.Expire()
	b.AgentGone("S3")
	if c := b.because("p3.1", "S3", mesos.TASK_UNREACHABLE, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION); c.Effect != Parted {
		t.Errorf("%v", c.Effect)
	}
	want := map[string]State{"p1": Running, "p2": Running, "p3": Unreachable}
	for uid, state := range want {
		if got := b.task(uid); got.State != state || !got.KillSince.IsZero() {
			t.Errorf("%s: %s", uid, got.State)
		}
	}
	if got := ask(); len(got) != 0 {
		t.Errorf("all are answered: %v", got)
	}
}

func TestStuckLaunchesAreAskedFor(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096"))
	task := b.launch("p", needOf(100, 64), "S1")
	b.clock.Step(59 * time.Second)
	if got := b.Stuck(time.Minute); got != nil {
		t.Errorf("%v", got)
	}
	b.clock.Step(time.Second)
	if diff := cmp.Diff([]Query{{task.ID, "S1"}}, b.Stuck(time.Minute)); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	b.AskAll()
	if got := b.Unanswered(); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestFrameworkGone(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:8;mem:8192"))
	bound := b.run("bound", needOf(1000, 1024), "S1")
	b.add(b.offer("O2", "S1", "cpus:4;mem:4096", running(bound.ExecutorID)))
	b.launch("young", needOf(100, 64), "S1")
	b.says("stranger.1", "S1", mesos.TASK_RUNNING)
	b.SetConnected(false)
	lost := b.FrameworkGone()
	b.audit()
	if len(lost) != 1 || lost[0].UID != "bound" || lost[0].State != Unheld {
		t.Errorf("%+v", lost)
	}
	if got := b.task("young").State; got != Terminal {
		t.Errorf("a launch under way: %s", got)
	}
	if len(b.Strangers()) != 0 {
		t.Error("strangers have ended, too")
	}
	if _, ok := b.Settled("stranger"); !ok {
		t.Error("a pod waits for a task that has ended")
	}
	// The new framework launches its own executor.
	b.Resubscribed()
	b.SetConnected(true)
	b.add(b.offer("O3", "S1", "cpus:8;mem:8192"))
	b.Reclaim("bound")
	if batch := b.mustBatch("S1", "bound"); !batch.NewExecutor || batch.Launches[0].Task.ID == bound.ID {
		t.Errorf("%+v", batch)
	}
}

// A stranger that is the task of a bound pod without one is that pod's task: on its agent only.
func TestStrangersAreAdoptedOnTheirAgent(t *testing.T) {
	for agent, want := range map[string]Effect{"S1": Adopted, "S2": Strange} {
		b := newBook(t)
		b.Restore(Task{Pod: ledgerPod("p"), Need: needOf(100, 64), AgentID: "S1", Node: "node-S1"})
		if c := b.says("p.5", agent, mesos.TASK_RUNNING); c.Effect != want {
			t.Errorf("on %s: %v, want %v", agent, c.Effect, want)
		}

		b = newBook(t)
		b.Restore(Task{Pod: ledgerPod("p"), Need: needOf(100, 64), AgentID: "S1", Node: "node-S1", ID: "p.1"})
		b.says("p.5", agent, mesos.TASK_RUNNING)
		c := b.because("p.1", "S1", mesos.TASK_GONE, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
		if want == Strange {
			want = Lost
		}
		if c.Effect != want {
			t.Errorf("found before the loss, on %s: %v, want %v", agent, c.Effect, want)
		}
	}
	b := newBook(t)
	for _, s := range []mesos.TaskState{mesos.TASK_UNREACHABLE, mesos.TASK_UNKNOWN, mesos.TASK_FINISHED} {
		if c := b.says("x.1", "S1", s); c.Effect != Nothing {
			t.Errorf("%s of a task that nobody knows: %v", s, c.Effect)
		}
	}
	if c := b.says("not one of ours", "", mesos.TASK_RUNNING); c.Effect != Strange || b.Strangers()[0].UID != "" {
		t.Errorf("%+v", b.Strangers())
	}
}

// A pod bound by an earlier leader, whose Binding is seen after Mesos has spoken of its task.
func TestRestoreAfterItsTaskWasSeen(t *testing.T) {
	b := newBook(t)
	b.says("p.1", "S1", mesos.TASK_RUNNING)
	b.KillStranger("p.1")
	b.Restore(Task{Pod: ledgerPod("p"), Need: needOf(100, 64), AgentID: "S1", Node: "node-S1", ID: "p.1"})
	b.audit()
	if got := b.task("p"); got.State != Running || got.KillSince.IsZero() {
		t.Errorf("%s, kill since %v: a KILL may be under way already", got.State, got.KillSince)
	}
	if len(b.Strangers()) != 0 {
		t.Error("it is no stranger any more")
	}
}

func TestAttemptsNeverShareAnID(t *testing.T) {
	b := newBook(t)
	seen := map[string]bool{}
	for i := range 50 {
		b.add(b.offer(fmt.Sprintf("O%d", i), "S1", "cpus:4;mem:4096"))
		if i == 0 {
			b.mustClaim("p", needOf(100, 64), "S1")
		}
		b.mustBatch("S1", "p")
		id := b.task("p").ID
		if seen[id] {
			t.Fatalf("attempt %d has the id %s again", i, id)
		}
		seen[id] = true
		b.because(id, "", mesos.TASK_DROPPED, mesos.SOURCE_MASTER, mesos.REASON_INVALID_OFFERS)
		if i%10 == 9 {
			b.clock.Step(-time.Hour) // the clock of a host may jump
		}
		if !b.Retry("p") {
			t.Fatal("no retry")
		}
	}
}

// A master may go on naming an executor whose launch never came to be on the agent. Tasks for it would all be dropped.
func TestExecutorThatNeverRanIsNotUsed(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:8;mem:8192"))
	b.mustClaim("p", needOf(1000, 1024), "S1")
	first := b.mustBatch("S1", "p")
	b.Sent(first)
	b.because(first.Launches[0].Task.ID, "S1", mesos.TASK_DROPPED, mesos.SOURCE_AGENT, mesos.REASON_EXECUTOR_TERMINATED, "No executor is expected to launch and there is none running")
	b.add(b.offer("O2", "S1", "cpus:8;mem:8192", running(first.ExecutorID)))
	if !b.Retry("p") {
		t.Fatal("the launch is not tried again")
	}
	second := b.mustBatch("S1", "p")
	if second.ExecutorID == first.ExecutorID || !second.NewExecutor {
		t.Errorf("launched with executor %s (new: %v), which never ran", second.ExecutorID, second.NewExecutor)
	}
}
