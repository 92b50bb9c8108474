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

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

func TestC05_TheExecutorIsChargedOnce(t *testing.T) {
	const o1, o2 = "cpus:1;mem:640", "cpus:1;mem:512"
	need := needOf(1000, 512)
	b := newBook(t)
	b.add(b.offer("O1", "S1", o1))
	if got := b.fit("S1", need); got != ReasonCPUs {
		t.Errorf("O1 must hold 1.0 cpus and 0.1 for the executor: %q", got)
	}
	if got := b.headroom("S1"); got != (resources.Amounts{CPUs: 900, Mem: 512_000}) {
		t.Errorf("headroom %s", got)
	}
	b.Rescind("O1")
	// Later the executor runs, and the offer says so.
	b.add(b.offer("O2", "S1", o2, running("somebody-elses", b.executorID("S1"))))
	if got := b.fit("S1", need); got != Fits {
		t.Fatalf("O2: %q", got)
	}
	b.mustClaim("p", need, "S1")
	batch := b.mustBatch("S1", "p")
	if batch.NewExecutor || batch.ExecutorID != b.executorID("S1") {
		t.Errorf("executor %s, new: %v; want the one that runs", batch.ExecutorID, batch.NewExecutor)
	}
	if diff := cmp.Diff(resources.ExecutorResources(executorAmounts, role, resources.Unreserved, false), batch.ExecutorResources); diff != "" {
		t.Errorf("the master compares the executor's resources (-want,+got):\n%s", diff)
	}

	// A first launch: what the tasks and the executor take together is what was offered.
	b = newBook(t)
	b.add(b.offer("O1", "S1", "cpus:1.1;mem:640"))
	b.mustClaim("p", need, "S1")
	batch = b.mustBatch("S1", "p")
	if !batch.NewExecutor {
		t.Error("the executor does not run yet")
	}
	if got := b.headroom("S1"); !got.IsZero() {
		t.Errorf("left: %s", got)
	}
}

// Crumbs of two reservations add up to an executor, but no launch could name them.
func TestExecutorNeedsOnePiece(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:0.06;mem:4096"), b.offer("O2", "S1", "cpus:4", func(o *mesos.Offer) { o.Resources = nil }))
	if got := b.fit("S1", needOf(10, 32)); got != ReasonCPUs {
		t.Errorf("%q", got)
	}
	if err := b.claim("p", needOf(10, 32), "S1"); !errors.Is(err, ErrNoRoom) {
		t.Errorf("%v", err)
	}
}

func TestC12_OneUnusableOfferHidesNoOther(t *testing.T) {
	b := newBook(t)
	var offers []mesos.Offer
	for i := 1; i <= 10; i++ {
		agent := fmt.Sprintf("S%d", i)
		o := b.offer("O"+agent, agent, "cpus:1.1;mem:4096")
		if i == 3 {
			o.Hostname = ""
		}
		offers = append(offers, o)
	}
	refused := b.add(offers...)
	if len(refused) != 1 || refused[0].OfferID != "OS3" || refused[0].Reason == "" {
		t.Fatalf("refused: %+v", refused)
	}
	bound := 0
	for i := 1; i <= 10; i++ {
		agent := fmt.Sprintf("S%d", i)
		if b.claim("p"+agent, needOf(1000, 64), agent) == nil {
			b.Sent(b.mustBatch(agent, "p"+agent))
			bound++
		}
	}
	if bound != 9 {
		t.Errorf("%d pods run, want 9", bound)
	}
	if diff := cmp.Diff(Fates{Received: 10, Accepted: 9, Declined: 1}, b.Fates()); diff != "" {
		t.Errorf("fates (-want,+got):\n%s", diff)
	}
}

func TestC13_SeveralOffersOfOneAgentAddUp(t *testing.T) {
	b := newBook(t)
	executor := running(b.executorID("S1"))
	b.add(b.offer("O1", "S1", "ports:[10000-10150]", executor), b.offer("O2", "S1", "cpus:1;mem:512", executor),
		b.offer("O3", "S1", "cpus:2;mem:1024", executor), b.offer("O4", "S1", "cpus:1;mem:512", executor))
	b.mustClaim("p", needOf(3000, 1536, 10010), "S1")
	batch := b.mustBatch("S1", "p")
	ids := slices.Sorted(slices.Values(batch.OfferIDs))
	if !slices.Equal(ids, []string{"O1", "O2", "O3"}) && !slices.Equal(ids, []string{"O1", "O3", "O4"}) {
		t.Errorf("the ACCEPT names %v, want a minimal set", ids)
	}
	if left := b.Offers(); len(left) != 1 || left[0].Claimed {
		t.Errorf("the unused offer stays usable: %+v", left)
	}
	// The rest of the ports is expected back, and comes as part of a new offer.
	if v := b.view("S1"); v.Ports(needOf(0, 0)).Has(10010) || !v.Ports(needOf(0, 0)).Has(10011) {
		t.Errorf("ports that are free: %v", v.Ports(needOf(0, 0)))
	}
	b.add(b.offer("O5", "S1", "ports:[10000-10009,10011-10150]", executor))
	if got := b.view("S1").Ports(needOf(0, 0)).String(); got != "[10000-10009, 10011-10150]" {
		t.Errorf("ports that are free: %s", got)
	}
	// The same offer twice counts once.
	before := b.Fates()
	b.add(b.offer("O5", "S1", "ports:[10000-10150]", executor))
	if b.Fates() != before {
		t.Errorf("%+v, then %+v", before, b.Fates())
	}
}

