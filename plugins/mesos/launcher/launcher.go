// SPDX-License-Identifier: Apache-2.0

// Package launcher turns claims into Mesos tasks. It gathers the claims of one agent and role for some milliseconds,
// sends one ACCEPT for all of them, and tells each pod's Bind what became of its task.
package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// Mesos sends what a batch asks for.
type Mesos interface {
	// Accept does operations on offers of one agent and role; what they leave comes back without a filter. Its errors are
	// mesosapi's: mesosapi.Ambiguous says of one whether the master may have processed the call all the same.
	Accept(ctx context.Context, role string, offerIDs []string, operations []mesos.Offer_Operation) error
}

// Record puts the launches that are in flight on record before they are sent.
type Record interface {
	// Record returns when everything that is in flight now is on record.
	Record(ctx context.Context) error
}

// Options are the bounds of launching.
type Options struct {
	Clock    clock.WithTicker
	Executor taskinfo.Executor
	// Window is how long a batch waits for another claim after its latest one; after four times as long it waits for none.
	Window time.Duration
	// MaxTasks is the most tasks of one ACCEPT.
	MaxTasks int
	// Timeout bounds the wait from the ACCEPT to the first status of a task.
	Timeout time.Duration
	// Backing is how long a claim may stand without an offer behind it.
	Backing time.Duration
	// Retries is how often a launch that failed before the executor had it is tried again on fresh offers.
	Retries int
	// OnLimitsRefused hears when an agent first refuses a task because of its limits. It must not block.
	OnLimitsRefused func(ctx context.Context, t ledger.Task)
}

// ErrLaunch is the kind of every error that says that no task holds the pod's resources.
var ErrLaunch = errors.New("Mesos task not launched")

// Launcher is made once and run once.
type Launcher struct {
	options Options
	ledger  *ledger.Ledger
	mesos   Mesos
	record  Record
	kick    chan struct{}
	batches sync.WaitGroup      // on their way to the master
	sending *semaphore.Weighted // those of them that are on record
	waiting waiting
	readied chan struct{} // tells of ready claims
	mu      sync.Mutex    // guards ready
	ready   []claim       // that have yet to be put into their queues
	// unlimited has the agents that refuse limits.
	unlimited sync.Map
}

// agentPool names the claims that can share an ACCEPT.
type agentPool struct {
	agent string
	pool  ledger.PoolKey
}

type claim struct {
	agentPool
	uid types.UID
}

// maxSending bounds the ACCEPTs in flight.
const maxSending = 32

// again is the pause before a batch that was not processed is tried again.
const again = 100 * time.Millisecond

// New returns a launcher; it does nothing until Run.
func New(options Options, book *ledger.Ledger, m Mesos, record Record) *Launcher {
	return &Launcher{
		options: options, ledger: book, mesos: m, record: record,
		kick: make(chan struct{}, 1), readied: make(chan struct{}, 1), sending: semaphore.NewWeighted(maxSending),
	}
}

// Kick says that an offer came or an executor answered: batches that could not be launched before may be now.
func (l *Launcher) Kick() { nudge(l.kick) }

// nudge makes a buffered channel of one readable.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// enqueue hands a claim to Run.
func (l *Launcher) enqueue(c claim) {
	l.mu.Lock()
	l.ready = append(l.ready, c)
	l.mu.Unlock()
	nudge(l.readied)
}

// take returns the claims that have become ready since it was last called. Those that become ready next use the memory of spare.
func (l *Launcher) take(spare []claim) []claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.ready
	l.ready = spare[:0]
	return taken
}

// queue is the claims of one pool that are ready, and when its batch closes. While offers are awaited it may become long, so
// nothing is done to all of it for each claim that comes.
type queue struct {
	key            agentPool
	uids           []types.UID
	in             map[types.UID]struct{}
	opened, closes time.Time
	pruned         time.Time
	grown          bool // claims are being added
}

// maxWindows is how many windows a batch stays open at most.
const maxWindows = 4

func (q *queue) add(uid types.UID) {
	if _, ok := q.in[uid]; !ok { // who waits for long asks again
		q.in[uid] = struct{}{}
		q.uids = append(q.uids, uid)
	}
}

// pruneEvery is how often claims that were given up are taken off a queue.
const pruneEvery = 100 * time.Millisecond

// prune drops what is no claim any more.
func (q *queue) prune(book *ledger.Ledger, agentID string, now time.Time) {
	q.pruned = now
	q.uids = book.StillClaimed(agentID, q.uids)
	if len(q.uids) != len(q.in) {
		clear(q.in)
		for _, uid := range q.uids {
			q.in[uid] = struct{}{}
		}
	}
}

// drop takes what a batch launches off the queue.
func (q *queue) drop(b *ledger.Batch) {
	for i := range b.Launches {
		delete(q.in, b.Launches[i].Task.UID)
	}
	q.uids = slices.DeleteFunc(q.uids, func(uid types.UID) bool { _, ok := q.in[uid]; return !ok })
}

