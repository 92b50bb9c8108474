// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2/ktesting"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

const role = "k8s"

// accept is an ACCEPT that waits for its answer.
type accept struct {
	at     time.Time
	offers []string
	tasks  []mesos.TaskInfo
	answer chan error
}

// fakeMesos hands every ACCEPT to the test.
type fakeMesos struct {
	clock   *testclock.FakeClock
	accepts chan accept
}

func (f *fakeMesos) Accept(ctx context.Context, _ string, offers []string, operations []mesos.Offer_Operation) error {
	a := accept{f.clock.Now(), offers, operations[len(operations)-1].Launch.TaskInfos, make(chan error, 1)}
	f.accepts <- a
	select {
	case err := <-a.answer:
		return err
	case <-ctx.Done():
		return &mesosapi.CallError{Type: scheduler.Call_ACCEPT, Ambiguous: true, Err: ctx.Err()}
	}
}

// fakeRecord is a record of launches that asks the test.
type fakeRecord struct {
	mu     sync.Mutex
	record func(ctx context.Context) error // nil stands for one that is done at once
}

func (f *fakeRecord) Record(ctx context.Context) error {
	f.mu.Lock()
	record := f.record
	f.mu.Unlock()
	if record == nil {
		return nil
	}
	return record(ctx)
}

func (f *fakeRecord) set(record func(ctx context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record = record
}

type fixture struct {
	*Launcher
	record fakeRecord
	t      *testing.T
	ctx    context.Context
	clock  *testclock.FakeClock
	book   *ledger.Ledger
	mesos  *fakeMesos
	cancel context.CancelFunc
	offers int
}

func setUp(t *testing.T, change ...func(*Options)) *fixture {
	leaks := goleak.IgnoreCurrent()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	clock := testclock.NewFakeClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	executor := taskinfo.Executor{Path: "/x", Amounts: resources.Amounts{CPUs: 100, Mem: 128_000}}
	f := &fixture{t: t, ctx: ctx, clock: clock, cancel: cancel, mesos: &fakeMesos{clock, make(chan accept, 100)}}
	f.book = ledger.New(ledger.Options{Clock: clock, NodeName: func(o *mesos.Offer) string { return o.Hostname }, Executor: executor, ReturnTime: 2 * time.Second})
	f.book.Resubscribed()
	f.book.SetConnected(true)
	options := Options{Clock: clock, Executor: executor, Window: 5 * time.Millisecond, MaxTasks: 100, Timeout: time.Minute, Backing: 3 * time.Second, Retries: 2}
	for _, c := range change {
		c(&options)
	}
	f.Launcher = New(options, f.book, f.mesos, &f.record)
	ran := make(chan struct{})
	go func() { defer close(ran); f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ran
		goleak.VerifyNone(t, leaks)
	})
	return f
}

// offer gives the ledger an offer of 8 cpus, which names executors that run on the agent.
func (f *fixture) offer(agent string, executors ...string) string {
	f.offers++
	o := mesos.Offer{ID: mesos.OfferID{Value: fmt.Sprintf("O%d", f.offers)}, AgentID: mesos.AgentID{Value: agent}, Hostname: "node-" + agent,
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: ptr.To(role)}}
	for name, v := range map[string]float64{"cpus": 8, "mem": 8192} {
		o.Resources = append(o.Resources, mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: v}, AllocationInfo: o.AllocationInfo})
	}
	for _, id := range executors {
		o.ExecutorIDs = append(o.ExecutorIDs, mesos.ExecutorID{Value: id})
	}
	f.book.AddOffers([]mesos.Offer{o})
	f.Kick()
	return o.ID.Value
}

func (f *fixture) claim(uid, agent string) {
	f.t.Helper()
	pod := ledger.Pod{UID: types.UID(uid), Namespace: "ns", Name: "pod-" + uid, Grace: 45 * time.Second}
	need := resources.Need{Amounts: resources.Amounts{CPUs: 1000, Mem: 64_000}, Role: role}
	if err := f.book.Claim(pod, need, "node-"+agent); err != nil {
		f.t.Fatal(err)
	}
}

// result is what Launch returns.
type result struct {
	task ledger.Task
	err  error
	at   time.Time
}