func TestC14_OneStaleOfferSpoilsTheAccept(t *testing.T) {
	b := newBook(t)
	executor := running(b.executorID("S1"))
	b.add(b.offer("O1", "S1", "cpus:1;mem:512", executor), b.offer("O2", "S1", "cpus:1;mem:512", executor))
	b.mustClaim("a", needOf(2000, 1024), "S1")
	if err := b.claim("b", needOf(1000, 512), "S1"); !errors.Is(err, ErrNoRoom) {
		t.Errorf("the room is claimed: %v", err)
	}
	batch := b.mustBatch("S1", "a")
	first := b.task("a").ID
	b.Sent(batch)
	if len(b.Offers()) != 0 {
		t.Errorf("offers that an ACCEPT named are used up: %v", b.Offers())
	}
	// The RESCIND was in the pipe; then comes the refusal, without any knowledge of an agent.
	b.Rescind("O1")
	c := b.because(first, "", mesos.TASK_DROPPED, mesos.SOURCE_MASTER, mesos.REASON_INVALID_OFFERS, "Task launched with invalid offers")
	if c.Effect != Progressed || b.task("a").State != Terminal {
		t.Fatalf("%v, %s", c.Effect, b.task("a").State)
	}
	if !b.Retry("a") {
		t.Fatal("the pod is retried inside Bind")
	}
	b.audit()
	if b.batch("S1", "a") != nil {
		t.Error("there is no offer to launch on")
	}
	b.add(b.offer("O3", "S1", "cpus:2;mem:1024", executor))
	b.Sent(b.mustBatch("S1", "a"))
	if second := b.task("a").ID; second == first {
		t.Errorf("the new attempt has the task id of the old one, %s", second)
	}
	if diff := cmp.Diff(Fates{Received: 3, Accepted: 3}, b.Fates()); diff != "" {
		t.Errorf("fates (-want,+got):\n%s", diff)
	}
}

func TestC15_RescindOfAReservedOffer(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:2;mem:2048"), b.offer("O9", "S2", "cpus:2;mem:2048"))
	b.mustClaim("p", needOf(1000, 1024), "S1")
	changed := make(chan struct{}, 1)
	b.Watch("p", changed)
	b.Rescind("O1")
	b.audit()
	select {
	case <-changed:
	default:
		t.Error("who waits for the claim is not told")
	}
	if since, short := b.Short("p"); !short || b.task("p").RescindedAt.IsZero() || !since.Equal(b.clock.Now()) {
		t.Error("the claim has lost its offer")
	}
	if b.batch("S1", "p") != nil {
		t.Error("a launch on a dead offer")
	}
	b.Release("p")
	b.audit()
	b.none("p")
	b.mustClaim("p", needOf(1000, 1024), "S2")

	// An id never seen: the offer that comes late is not taken.
	b.Rescind("O7")
	b.add(b.offer("O7", "S3", "cpus:2;mem:2048"))
	if len(b.Offers()) != 1 {
		t.Errorf("a withdrawn offer is kept: %v", b.Offers())
	}
	// After the ACCEPT: the update decides.
	b.Sent(b.mustBatch("S2", "p"))
	b.Rescind("O9")
	b.says(b.task("p").ID, "S2", mesos.TASK_STARTING)
	if got := b.task("p").State; got != Starting {
		t.Errorf("%s", got)
	}
	if diff := cmp.Diff(Fates{Received: 3, Accepted: 1, Rescinded: 2}, b.Fates()); diff != "" {
		t.Errorf("fates (-want,+got):\n%s", diff)
	}
}

