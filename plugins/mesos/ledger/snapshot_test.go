// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

func TestSnapshotIsImmutable(t *testing.T) {
	b := newBook(t)
	for i := range 200 {
		agent := fmt.Sprintf("S%d", i)
		b.add(b.offer("O"+agent, agent, "cpus:4;mem:4096;ports:[31000-31010]"))
	}
	old := b.Snapshot()
	type seen struct {
		view View
		pool poolView
	}
	before := map[string]seen{}
	old.Each(func(v *View) bool {
		before[v.Node] = seen{*v, v.pools[0]}
		return true
	})
	b.mustClaim("p", needOf(1000, 1024, 31000), "S7")
	b.Rescind("OS8")
	b.because("x.1", "S9", mesos.TASK_RUNNING, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
	b.SetTrouble("S9", AgentDraining)
	b.AgentGone("S10")
	b.add(b.offer("new", "S200", "cpus:4;mem:4096"))
	b.Snapshot()
	n := 0
	old.Each(func(v *View) bool {
		n++
		if got := (seen{*v, v.pools[0]}); !reflect.DeepEqual(before[v.Node], got) {
			t.Errorf("node %s has changed: %+v, then %+v", v.Node, before[v.Node], got)
		}
		return true
	})
	if n != 200 || old.Node("node-S200") != nil {
		t.Errorf("%d nodes, want the 200 of then", n)
	}
}

// A snapshot costs what has changed since the last: chunks without a change are shared.
func TestSnapshotIsIncremental(t *testing.T) {
	b := newBook(t)
	const agents = 10 * chunkSize
	for i := range agents {
		agent := fmt.Sprintf("S%d", i)
		b.add(b.offer("O"+agent, agent, "cpus:4;mem:4096"))
	}
	first := b.Snapshot()
	if again := b.Snapshot(); again != first {
		t.Error("nothing has changed, and a new snapshot is made")
	}
	b.mustClaim("p", needOf(1000, 1024), "S7")
	second := b.Snapshot()
	if second == first || second.Version <= first.Version {
		t.Fatalf("versions %d, %d", first.Version, second.Version)
	}
	fresh, views := 0, 0
	for i := range second.chunks {
		if second.chunks[i] != first.chunks[i] {
			fresh++
			for j := range second.chunks[i].views {
				if second.chunks[i].views[j] != first.chunks[i].views[j] {
					views++
				}
			}
		}
	}
	if fresh != 1 || views != 1 {
		t.Errorf("%d chunks and %d views are new, want one each", fresh, views)
	}
}

func TestSnapshotFollowsNodes(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096"), b.offer("O2", "S2", "cpus:4;mem:4096"))
	b.Snapshot()
	b.AgentGone("S1")
	b.Restore(Task{Pod: ledgerPod("p"), Need: needOf(1, 1), AgentID: "S1", Node: "node-S1", ID: "p.1"})
	b.says("p.1", "S1", mesos.TASK_FINISHED)
	b.PodGone("p")
	s := b.Snapshot()
	if s.Node("node-S1") != nil || s.Node("node-S2") == nil {
		t.Errorf("S1 is forgotten, S2 is not: %v %v", s.Node("node-S1"), s.Node("node-S2"))
	}
	if got := s.Node("node-S1").Fit(needOf(1, 1), 0, b.clock.Now()); got != ReasonNoAgent {
		t.Errorf("%q", got)
	}
	b.add(b.offer("O3", "S1", "cpus:4;mem:4096"))
	if got := b.fit("S1", needOf(1, 1)); got != Fits {
		t.Errorf("back: %q", got)
	}
	b.SetConnected(false)
	if s := b.Snapshot(); s.Connected || s.Node("node-S2").Fit(needOf(1, 1), 0, b.clock.Now()) != ReasonNoOffer {
		t.Error("offers die with the subscription")
	}
}

func TestFitReasons(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:2;mem:1024;disk:100;ports:[31000-31010]", running(b.executorID("S1"))))
	disk := needOf(100, 64)
	disk.Disk = 100_001
	gpu := needOf(100, 64)
	gpu.GPUs = 1000
	rev := needOf(100, 64)
	rev.Revocable = true
	for _, tt := range []struct {
		name string
		need resources.Need
		want Reason
	}{
		{"fits to the last", needOf(2000, 1024, 31000, 31010), Fits},
		{"cpus", needOf(2001, 64), ReasonCPUs},
		{"mem", needOf(100, 1025), ReasonMem},
		{"disk", disk, ReasonDisk},
		{"gpus", gpu, ReasonGPUs},
		{"ports", needOf(100, 64, 31011), ReasonPorts},
		{"revocable", rev, ReasonNoOffer},
	} {
		if got := b.fit("S1", tt.need); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for trouble, want := range map[Trouble]Reason{AgentUnreachable: ReasonUnreachable, AgentDraining: ReasonDraining, AgentAmbiguous: ReasonAmbiguous, NoTrouble: Fits} {
		b.SetTrouble("S1", trouble)
		if got := b.fit("S1", needOf(1, 1)); got != want {
			t.Errorf("%q: %q, want %q", trouble, got, want)
		}
	}
}

func TestFitWithGivesBack(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:1;mem:1024", running(b.executorID("S1"))))
	v := b.view("S1")
	now := b.clock.Now()
	need := needOf(3000, 1024, 80)
	fit := func(extra int64, ports ...int32) Reason {
		return v.FitWith(need, 0, now, resources.Amounts{CPUs: extra}, resources.PortsOf(ports...))
	}
	if fit(0) != ReasonCPUs || fit(1999) != ReasonCPUs || fit(2000) != ReasonPorts || fit(2000, 80) != Fits {
		t.Errorf("%q %q %q %q", fit(0), fit(1999), fit(2000), fit(2000, 80))
	}
	if got := b.fit("S1", needOf(1000, 1)); got != Fits {
		t.Errorf("the view is unchanged: %q", got)
	}
}

func TestFitAllocatesNothing(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096;ports:[31000-31010]"))
	s, need, now := b.Snapshot(), needOf(1000, 1024, 31001), b.clock.Now()
	if n := testing.AllocsPerRun(100, func() {
		if s.Node("node-S1").Fit(need, time.Minute, now) != Fits {
			t.Error("no fit")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What comes back from an ACCEPT may be reserved at once, for as long as it can be expected.
func TestExpectedRest(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096", running(b.executorID("S1"))))
	b.launch("p", needOf(1000, 1024), "S1")
	if got := b.fit("S1", needOf(3000, 1024)); got != Fits {
		t.Errorf("%q", got)
	}
	b.mustClaim("q", needOf(3000, 1024), "S1")
	if since, short := b.Short("q"); !short || !since.Equal(b.clock.Now()) {
		t.Error("nothing live is behind the claim yet")
	}
	if !b.ShortRoles()[role] {
		t.Error("the role is short of offers")
	}
	b.clock.Step(2 * time.Second)
	b.Expire()
	if got := b.fit("S1", needOf(10, 32)); got != ReasonNoOffer {
		t.Errorf("it did not come back: %q", got)
	}
	b.add(b.offer("O2", "S1", "cpus:3;mem:3072", running(b.executorID("S1"))))
	if _, short := b.Short("q"); short || len(b.ShortRoles()) != 0 {
		t.Error("now it did")
	}
	b.mustBatch("S1", "q")
}

// While an ACCEPT is on its way, however long that takes, the claims behind it are not short of an offer: nothing that is asked
// for could bring one. The time to wait begins with its answer.
func TestShortBehindAnAcceptOnItsWay(t *testing.T) {
	for what, answer := range map[string]func(*book, *Batch){
		"processed": func(b *book, batch *Batch) { b.Sent(batch) },
		"unclear":   func(b *book, batch *Batch) { b.Unclear(batch) },
	} {
		t.Run(what, func(t *testing.T) {
			b := newBook(t)
			b.add(b.offer("O1", "S1", "cpus:4;mem:4096", running(b.executorID("S1"))))
			b.mustClaim("p", needOf(1000, 1024), "S1")
			batch := b.mustBatch("S1", "p")
			b.mustClaim("q", needOf(3000, 1024), "S1")
			b.clock.Step(time.Minute)
			if _, short := b.Short("q"); short || len(b.ShortRoles()) != 0 {
				t.Error("short while the ACCEPT is on its way")
			}
			answer(b, batch)
			since, short := b.Short("q")
			if want := map[string]time.Time{"processed": b.clock.Now(), "unclear": b.clock.Now().Add(-time.Minute)}[what]; !short || !since.Equal(want) {
				t.Errorf("short %v since %v, want %v", short, since, want)
			}
		})
	}
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096", running(b.executorID("S1"))))
	b.mustClaim("p", needOf(1000, 1024), "S1")
	batch := b.mustBatch("S1", "p")
	b.mustClaim("q", needOf(3000, 1024), "S1")
	b.clock.Step(time.Second)
	b.Sent(batch)
	b.clock.Step(1900 * time.Millisecond)
	b.Expire()
	if got := b.fit("S1", needOf(10, 32)); got == ReasonNoOffer {
		t.Error("the rest is expected back for two seconds from the answer on")
	}
	b.audit()
}

// It is quiet when no pod is on its way to a claim on the agent.
func TestQuiet(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096"), b.offer("O2", "S2", "cpus:4;mem:4096"))
	key := PoolKey{Role: role}
	quiet := func(what string, queued int, want bool) {
		t.Helper()
		if got := b.Quiet("S1", key, queued); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	quiet("nothing is there", 0, true)
	b.Enter("p")
	quiet("p is in the queue", 0, false)
	pod, need := v1pod("p"), needOf(1000, 1024)
	b.Wait(pod, need, 0)
	quiet("p is being tried", 0, false)
	b.mustClaim("p", need, "S1")
	quiet("p is not in its batch yet", 0, false)
	quiet("p is", 1, true)
	b.mustClaim("q", need, "S2")
	quiet("q is another agent's", 1, true)
	b.Enter("r")
	b.PodGone("r")
	quiet("r was deleted", 1, true)
	b.Enter("s")
	b.clock.Step(2 * time.Minute)
	quiet("s was deleted before it was seen to enter", 1, true)
}

func TestC49_NewOffersAreSeenByPodsThatWait(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O0", "S1", "cpus:1;mem:4096"))
	need := needOf(2000, 1024)
	s := b.Wait(v1pod("p"), need, 0)
	if got := s.Node("node-S1").Fit(need, 0, b.clock.Now()); got != ReasonCPUs {
		t.Fatalf("%q", got)
	}
	// The offer comes between Filter and the moment that the pod is parked, or later: it is newer than what was tried.
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096"))
	w := b.Queue()[0]
	if v := b.view("S1"); v.Grew <= w.Tried || v.Fit(need, 0, b.clock.Now()) != Fits {
		t.Errorf("tried with version %d, the room is of %d", w.Tried, v.Grew)
	}
	// Once tried with it, it is no news any more; a claim of another pod is none either, a release is.
	b.Wait(v1pod("p"), need, 0)
	news := func() bool { return b.view("S1").Grew > b.Queue()[0].Tried }
	if news() {
		t.Error("nothing is new")
	}
	b.mustClaim("q", needOf(3000, 64), "S1")
	if news() {
		t.Error("less room is no news")
	}
	b.Release("q")
	if !news() {
		t.Error("more room is")
	}
	if n := len(b.Queue()); n != 1 {
		t.Errorf("%d wait", n)
	}
	b.mustClaim("p", need, "S1")
	if n := len(b.Queue()); n != 0 {
		t.Errorf("a pod with a claim does not wait: %d", n)
	}
}

func TestC50_QueueOrder(t *testing.T) {
	b := newBook(t)
	for i := range 20 {
		b.Wait(v1pod(fmt.Sprintf("big%02d", i)), needOf(64_000, 64), 1000)
		b.clock.Step(time.Millisecond)
	}
	for i := range 5 {
		b.Wait(v1pod(fmt.Sprintf("small%d", i)), needOf(100, 64), 0)
		b.clock.Step(time.Millisecond)
	}
	b.Wait(v1pod("big00"), needOf(64_000, 64), 1000) // tried again: it keeps its place
	var got []string
	for _, w := range b.Queue() {
		got = append(got, w.Pod.Name)
	}
	if got[0] != "big00" || got[19] != "big19" || got[20] != "small0" || len(got) != 25 {
		t.Errorf("%v", got)
	}
	// The large ones fit nothing; the small ones fit what is offered.
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096"))
	for _, w := range b.Queue() {
		if fits := b.fit("S1", w.Need) == Fits; fits != (w.Priority == 0) {
			t.Errorf("%s fits: %v", w.Pod.Name, fits)
		}
	}
	waiters := b.Waiters()
	b.Wait(v1pod("small1"), needOf(100, 64), 0) // is tried again meanwhile
	b.NotWaiting("small3")
	pods := b.Wake(waiters[20:24], 7)
	if len(pods) != 2 || pods[0].Name != "small0" || pods[1].Name != "small2" {
		t.Errorf("%d pods are woken: %v", len(pods), pods)
	}
	i := slices.IndexFunc(b.Queue(), func(w Waiting) bool { return w.Pod.Name == "small0" })
	if w := b.Queue()[i]; w.WokenFor != 7 || !w.Woken.Equal(b.clock.Now()) {
		t.Errorf("%+v", w)
	}
	b.PodGone("small1")
	b.NotWaiting("small2")
	if n := len(b.Queue()); n != 22 {
		t.Errorf("%d wait", n)
	}
}

func TestC50_FitIsFastInALargeCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("5,000 agents and 50,000 tasks")
	}
	b := newBook(t)
	for i := range 5000 {
		agent := fmt.Sprintf("S%d", i)
		b.AddOffers([]mesos.Offer{b.offer("O"+agent, agent, "cpus:4;mem:4096")})
		for j := range 10 {
			uid := fmt.Sprintf("p%d-%d", i, j)
			b.Restore(Task{Pod: ledgerPod(uid), Need: needOf(100, 64), AgentID: agent, Node: "node-" + agent, ID: uid + ".1"})
		}
	}
	b.Wait(v1pod("p"), needOf(5000, 64), 0)
	s, need := b.Snapshot(), needOf(1000, 64)
	result := testing.Benchmark(func(bench *testing.B) {
		for bench.Loop() {
			if s.Node("node-S4321").Fit(need, time.Minute, b.clock.Now()) != Fits {
				t.Fatal("no fit")
			}
		}
	})
	if per := time.Duration(result.NsPerOp()); per > time.Millisecond {
		t.Errorf("one Filter takes %v", per)
	}
}

// C54: room that is back is kept for who is nominated: a pod of lower priority that claims it first shows in the claims.
func TestC54_FreedRoomIsSeenAsSoonAsItIsOffered(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4.1;mem:4096"))
	victim := b.run("v", needOf(4000, 1024), "S1")
	h := needOf(2000, 512)
	if got := b.fit("S1", h); got == Fits {
		t.Fatal("the node is full")
	}
	b.PodGone("v")
	if got := b.fit("S1", h); got == Fits {
		t.Error("the victim's task has not ended: the master cannot offer its room")
	}
	b.says(victim.ID, "S1", mesos.TASK_KILLED)
	b.Wait(v1pod("h"), h, 1000)
	// (b) somebody else gets it: h goes on waiting, and nothing is claimed for it.
	if got := b.fit("S1", h); got == Fits {
		t.Error("the room has not been offered to us")
	}
	// (a) we get it: it is news for h.
	b.add(b.offer("O2", "S1", "cpus:4;mem:4096", running(victim.ExecutorID)))
	if w, v := b.Queue()[0], b.view("S1"); v.Grew <= w.Tried || v.Fit(h, 0, b.clock.Now()) != Fits {
		t.Error("h is not woken")
	}
	b.mustClaim("h", h, "S1")
	if _, ok := b.Settled(types.UID("v2")); !ok {
		t.Error("v2 is another pod")
	}
}