func (f *fixture) launch(uid string) <-chan result { return f.launchWith(f.ctx, uid) }

func (f *fixture) launchWith(ctx context.Context, uid string) <-chan result {
	out := make(chan result, 1)
	go func() {
		t, err := f.Launch(ctx, types.UID(uid))
		out <- result{t, err, f.clock.Now()}
	}()
	return out
}

// next lets time pass, a step at a time, until something comes on a channel.
func next[T any](f *fixture, step time.Duration, from <-chan T) T {
	f.t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for {
		pause := time.NewTimer(200 * time.Microsecond)
		select {
		case v := <-from:
			pause.Stop()
			return v
		case <-pause.C:
			f.clock.Step(step)
		case <-limit.C:
			f.t.Fatalf("nothing comes; the tasks are %+v", f.book.Tasks())
		}
	}
}

func (f *fixture) accept() accept { f.t.Helper(); return next(f, time.Millisecond, f.mesos.accepts) }

// nothing lets a time pass and fails if an ACCEPT comes.
func (f *fixture) nothing(d time.Duration) {
	f.t.Helper()
	step := d / 50
	for end := f.clock.Now().Add(d); f.clock.Now().Before(end); {
		pause := time.NewTimer(200 * time.Microsecond)
		select {
		case a := <-f.mesos.accepts:
			f.t.Fatalf("an ACCEPT of %d tasks on %v", len(a.tasks), a.offers)
		case <-pause.C:
			f.clock.Step(step)
		}
	}
}

func (f *fixture) says(id string, state mesos.TaskState, reason ...mesos.TaskStatus_Reason) {
	u := ledger.Update{TaskID: id, Status: ledger.Status{State: state, Source: mesos.SOURCE_EXECUTOR}}
	if len(reason) > 0 {
		u.Source, u.Reason, u.HasWhy = mesos.SOURCE_MASTER, reason[0], true
	}
	f.book.Apply(u)
	f.Kick()
}

func refused() error {
	return &mesosapi.CallError{Type: scheduler.Call_ACCEPT, Err: errors.New("403 Forbidden")}
}

func lost() error {
	return &mesosapi.CallError{Type: scheduler.Call_ACCEPT, Ambiguous: true, Err: errors.New("connection reset")}
}