// A RESCIND takes away only from claims of the offer's own role, and only what other offers do not make up for.
func TestRescindTouchesOnlyWhatStoodOnTheOffer(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:2;mem:2048"), b.offer("O2", "S1", "cpus:2;mem:2048"), b.offer("O3", "S1", "cpus:2;mem:2048", inRole("other")))
	b.mustClaim("p", needOf(1000, 1024), "S1")
	b.Rescind("O3")
	if !b.task("p").RescindedAt.IsZero() {
		t.Error("the claim did not stand on an offer of another role")
	}
	b.Rescind("O1")
	if _, short := b.Short("p"); short {
		t.Error("another offer holds the claim")
	}
}

// While an ACCEPT was under way and failed for certain, its offer was withdrawn, or its agent removed: it does not come back.
func TestRefusedAcceptRestoresOnlyLiveOffers(t *testing.T) {
	for _, tt := range []struct {
		name string
		away func(b *book)
		want Fates
	}{
		{"alive", func(*book) {}, Fates{Received: 1, Held: 1}},
		{"withdrawn", func(b *book) { b.Rescind("O1") }, Fates{Received: 1, Rescinded: 1}},
		{"agent removed", func(b *book) { b.AgentGone("S1") }, Fates{Received: 1, Rescinded: 1}},
		{"another subscription", func(b *book) { b.SetConnected(false); b.SetConnected(true) }, Fates{Received: 1, Accepted: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBook(t)
			b.add(b.offer("O1", "S1", "cpus:2;mem:2048"))
			b.mustClaim("p", needOf(1000, 1024), "S1")
			batch := b.mustBatch("S1", "p")
			tt.away(b)
			b.NotSent(batch)
			b.audit()
			if diff := cmp.Diff(tt.want, b.Fates()); diff != "" {
				t.Errorf("fates (-want,+got):\n%s", diff)
			}
			if got := b.task("p"); got.State != Claimed || got.ID != "" || got.Refusals != 1 {
				t.Errorf("%+v", got)
			}
			if _, short := b.Short("p"); short != (tt.want.Held == 0) {
				t.Errorf("short of an offer: %v", short)
			}
		})
	}
}

func TestC21_MaintenanceWindows(t *testing.T) {
	b := newBook(t)
	noon := b.clock.Now()
	window := func(start, duration time.Duration) func(*mesos.Offer) {
		return func(o *mesos.Offer) {
			o.Unavailability = &mesos.Unavailability{Start: mesos.TimeInfo{Nanoseconds: noon.Add(start).UnixNano()}}
			if duration > 0 {
				o.Unavailability.Duration = &mesos.DurationInfo{Nanoseconds: duration.Nanoseconds()}
			}
		}
	}
	const held = "cpus:4;mem:4096"
	b.add(b.offer("O1", "S1", held, window(5*time.Minute, time.Hour)), b.offer("O2", "S2", held, window(-time.Hour, 0)),
		b.offer("O3", "S3", held, window(-2*time.Hour, 30*time.Minute)), b.offer("O4", "S4", held))
	for _, skew := range []time.Duration{0, 30 * time.Second, -30 * time.Second} {
		for agent, want := range map[string]Reason{"S1": ReasonMaintenance, "S2": ReasonMaintenance, "S3": Fits, "S4": Fits} {
			if got := b.view(agent).Fit(needOf(1000, 1024), 10*time.Minute, noon.Add(skew)); got != want {
				t.Errorf("%s with a skew of %v: %q, want %q", agent, skew, got, want)
			}
		}
	}
	if got := b.view("S1").Fit(needOf(1000, 1024), time.Minute, noon); got != Fits {
		t.Errorf("a window that is further away than the lead: %q", got)
	}
	// The window is withdrawn with the next offer.
	b.Rescind("O2")
	b.add(b.offer("O5", "S2", held))
	if got := b.fit("S2", needOf(1000, 1024)); got != Fits {
		t.Errorf("no window any more: %q", got)
	}
}