// Run forms batches until ctx ends. It returns when every ACCEPT in flight has been answered or given up.
func (l *Launcher) Run(ctx context.Context) {
	f := forming{Launcher: l, queues: map[agentPool]*queue{}, timer: l.options.Clock.NewTimer(time.Hour)}
	defer f.timer.Stop()
	look := l.options.Clock.NewTicker(lookEvery)
	defer look.Stop()
	var claims []claim
	for {
		select {
		case <-ctx.Done():
			l.batches.Wait() // not for long: calls carry ctx
			return
		case <-l.readied:
			claims = l.take(claims)
			f.add(ctx, claims)
		case <-look.C():
			l.waiting.wakeDue(l.options.Clock.Now())
		case <-l.kick:
			f.all(ctx)
		case <-f.timer.C():
			f.all(ctx)
		}
	}
}

// forming is what Run's goroutine knows.
type forming struct {
	*Launcher
	queues map[agentPool]*queue
	timer  clock.Timer
	fires  time.Time // when the timer does; zero if nothing waits for it
	grown  []*queue  // room for those that claims are added to
}

// add puts claims into their queues. It looks at no other queue: a claim changes nothing for them.
func (f *forming) add(ctx context.Context, claims []claim) {
	now := f.options.Clock.Now()
	f.grown = f.grown[:0]
	for _, c := range claims {
		q := f.queues[c.agentPool]
		if q == nil {
			q = &queue{key: c.agentPool, opened: now, closes: now.Add(f.options.Window), in: map[types.UID]struct{}{}}
			f.queues[c.agentPool] = q
		} else if q.closes.After(now) {
			q.closes = now.Add(min(f.options.Window, q.opened.Add(maxWindows*f.options.Window).Sub(now)))
		}
		q.add(c.uid)
		if !q.grown {
			q.grown = true
			f.grown = append(f.grown, q)
		}
	}
	for _, q := range f.grown {
		q.grown = false
		f.wakeAt(f.form(ctx, q, now), now)
	}
}

// all launches what can be launched of all closed batches.
func (f *forming) all(ctx context.Context) {
	now := f.options.Clock.Now()
	f.fires = time.Time{}
	for _, q := range f.queues {
		f.wakeAt(f.form(ctx, q, now), now)
	}
}

// wakeAt makes the timer fire at a time, unless it will before.
func (f *forming) wakeAt(at, now time.Time) {
	if !at.IsZero() && (f.fires.IsZero() || at.Before(f.fires)) {
		f.fires = at
		f.timer.Reset(at.Sub(now))
	}
}

// form launches what can be launched of a queue whose batch is closed: it is full, its window is over, or nothing more is to be
// expected. It returns when to look at it again; zero if that is when something happens.
func (f *forming) form(ctx context.Context, q *queue, now time.Time) (again time.Time) {
	key, most := q.key, f.options.MaxTasks
	open := q.closes.After(now)
	if open && len(q.uids) < most && f.ledger.Quiet(key.agent, key.pool, len(q.uids)) {
		open = false
	}
	for len(q.uids) > 0 {
		if open && len(q.uids) < most {
			return q.closes
		}
		b := f.ledger.Batch(key.agent, key.pool, q.uids, most)
		if b == nil {
			break
		}
		q.drop(b) // before it is sent: should it be refused at once, the pods queue themselves again
		f.batches.Go(func() {
			f.send(ctx, b)
			f.Kick()
		})
	}
	if len(q.uids) > 0 && now.Sub(q.pruned) >= pruneEvery {
		q.prune(f.ledger, key.agent, now)
	}
	if len(q.uids) == 0 {
		delete(f.queues, key)
	}
	return again
}

func (l *Launcher) send(ctx context.Context, b *ledger.Batch) {
	logger := klog.FromContext(ctx)
	info := l.options.Executor.Info(b.ExecutorID, b.Node, b.ExecutorResources)
	tasks := make([]mesos.TaskInfo, len(b.Launches))
	for i, launch := range b.Launches {
		t := launch.Task
		tasks[i] = taskinfo.Task(t.ID, b.AgentID, taskinfo.Reference{
			Namespace: t.Namespace, Name: t.Name, UID: string(t.UID), Node: t.Node,
			GraceSeconds: int64(t.Grace / time.Second), Ports: t.Need.Ports, Bound: t.Bound,
		}, launch.Resources, info)
		if _, refuses := l.unlimited.Load(t.AgentID); !refuses {
			tasks[i].Limits = t.Need.Limits.TaskLimits()
		}
	}
	// before is what kept the ACCEPT from being sent.
	var before, err error
	if slices.ContainsFunc(b.Launches, func(launch ledger.Launch) bool { return !launch.Task.Bound }) { // a bound pod is on record itself
		before = l.record.Record(ctx)
	}
	if before == nil {
		before = l.sending.Acquire(ctx, 1)
	}
	if before == nil {
		err = l.mesos.Accept(ctx, b.Pool.Role, b.OfferIDs, b.Operations(tasks))
		l.sending.Release(1)
	}
	outcome := "processed"
	switch {
	case before != nil:
		outcome, err = "not recorded", before
		l.ledger.NotSent(b)
	case err == nil:
		l.ledger.Sent(b)
	case mesosapi.Ambiguous(err):
		outcome = "unclear"
		l.ledger.Unclear(b)
	default:
		outcome = "refused"
		l.ledger.NotSent(b)
	}
	metrics.Accepts.WithLabelValues(outcome).Inc()
	metrics.BatchTasks.Observe(float64(len(tasks)))
	logger.V(4).Info("Handled a batch of launches", "agent", b.AgentID, "role", b.Pool.Role, "offers", len(b.OfferIDs), "tasks", len(tasks), "newExecutor", b.NewExecutor, "reserved", len(b.Reserve), "outcome", outcome, "err", err)
}