// No launch is sent before it is on record.
func TestRecordedBeforeItIsSent(t *testing.T) {
	f := setUp(t)
	f.offer("S1")
	asked, goOn := make(chan []ledger.Flight, 10), make(chan error)
	f.record.set(func(ctx context.Context) error {
		asked <- f.book.InFlight()
		select {
		case err := <-goOn:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	f.claim("p", "S1")
	r := f.launch("p")
	first := next(f, time.Millisecond, asked)
	if len(first) != 1 || first[0].AgentID != "S1" || first[0].Node != "node-S1" {
		t.Fatalf("to be recorded: %+v", first)
	}
	f.nothing(time.Second)
	// What could not be recorded is not sent, and nothing of it is left; it is tried again.
	goOn <- errors.New("the API server is away")
	second := next(f, time.Millisecond, asked)
	if second[0].TaskID == first[0].TaskID || len(second) != 1 {
		t.Errorf("after %+v comes %+v", first, second)
	}
	goOn <- nil
	a := f.accept()
	if got := a.tasks[0].TaskID.Value; got != second[0].TaskID {
		t.Errorf("launched %s, recorded %s", got, second[0].TaskID)
	}
	a.answer <- nil
	f.says(second[0].TaskID, mesos.TASK_STARTING)
	if got := next(f, time.Millisecond, r); got.err != nil {
		t.Error(got.err)
	}
}

// A bound pod names the agent of its task itself.
func TestReholdIsNotRecorded(t *testing.T) {
	f := setUp(t)
	f.record.set(func(context.Context) error { t.Error("recorded"); return nil })
	f.book.Restore(ledger.Task{Pod: ledger.Pod{UID: "p"}, Need: resources.Need{Amounts: resources.Amounts{CPUs: 1000, Mem: 64_000}, Role: role}, AgentID: "S1", Node: "node-S1"})
	f.offer("S1")
	if _, ok := f.book.Reclaim("p"); !ok {
		t.Fatal("no claim")
	}
	f.launch("p")
	a := f.accept()
	a.answer <- nil
}

// A batch is not kept open when nothing more can come.
func TestNothingMoreToWaitFor(t *testing.T) {
	f := setUp(t)
	begun := f.clock.Now()
	f.offer("S1")
	f.claim("p1", "S1")
	f.claim("p2", "S1")
	f.launch("p1")
	f.launch("p2")
	// Nobody moves the clock.
	var sent accept
	select {
	case sent = <-f.mesos.accepts:
	case <-time.After(time.Minute):
		t.Fatal("the window is waited for")
	}
	if len(sent.tasks) != 2 || !sent.at.Equal(begun) {
		t.Errorf("%d tasks after %v, want both at once", len(sent.tasks), sent.at.Sub(begun))
	}
	sent.answer <- nil
	for _, task := range sent.tasks {
		f.says(task.TaskID.Value, mesos.TASK_STARTING)
	}
}

func TestClaimsOfOneAgentShareAnAccept(t *testing.T) {
	f := setUp(t)
	f.book.Enter("another") // is about to be scheduled
	first := f.offer("S1")
	f.offer("S2")
	var results []<-chan result
	for i := range 5 {
		uid := fmt.Sprintf("p%d", i)
		f.claim(uid, "S1")
		results = append(results, f.launch(uid))
	}
	a := f.accept()
	// All were asked for at one moment; how many came within the window is up to the goroutines, so the rest may follow.
	f.claim("q", "S2")
	other := f.launch("q")
	tasks := map[string]mesos.TaskInfo{}
	add := func(a accept) {
		for _, task := range a.tasks {
			if _, twice := tasks[task.TaskID.Value]; twice {
				t.Errorf("task %s twice", task.TaskID.Value)
			}
			tasks[task.TaskID.Value] = task
		}
		a.answer <- nil
	}
	if len(a.offers) != 1 || a.offers[0] != first {
		t.Errorf("offers %v", a.offers)
	}
	if since := a.at.Sub(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)); since < 5*time.Millisecond {
		t.Errorf("sent after %v, want the window of 5ms", since)
	}
	add(a)
	b := f.accept()
	if b.tasks[0].AgentID.Value != "S2" {
		t.Errorf("a second ACCEPT for agent %s before its executor has answered", b.tasks[0].AgentID.Value)
	}
	add(b)
	for id := range tasks {
		f.says(id, mesos.TASK_STARTING)
	}
	f.offer("S1")
	for len(tasks) < 6 {
		more := f.accept()
		add(more)
		for _, task := range more.tasks {
			f.says(task.TaskID.Value, mesos.TASK_STARTING)
		}
	}
	for _, r := range append(results, other) {
		got := next(f, time.Millisecond, r)
		if got.err != nil || !got.task.State.Live() {
			t.Errorf("%v %s", got.err, got.task.State)
		}
		task := tasks[got.task.ID]
		ref, err := taskinfo.ParseReference(task.Data)
		if err != nil || ref.UID != string(got.task.UID) || ref.Name != "pod-"+ref.UID || ref.Node != got.task.Node || ref.GraceSeconds != 45 || ref.Bound {
			t.Errorf("reference %+v (%v)", ref, err)
		}
		if task.Executor.ExecutorID.Value != got.task.ExecutorID || task.KillPolicy.GracePeriod.GetNanoseconds() != (45*time.Second).Nanoseconds() {
			t.Errorf("%+v", task)
		}
	}
	f.nothing(time.Second)
}

func TestMaxTasksOfABatch(t *testing.T) {
	f := setUp(t, func(o *Options) { o.MaxTasks = 2; o.Window = time.Second })
	f.offer("S1")
	f.offer("S1")
	f.offer("S1")
	for i := range 5 {
		uid := fmt.Sprintf("p%d", i)
		f.claim(uid, "S1")
		f.launch(uid)
	}
	seen := 0
	for seen < 5 {
		a := f.accept()
		if len(a.tasks) > 2 {
			t.Errorf("%d tasks", len(a.tasks))
		}
		seen += len(a.tasks)
		a.answer <- nil
		for _, task := range a.tasks {
			f.says(task.TaskID.Value, mesos.TASK_RUNNING)
		}
	}
}

func TestWhenABatchCloses(t *testing.T) {
	const window, claims = 100 * time.Millisecond, 6
	for _, c := range []struct {
		name     string
		every    time.Duration // between two claims
		maxTasks int
		tasks    int           // in the first ACCEPT
		after    time.Duration // when it is sent
	}{
		{"one window after its only claim", time.Hour, 100, 1, window},
		{"four windows after its first claim", 90 * time.Millisecond, 100, 5, 4 * window},
		{"when it is full", 50 * time.Millisecond, 3, 3, 100 * time.Millisecond},
		{"one window after its latest claim", 10 * time.Millisecond, 100, claims, 50*time.Millisecond + window},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setUp(t, func(o *Options) { o.Window, o.MaxTasks = window, c.maxTasks })
			f.book.Enter("another") // is about to be scheduled, so that the window is waited for
			f.offer("S1")
			batches := forming{Launcher: f.Launcher, queues: map[agentPool]*queue{}, timer: f.clock.NewTimer(time.Hour)}
			key := agentPool{"S1", ledger.PoolKey{Role: role}}
			begun := f.clock.Now()
			for i := 0; ; f.clock.Step(10 * time.Millisecond) {
				for ; i < claims && f.clock.Since(begun) >= time.Duration(i)*c.every; i++ {
					uid := fmt.Sprintf("p%d", i)
					f.claim(uid, "S1")
					batches.add(f.ctx, []claim{{key, types.UID(uid)}})
				}
				select {
				case <-batches.timer.C():
					batches.all(f.ctx)
				default:
				}
				if took := f.clock.Since(begun); took > c.after {
					t.Fatalf("no ACCEPT after %v", took)
				} else if f.book.Sending() > 0 {
					if a := <-f.mesos.accepts; len(a.tasks) != c.tasks || took != c.after {
						t.Errorf("%d tasks after %v, want %d after %v", len(a.tasks), took, c.tasks, c.after)
					}
					break
				}
			}
		})
	}
}