// Defect 12 of the 2015 system: only live offers without claims are declined.
func TestDecline(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:2;mem:2048"), b.offer("O2", "S2", "cpus:2;mem:2048"), b.offer("O3", "S3", "cpus:2;mem:2048"))
	b.mustClaim("p", needOf(1000, 1024), "S1")
	b.Rescind("O2")
	got := b.Decline([]string{"O1", "O2", "O3", "O3", "never seen"})
	if diff := cmp.Diff([]string{"O3"}, got); diff != "" {
		t.Errorf("declined (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff(Fates{Received: 3, Held: 1, Declined: 1, Rescinded: 1}, b.Fates()); diff != "" {
		t.Errorf("fates (-want,+got):\n%s", diff)
	}
	b.audit()
	b.SetConnected(false)
	b.audit()
	if diff := cmp.Diff(Fates{Received: 3, Lost: 1, Declined: 1, Rescinded: 1}, b.Fates()); diff != "" {
		t.Errorf("offers die with the subscription (-want,+got):\n%s", diff)
	}
}

func TestTwoAgentsOfOneNode(t *testing.T) {
	b := newBook(t)
	need := needOf(1000, 1024)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096", onNode("n")))
	b.add(b.offer("O2", "S2", "cpus:4;mem:4096", onNode("n")))
	fit := func() Reason { return b.Snapshot().Node("n").Fit(need, 0, b.clock.Now()) }
	if got := fit(); got != ReasonAmbiguous {
		t.Errorf("two agents that both offer: %q", got)
	}
	// That the offers of both are declined and one of them is first to offer again decides nothing.
	b.Decline([]string{"O1", "O2"})
	b.add(b.offer("O3", "S1", "cpus:4;mem:4096", onNode("n")))
	if got := fit(); got != ReasonAmbiguous {
		t.Errorf("one is first again: %q", got)
	}
	if err := b.Claim(ledgerPod("p"), need, "n"); !errors.Is(err, ErrNoRoom) {
		t.Errorf("claim: %v", err)
	}
	// The master removes one of them; the other's next offer is good.
	b.AgentGone("S2")
	b.add(b.offer("O4", "S1", "cpus:4;mem:4096", onNode("n")))
	if got := fit(); got != Fits {
		t.Errorf("only one is left: %q", got)
	}
	b.audit()
}

// Another agent id serves the node of an agent that cannot be reached: its tasks are lost now, and held anew there.
func TestAgentReplaced(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096", onNode("n")))
	if err := b.Claim(ledgerPod("p"), needOf(1000, 1024, 31000), "n"); err == nil {
		t.Fatal("port 31000 is not offered")
	}
	b.Restore(Task{Pod: ledgerPod("p"), Need: needOf(1000, 1024, 31000), AgentID: "S1", Node: "n", ID: "p.1"})
	b.says("p.1", "S1", mesos.TASK_RUNNING)
	if got := b.Replaced(); got != nil {
		t.Fatalf("nothing has happened: %v", got)
	}
	b.because("p.1", "S1", mesos.TASK_UNREACHABLE, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REMOVED)
	b.AgentGone("S1")
	if got := b.Replaced(); got != nil {
		t.Fatalf("nobody serves the node yet: %v", got)
	}
	b.add(b.offer("O2", "S2", "cpus:4;mem:4096;ports:[31000-31000]", onNode("n")))
	got := b.Replaced()
	if len(got) != 1 || got[0].Effect != Lost || got[0].Task.State != Unheld {
		t.Fatalf("%+v", got)
	}
	b.audit()
	if c, ok := b.Reclaim("p"); !ok || c.AgentID != "S2" {
		t.Errorf("%+v %v", c, ok)
	}
	b.Sent(b.mustBatch("S2", "p"))
	if again := b.Replaced(); again != nil {
		t.Errorf("once is enough: %v", again)
	}
	// The old agent turns up after all: its task is a ghost.
	b.says("p.1", "S1", mesos.TASK_RUNNING)
	if d := b.Dooms(0, time.Second); len(d) != 1 || d[0].TaskID != "p.1" || d[0].AgentID != "S1" {
		t.Errorf("dooms: %+v", d)
	}
}

func TestOffersOfTwoRolesAreNeverJoined(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:2;mem:2048", inRole("dev")), b.offer("O2", "S1", "cpus:2;mem:2048", inRole("prod")))
	dev, big := needOf(1000, 1024), needOf(3000, 1024)
	dev.Role, big.Role = "dev", "dev"
	if got := b.fit("S1", big); got != ReasonCPUs {
		t.Errorf("two roles' offers do not add up: %q", got)
	}
	if got := b.fit("S1", needOf(1, 1)); got != ReasonNoOffer {
		t.Errorf("a role without offers: %q", got)
	}
	b.mustClaim("p", dev, "S1")
	batch := b.Batch("S1", PoolKey{Role: "dev"}, uids("p"), 10)
	if batch == nil || !slices.Equal(batch.OfferIDs, []string{"O1"}) {
		t.Errorf("%+v", batch)
	}
	b.audit()
}

func TestRecentForgetsTheOldest(t *testing.T) {
	r := newRecent(3)
	for i := range 10 {
		r.add(fmt.Sprint(i))
		r.add(fmt.Sprint(i))
	}
	for i := range 10 {
		if r.has(fmt.Sprint(i)) != (i >= 7) {
			t.Errorf("%d: %v", i, r.has(fmt.Sprint(i)))
		}
	}
	if len(r.set) != 3 || len(r.ring) != 3 {
		t.Errorf("%d %d remembered, want 3", len(r.set), len(r.ring))
	}
}