// Launch launches the task of a pod's claim and waits until the executor has it. It returns the task, or an error of
// kind ErrLaunch, or the context's. After an error the caller releases the claim; whether a KILL is needed is in the
// ledger.
func (l *Launcher) Launch(ctx context.Context, uid types.UID) (ledger.Task, error) {
	deadline := l.options.Clock.Now().Add(l.options.Timeout)
	w := l.waiting.enter()
	defer l.waiting.leave(w)
	retries, refusals := 0, 0
	queued := false
	for {
		t, ok := l.ledger.Watch(uid, w.wake)
		now := l.options.Clock.Now()
		until := deadline
		if t.Refusals > refusals {
			refusals, queued = t.Refusals, false // the batch that it was in is gone
		}
		switch {
		case !ok:
			return t, fmt.Errorf("%w: the claim is gone", ErrLaunch)
		case !t.KillSince.IsZero():
			return t, fmt.Errorf("%w: it is to be killed", ErrLaunch)
		case !t.PodGone.IsZero():
			return t, fmt.Errorf("%w: the pod is gone", ErrLaunch)
		case t.State.Live():
			return t, nil
		case t.State == ledger.Terminal || t.State == ledger.Unheld:
			l.noteLimits(ctx, t)
			if retries++; retries > l.options.Retries || !retryable(t.Last) || !l.retry(t) {
				return t, fmt.Errorf("%w: %s", ErrLaunch, t.Last)
			}
			queued = false
			continue
		case t.State == ledger.Claimed:
			backed := now
			if since, short := l.ledger.Short(uid); short && !t.Bound {
				backed = since
				if now.Sub(since) >= l.options.Backing || !t.RescindedAt.IsZero() {
					return t, fmt.Errorf("%w: the Mesos offer that the pod was reserved on is gone", ErrLaunch)
				}
			}
			if look := backed.Add(l.options.Backing); look.Before(until) {
				until = look
			}
			if !queued {
				if t.Attempts > 0 || retries > 0 { // tried before: not at the speed of failure
					if err := l.pause(ctx); err != nil {
						return t, err
					}
				}
				l.enqueue(claim{agentPool{t.AgentID, ledger.PoolKey{Role: t.Need.Role, Revocable: t.Need.Revocable}}, uid})
				queued = true
			}
		default:
			queued = false // launched; should it become a claim again it has to be queued again
		}
		if !now.Before(deadline) {
			return t, fmt.Errorf("%w: no status of the task came within %s (it is %s)", ErrLaunch, l.options.Timeout, t.State)
		}
		l.waiting.until(w, until)
		select {
		case <-w.wake:
			queued = queued && l.options.Clock.Now().Before(until) // Run drops what was not a claim for a moment
		case <-ctx.Done():
			return t, ctx.Err()
		}
	}
}

// noteLimits remembers an agent that refuses limits: its tasks are launched without from now on.
func (l *Launcher) noteLimits(ctx context.Context, t ledger.Task) {
	if !ledger.LimitsRefused(t.Last) {
		return
	}
	if _, known := l.unlimited.LoadOrStore(t.AgentID, true); !known && l.options.OnLimitsRefused != nil {
		l.options.OnLimitsRefused(ctx, t)
	}
}

// retry makes the record of a failed attempt a claim again.
func (l *Launcher) retry(t ledger.Task) bool {
	if t.State == ledger.Unheld {
		_, ok := l.ledger.Reclaim(t.UID)
		return ok
	}
	return l.ledger.Retry(t.UID)
}

func (l *Launcher) pause(ctx context.Context) error {
	timer := l.options.Clock.NewTimer(again)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// notEnough is in the text of a TASK_ERROR for a task that does not fit into what its offers held by then
// (src/master/validation.cpp).
const notEnough = "more than available"

// retryable says whether a launch failed before the executor had the task, for a cause that fresh offers may cure.
func retryable(s ledger.Status) bool {
	switch s.State {
	case mesos.TASK_DROPPED:
		return true
	case mesos.TASK_ERROR:
		return strings.Contains(s.Message, notEnough) || ledger.LimitsRefused(s)
	case mesos.TASK_GONE, mesos.TASK_UNKNOWN, mesos.TASK_LOST:
		// A lost ACCEPT, settled after the fence; or the agent's word that it never had the task.
		return s.Reason == mesos.REASON_RECONCILIATION || s.Reason == mesos.REASON_INVALID_OFFERS
	}
	return false
}