// Claims that come at once may be more than a batch holds: the rest waits for others like any.
func TestTheRestOfAFullBatchWaits(t *testing.T) {
	f := setUp(t, func(o *Options) { o.Window, o.MaxTasks = time.Second, 3 })
	f.book.Enter("another") // is about to be scheduled, so that the window is waited for
	f.offer("S1")
	f.claim("first", "S1")
	f.launch("first")
	first := f.accept()
	first.answer <- nil
	f.says(first.tasks[0].TaskID.Value, mesos.TASK_RUNNING)
	for f.book.Sending() > 0 {
		runtime.Gosched()
	}
	for range 2 {
		f.offer("S1", first.tasks[0].Executor.ExecutorID.Value)
	}
	batches := forming{Launcher: f.Launcher, queues: map[agentPool]*queue{}, timer: f.clock.NewTimer(time.Hour)}
	key := agentPool{"S1", ledger.PoolKey{Role: role}}
	var claims []claim
	for i := range 4 {
		uid := fmt.Sprintf("p%d", i)
		f.claim(uid, "S1")
		claims = append(claims, claim{key, types.UID(uid)})
	}
	batches.add(f.ctx, claims)
	if a := <-f.mesos.accepts; len(a.tasks) != 3 {
		t.Errorf("%d tasks", len(a.tasks))
	}
	if n := f.book.Sending(); n != 1 {
		t.Errorf("%d ACCEPTs at once", n)
	}
	f.clock.Step(time.Second)
	batches.all(f.ctx)
	if a := <-f.mesos.accepts; len(a.tasks) != 1 {
		t.Errorf("%d tasks", len(a.tasks))
	}
}

// A claim that is still one after its time is handed over again: whatever became of its place in the queue, it is not forgotten.
func TestAClaimThatWaitsIsHandedOverAgain(t *testing.T) {
	f := setUp(t, func(o *Options) { o.Timeout = 1 << 20 * time.Hour })
	idle := New(f.options, f.book, f.mesos, &f.record) // nobody runs it, so that the claim stays one
	f.offer("S1")
	f.claim("p", "S1")
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = idle.Launch(ctx, "p")
	}()
	limit := time.Now().Add(10 * time.Second)
	for handed := 0; handed < 3; handed += len(idle.take(nil)) {
		if time.Now().After(limit) {
			t.Fatalf("handed over %d times", handed)
		}
		f.clock.Step(f.options.Backing) // who was just woken begins to wait anew
		idle.waiting.wakeDue(f.clock.Now())
		runtime.Gosched()
	}
	cancel()
	<-done
}

// Defect 7 of the 2015 system, and the pace of a launch that cannot be sent.
func TestRefusedAcceptIsRepeatedAtAPace(t *testing.T) {
	f := setUp(t)
	offer := f.offer("S1")
	f.claim("p", "S1")
	done := f.launch("p")
	ids := map[string]bool{}
	var before time.Time
	for i := range 4 {
		a := f.accept()
		if len(a.tasks) != 1 || a.offers[0] != offer || ids[a.tasks[0].TaskID.Value] {
			t.Fatalf("attempt %d: %d tasks on %v", i, len(a.tasks), a.offers)
		}
		if gap := a.at.Sub(before); gap < again {
			t.Errorf("attempt %d comes %v after the one before, want at least %v", i, gap, again)
		}
		before = a.at
		ids[a.tasks[0].TaskID.Value] = true
		a.answer <- refused()
	}
	a := f.accept()
	a.answer <- nil
	f.says(a.tasks[0].TaskID.Value, mesos.TASK_STARTING)
	if got := next(f, time.Millisecond, done); got.err != nil {
		t.Error(got.err)
	}
	if fates := f.book.Fates(); fates.Received != 1 || fates.Accepted != 1 {
		t.Errorf("%+v", fates)
	}
}

// Defect 11 of the 2015 system: a launch whose answer is lost is settled before there is another.
func TestC35_AnUnclearLaunchIsNotRepeated(t *testing.T) {
	f := setUp(t)
	f.offer("S1")
	f.claim("p", "S1")
	done := f.launch("p")
	a := f.accept()
	first := a.tasks[0].TaskID.Value
	a.answer <- lost()
	f.offer("S1")
	f.nothing(10 * time.Second)
	fences := f.book.Fences()
	if len(fences) != 1 || fences[0].OfferIDs[0] != a.offers[0] || fences[0].Tasks[0].TaskID != first {
		t.Fatalf("fences: %+v", fences)
	}
	f.book.Fenced([]string{first})
	f.nothing(time.Second)
	f.says(first, mesos.TASK_GONE, mesos.REASON_RECONCILIATION)
	f.offer("S1")
	a = f.accept()
	second := a.tasks[0].TaskID.Value
	if second == first {
		t.Error("the new attempt has the old id")
	}
	a.answer <- nil
	f.says(second, mesos.TASK_STARTING)
	if got := next(f, time.Millisecond, done); got.err != nil || got.task.ID != second {
		t.Errorf("%v %s", got.err, got.task.ID)
	}
}

func TestC35_AnUnclearLaunchThatCameThrough(t *testing.T) {
	f := setUp(t, func(o *Options) { o.Timeout = 2 * time.Minute })
	f.offer("S1")
	f.claim("p", "S1")
	done := f.launch("p")
	a := f.accept()
	a.answer <- lost()
	f.offer("S1")
	f.nothing(80 * time.Second)
	f.says(a.tasks[0].TaskID.Value, mesos.TASK_STARTING)
	if got := next(f, time.Millisecond, done); got.err != nil || got.task.ID != a.tasks[0].TaskID.Value {
		t.Errorf("%v %s: the task is adopted", got.err, got.task.ID)
	}
}

func TestC14_DroppedLaunchesAreRetriedABoundedNumberOfTimes(t *testing.T) {
	f := setUp(t)
	f.offer("S1")
	f.claim("p", "S1")
	done := f.launch("p")
	ids := map[string]bool{}
	for i := range 3 { // the first and two retries
		a := f.accept()
		ids[a.tasks[0].TaskID.Value] = true
		a.answer <- nil
		f.says(a.tasks[0].TaskID.Value, mesos.TASK_DROPPED, mesos.REASON_INVALID_OFFERS)
		if i < 2 {
			f.nothing(500 * time.Millisecond)
			f.offer("S1")
		}
	}
	got := next(f, time.Millisecond, done)
	if !errors.Is(got.err, ErrLaunch) || len(ids) != 3 {
		t.Errorf("%v after %d attempts with ids of their own", got.err, len(ids))
	}
	f.book.Release("p")
	if _, ok := f.book.Task("p"); ok {
		t.Error("a record is left")
	}
}

func TestEndsThatFreshOffersDoNotCure(t *testing.T) {
	const m, x = mesos.SOURCE_MASTER, mesos.SOURCE_EXECUTOR
	for _, tt := range []struct {
		name   string
		status ledger.Status
		want   bool
	}{
		{"invalid task", ledger.Status{State: mesos.TASK_ERROR, Source: m, Reason: mesos.REASON_TASK_INVALID, HasWhy: true, Message: "Task uses invalid resources"}, false},
		{"more than available", ledger.Status{State: mesos.TASK_ERROR, Source: m, Message: "Total resources cpus:1 required by task and its executor is more than available cpus:0.5"}, true},
		{"invalid offers", ledger.Status{State: mesos.TASK_DROPPED, Source: m, Reason: mesos.REASON_INVALID_OFFERS, HasWhy: true}, true},
		{"agent restarted", ledger.Status{State: mesos.TASK_DROPPED, Source: mesos.SOURCE_AGENT, Reason: mesos.REASON_AGENT_RESTARTED, HasWhy: true}, true},
		{"lost ACCEPT", ledger.Status{State: mesos.TASK_GONE, Source: m, Reason: mesos.REASON_RECONCILIATION, HasWhy: true}, true},
		{"executor ended", ledger.Status{State: mesos.TASK_FAILED, Source: mesos.SOURCE_AGENT, Reason: mesos.REASON_EXECUTOR_TERMINATED, HasWhy: true}, false},
		{"executor gave up", ledger.Status{State: mesos.TASK_FAILED, Source: x}, false},
		{"finished", ledger.Status{State: mesos.TASK_FINISHED, Source: x}, false},
		{"killed", ledger.Status{State: mesos.TASK_KILLED, Source: x}, false},
		{"gone by an operator", ledger.Status{State: mesos.TASK_GONE_BY_OPERATOR, Source: m}, false},
	} {
		if got := retryable(tt.status); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	f := setUp(t)
	f.offer("S1")
	f.offer("S1")
	f.claim("p", "S1")
	done := f.launch("p")
	a := f.accept()
	a.answer <- nil
	f.says(a.tasks[0].TaskID.Value, mesos.TASK_ERROR, mesos.REASON_TASK_INVALID)
	if got := next(f, time.Millisecond, done); !errors.Is(got.err, ErrLaunch) {
		t.Errorf("%v", got.err)
	}
	f.nothing(5 * time.Second)
}

func TestLaunchTimesOut(t *testing.T) {
	f := setUp(t)
	f.offer("S1")
	f.claim("p", "S1")
	begun := f.clock.Now()
	done := f.launch("p")
	a := f.accept()
	a.answer <- nil
	got := next(f, 100*time.Millisecond, done)
	if !errors.Is(got.err, ErrLaunch) || got.at.Sub(begun) < time.Minute {
		t.Errorf("%v after %v", got.err, got.at.Sub(begun))
	}
	if now, _ := f.book.Task("p"); now.State != ledger.Launching || !now.KillSince.IsZero() {
		t.Errorf("Launch itself gives nothing up: %s", now.State)
	}
	f.book.Release("p")
	if d := f.book.Dooms(time.Hour, time.Second); len(d) != 1 || d[0].TaskID != a.tasks[0].TaskID.Value {
		t.Errorf("it is killed: %+v", d)
	}
}

// K6: when the process ends, or loses its lease, the next leader settles what is in flight.
func TestCancelTouchesNothing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		until func(f *fixture)
		want  ledger.State
	}{
		{"before the ACCEPT", func(f *fixture) { f.book.SetTrouble("S1", ledger.NoTrouble) }, ledger.Claimed},
		{"after the ACCEPT", func(f *fixture) { f.accept().answer <- nil }, ledger.Launching},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := setUp(t, func(o *Options) {
				if tt.want == ledger.Claimed {
					o.Window = time.Hour
				}
			})
			f.book.Enter("another") // is about to be scheduled, so the window is waited for
			f.offer("S1")
			f.claim("p", "S1")
			ctx, cancel := context.WithCancel(f.ctx)
			done := f.launchWith(ctx, "p")
			tt.until(f)
			cancel()
			if got := next(f, 0, done); !errors.Is(got.err, context.Canceled) || errors.Is(got.err, ErrLaunch) {
				t.Errorf("%v", got.err)
			}
			if now, ok := f.book.Task("p"); !ok || now.State != tt.want || !now.KillSince.IsZero() {
				t.Errorf("%+v", now)
			}
		})
	}
}

// Run ends when what is in flight has been answered; a call carries the context and so has an end.
func TestRunWaitsForWhatIsInFlight(t *testing.T) {
	f := setUp(t)
	f.offer("S1")
	f.claim("p", "S1")
	done := f.launch("p")
	a := f.accept()
	f.cancel()
	if got := <-done; !errors.Is(got.err, context.Canceled) {
		t.Errorf("%v", got.err)
	}
	if len(a.tasks) != 1 {
		t.Errorf("%d tasks", len(a.tasks))
	}
} // the clean-up waits for Run and looks for goroutines

func TestC15_AReservedOfferIsWithdrawn(t *testing.T) {
	f := setUp(t, func(o *Options) { o.Window = time.Second })
	f.book.Enter("another") // is about to be scheduled, so the window is waited for
	offer := f.offer("S1")
	f.claim("p", "S1")
	begun := f.clock.Now()
	done := f.launch("p")
	f.book.Rescind(offer)
	got := next(f, time.Millisecond, done)
	if !errors.Is(got.err, ErrLaunch) || got.at.Sub(begun) >= 3*time.Second {
		t.Errorf("%v after %v, want to fail fast", got.err, got.at.Sub(begun))
	}
	f.nothing(2 * time.Second)
}

func TestC32_NothingIsSentWithoutASubscription(t *testing.T) {
	f := setUp(t)
	f.offer("S1")
	f.claim("q", "S1")
	f.book.SetConnected(false)
	done := f.launch("q")
	got := next(f, 10*time.Millisecond, done)
	if !errors.Is(got.err, ErrLaunch) {
		t.Errorf("%v", got.err)
	}
	f.book.Release("q")
	if _, ok := f.book.Task("q"); ok {
		t.Error("nothing was sent, so nothing is left")
	}
	f.nothing(time.Second)
}

func TestC41_ThePodGoesBeforeTheAccept(t *testing.T) {
	for name, end := range map[string]func(*ledger.Ledger){
		"deleted":   func(l *ledger.Ledger) { l.PodGone("p") },
		"released":  func(l *ledger.Ledger) { l.Release("p") },
		"withdrawn": func(l *ledger.Ledger) { l.Kill("p") },
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t, func(o *Options) { o.Window = time.Second })
			f.book.Enter("another") // is about to be scheduled, so the window is waited for
			f.offer("S1")
			f.claim("p", "S1")
			done := f.launch("p")
			end(f.book)
			if got := next(f, time.Millisecond, done); !errors.Is(got.err, ErrLaunch) {
				t.Errorf("%v", got.err)
			}
			f.book.Release("p")
			f.nothing(2 * time.Second)
		})
	}
}

// A claim that waits for long for an executor to answer asks again and again, and still gets one task.
func TestClaimsThatWaitGetOneTask(t *testing.T) {
	f := setUp(t)
	f.offer("S1")
	f.offer("S1")
	f.claim("first", "S1")
	one := f.launch("first")
	a := f.accept()
	a.answer <- nil
	f.claim("second", "S1")
	two := f.launch("second")
	f.nothing(20 * time.Second)
	f.says(a.tasks[0].TaskID.Value, mesos.TASK_STARTING)
	next(f, time.Millisecond, one)
	b := f.accept()
	if len(b.tasks) != 1 {
		t.Errorf("%d tasks for one pod", len(b.tasks))
	}
	b.answer <- nil
	f.says(b.tasks[0].TaskID.Value, mesos.TASK_STARTING)
	if got := next(f, time.Millisecond, two); got.err != nil {
		t.Error(got.err)
	}
	f.nothing(5 * time.Second)
}

func TestTheRestOfAnAcceptBacksClaims(t *testing.T) {
	f := setUp(t)
	f.offer("S1")
	f.claim("a", "S1")
	one := f.launch("a")
	first := f.accept()
	first.answer <- nil
	f.says(first.tasks[0].TaskID.Value, mesos.TASK_RUNNING)
	next(f, time.Millisecond, one)
	f.claim("b", "S1") // on the rest that is expected
	two := f.launch("b")
	f.nothing(1500 * time.Millisecond)
	f.offer("S1")
	second := f.accept()
	second.answer <- nil
	f.says(second.tasks[0].TaskID.Value, mesos.TASK_RUNNING)
	if got := next(f, time.Millisecond, two); got.err != nil {
		t.Error(got.err)
	}
	// It does not come: the claim is given up after a while.
	f.claim("c", "S1")
	three := f.launch("c")
	begun := f.clock.Now()
	if got := next(f, 10*time.Millisecond, three); !errors.Is(got.err, ErrLaunch) || got.at.Sub(begun) < 3*time.Second || got.at.Sub(begun) > 10*time.Second {
		t.Errorf("%v after %v", got.err, got.at.Sub(begun))
	}
}

// Bound pods that lost their tasks wait for offers for as long as their caller lets them.
func TestLaunchAnewForABoundPod(t *testing.T) {
	f := setUp(t)
	f.book.Restore(ledger.Task{Pod: ledger.Pod{UID: "p", Namespace: "ns", Name: "p"}, Need: resources.Need{Amounts: resources.Amounts{CPUs: 1000, Mem: 64_000}, Role: role}, AgentID: "S1", Node: "node-S1"})
	if _, ok := f.book.Reclaim("p"); !ok {
		t.Fatal("not reclaimed")
	}
	done := f.launch("p")
	f.nothing(20 * time.Second)
	f.offer("S1")
	a := f.accept()
	ref, err := taskinfo.ParseReference(a.tasks[0].Data)
	if err != nil || !ref.Bound {
		t.Errorf("the executor is told that the pod runs: %+v (%v)", ref, err)
	}
	a.answer <- nil
	f.says(a.tasks[0].TaskID.Value, mesos.TASK_RUNNING)
	if got := next(f, time.Millisecond, done); got.err != nil || got.task.State != ledger.Running {
		t.Errorf("%v %s", got.err, got.task.State)
	}
}

func TestManyLaunchesAtOnce(t *testing.T) {
	// On a slow machine the clock runs ahead of those who work: nobody is to give up for that.
	f := setUp(t, func(o *Options) { o.Timeout, o.Backing = 24*time.Hour, 24*time.Hour })
	const agents, pods = 20, 10
	for i := range agents {
		agent := fmt.Sprintf("S%d", i)
		f.offer(agent)
		f.offer(agent)
	}
	done := make(chan struct{})
	var answering sync.WaitGroup
	answering.Go(func() {
		for {
			var a accept
			select {
			case a = <-f.mesos.accepts:
			case <-done:
				return
			case <-f.ctx.Done():
				return
			}
			a.answer <- nil
			for _, task := range a.tasks {
				f.says(task.TaskID.Value, mesos.TASK_STARTING)
			}
		}
	})
	for i := range agents * pods / 2 { // all are about to be scheduled, so that batches gather
		f.book.Enter(types.UID(fmt.Sprint("another", i)))
	}
	var results []<-chan result
	for i := range agents {
		for j := range pods / 2 {
			uid := fmt.Sprintf("p%d-%d", i, j)
			f.claim(uid, fmt.Sprintf("S%d", i))
			results = append(results, f.launch(uid))
		}
	}
	live := map[string]bool{}
	for _, r := range results {
		got := next(f, time.Millisecond, r)
		// An agent's second offer may have been too small for what was left; it is never a task too many.
		if got.err == nil {
			live[got.task.ID] = true
		}
	}
	if len(live) != len(results) {
		t.Errorf("%d of %d pods have a task", len(live), len(results))
	}
	close(done)
	answering.Wait()
}
