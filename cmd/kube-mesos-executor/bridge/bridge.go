// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/agent"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/journal"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/machine"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/pods"
)

// Exit codes of the bridge. The supervisor ends with those that are Final and starts the bridge again after any other.
const (
	// ExitDone: everything was shut down, as the agent asked.
	ExitDone = 0
	// ExitUsage: bad flags or a bad environment.
	ExitUsage = 64
	// ExitAgentGone: the agent was away for longer than it said, or is another one now, and there is nothing left to do.
	ExitAgentGone = 69
	// ExitFailed: something that may be better the next time.
	ExitFailed = 1
	// ExitTerminated: asked to stop by a signal.
	ExitTerminated = 143
)

// Final says whether the bridge ended on purpose with the given code.
func Final(code int) bool {
	return code == ExitDone || code == ExitUsage || code == ExitAgentGone
}

const (
	// journalName is the journal's name in the sandbox.
	journalName = "kube-mesos-executor.journal"
	metaKey     = "executor"
	taskPrefix  = "task/"

	settle    = time.Second
	retention = time.Hour
	maxEnded  = 5000
	// maxCalls is how many calls to the API server are under way at once.
	maxCalls = 64
	// farewell is how long the last updates wait for their acknowledgement when the executor shuts down.
	farewell = 3 * time.Second
	// batch bounds how many events one round of the loop takes.
	batch = 1024
	// unknownTimes and unknownFor are how often, and over what time, the agent must say that it does not know the
	// executor before that is believed.
	unknownTimes = 3
	unknownFor   = time.Second
)

// meta is the journal's record of what belongs to no task.
type meta struct {
	// Shutdown says that all tasks are to end.
	Shutdown bool `json:"shutdown,omitempty"`
	// Killing says that the framework knows TASK_KILLING.
	Killing bool `json:"killing,omitempty"`
	// Orphaned says that the agent does not know this executor.
	Orphaned bool `json:"orphaned,omitempty"`
}

// bridge is the state of the loop. Only the loop touches it.
type bridge struct {
	opts    Options
	env     Environment
	inbox   inbox
	client  *agent.Client
	node    *pods.Node
	machine *machine.Machine
	journal *journal.Journal
	meta    meta
	saved   meta

	subscription *subscription
	sender       *sender
	prober       *prober
	reporter     *reporter
	workers      sync.WaitGroup
	calls        chan struct{}

	stream      int // number of the last SUBSCRIBE
	streamCtx   context.Context
	cancel      context.CancelFunc
	listed      uint64 // the last update that it listed
	ready       bool   // the agent sent SUBSCRIBED
	awaySince   time.Time
	waiting     []wantSubscribe
	unknown     int
	unknownFrom time.Time
	asking      bool
	counts      counts
	quietSince  time.Time
	lastError   string
	exit        *int
}

// Run is the bridge. It returns the exit code of the process when it ends on purpose; when ctx ends, it stops without
// touching tasks or pods.
func Run(ctx context.Context, opts Options, env Environment) int {
	logger := klog.FromContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	if env.TLS != nil {
		withName := *env.TLS
		withName.Names = append(slices.Clone(env.TLS.Names), opts.NodeName)
		env.TLS = &withName
		if !env.TLS.Verify {
			logger.Info("The agent's certificate is not verified: set LIBPROCESS_SSL_CA_FILE or LIBPROCESS_SSL_CA_DIR, or LIBPROCESS_SSL_VERIFY_SERVER_CERT=true")
		}
	}
	j, records, skipped, err := journal.Open(filepath.Join(env.Sandbox, journalName))
	if err != nil {
		logger.Error(err, "Cannot use the sandbox")
		stop()
		return ExitFailed
	}
	defer j.Close()
	if skipped > 0 {
		logger.Info("Left out damaged lines of the journal", "lines", skipped)
	}
	b := &bridge{
		opts: opts, env: env, journal: j,
		inbox:     inbox{ctx: ctx, ch: make(chan any, 256)},
		node:      pods.NewNode(opts.NodeName, opts.Kubeconfig),
		calls:     make(chan struct{}, maxCalls),
		awaySince: time.Now(),
		counts:    newCounts(time.Now()),
		client: agent.NewClient(agent.Config{
			Endpoint: env.Endpoint, Socket: env.Socket, Token: env.Token,
			FrameworkID: env.FrameworkID, ExecutorID: env.ExecutorID, TLS: env.TLS,
		}),
	}
	b.restore(ctx, records)
	b.subscription = &subscription{client: b.client, inbox: b.inbox}
	b.subscription.leaving.Store(b.meta.Shutdown)
	b.sender = newSender(b.client, b.inbox, env.ExecutorID)
	b.prober = newProber(opts.CgroupRoot, b.inbox)
	b.reporter = newReporter(b.client)

	b.workers.Go(func() { b.subscription.run(ctx) })
	b.workers.Go(func() { b.sender.run(ctx) })
	b.workers.Go(func() { b.prober.run(ctx) })
	b.workers.Go(func() { b.reporter.run(ctx) })
	b.workers.Go(func() { b.node.Run(ctx, podSink{b.inbox}) })
	if listener, err := metrics.Listen(env.Sandbox); err != nil {
		// Tasks matter more than numbers of them.
		logger.Error(err, "Serving no metrics")
	} else {
		b.workers.Go(func() {
			if err := metrics.Serve(ctx, listener, env.Sandbox, b.inbox.askStatus); err != nil {
				logger.Error(err, "Serving metrics")
			}
		})
	}
	code := b.loop(ctx)
	stop()
	b.endStream()
	b.workers.Wait()
	b.client.Close()
	return code
}

// restore makes the machine from the journal's records.
func (b *bridge) restore(ctx context.Context, records map[string]json.RawMessage) {
	logger := klog.FromContext(ctx)
	var tasks []*machine.Task
	for key, value := range records {
		var err error
		if key == metaKey {
			err = json.Unmarshal(value, &b.meta)
		} else {
			t := &machine.Task{}
			if err = json.Unmarshal(value, t); err == nil {
				tasks = append(tasks, t)
			}
		}
		if err != nil {
			logger.Error(err, "Left out a record of the journal", "key", key)
		}
	}
	b.saved = b.meta
	b.machine = machine.New(machine.Config{
		Node:             b.opts.NodeName,
		BindTimeout:      b.opts.BindTimeout,
		ForceDeleteAfter: b.opts.ForceDeleteAfter,
		KillMargin:       b.opts.KillMargin,
		ShutdownGrace:    b.env.ShutdownGrace,
		Settle:           settle,
		Retention:        retention,
		MaxEnded:         maxEnded,
		NewUUID:          func() []byte { id := uuid.New(); return id[:] },
	}, tasks)
	b.machine.Subscribed(b.meta.Killing)
	if b.meta.Shutdown {
		b.machine.Shutdown(time.Now())
	}
	logger.Info("Started", "node", b.opts.NodeName, "executor", b.env.ExecutorID, "agent", b.env.Endpoint, "tasks", b.machine.Live(), "unacknowledged", b.machine.PendingUpdates())
}

// loop is the one place where things happen, until there is nothing left to do.
func (b *bridge) loop(ctx context.Context) int {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ExitTerminated
		case event := <-b.inbox.ch:
			b.take(ctx, event)
		case <-timer.C:
		}
	more:
		for range batch {
			select {
			case event := <-b.inbox.ch:
				b.take(ctx, event)
			default:
				break more
			}
		}
		now := time.Now()
		wake := b.act(ctx, now)
		if code, done := b.finished(ctx, now, &wake); done {
			return code
		}
		next := time.Hour
		if !wake.IsZero() {
			next = max(0, time.Until(wake))
		}
		timer.Reset(next)
	}
}

// act does what the machine wants done. What it says is on disk before anybody hears of it.
func (b *bridge) act(ctx context.Context, now time.Time) (wake time.Time) {
	out := b.machine.Step(now)
	wake = out.Wake
	if err := b.save(out); err != nil {
		b.counts.journalFailures++
		// Pods and tasks matter more than the record of them: without one only a crash now would lose something.
		klog.FromContext(ctx).Error(err, "Cannot write the journal, going on without")
		wake = sooner(wake, now.Add(time.Second))
	}
	for _, u := range out.Updates {
		b.counts.updates[u.State]++
		klog.FromContext(ctx).V(2).Info("Task update", "task", u.TaskID, "state", u.State.String(), "message", u.Message)
		if b.ready {
			b.sender.send(b.streamCtx, b.stream, u)
		}
	}
	for _, d := range out.Deletes {
		b.delete(ctx, d)
	}
	for _, l := range out.Lookups {
		b.lookUp(ctx, l)
	}
	for _, w := range out.Warnings {
		if w.Reason == machine.ReasonReleased {
			b.counts.unconfirmed++
		}
		b.warn(ctx, w)
	}
	for _, w := range b.waiting {
		w.answer <- b.nextStream(ctx)
	}
	b.waiting = nil
	b.prober.watch(b.machine.Probes())
	return wake
}

func (b *bridge) save(out machine.Output) error {
	if b.journal.NeedsRewrite() {
		entries := []journal.Entry{{Key: metaKey, Value: b.meta}}
		for _, t := range b.machine.Tasks() {
			entries = append(entries, journal.Entry{Key: taskPrefix + t.ID, Value: t})
		}
		if err := b.journal.Rewrite(entries); err != nil {
			return err
		}
		b.saved = b.meta
		return nil
	}
	var entries []journal.Entry
	for _, id := range out.Forgotten {
		entries = append(entries, journal.Entry{Key: taskPrefix + id})
	}
	for _, t := range out.Changed {
		entries = append(entries, journal.Entry{Key: taskPrefix + t.ID, Value: t})
	}
	if b.meta != b.saved {
		entries = append(entries, journal.Entry{Key: metaKey, Value: b.meta})
	}
	if err := b.journal.Append(entries); err != nil {
		return err
	}
	b.saved = b.meta
	return nil
}

func (b *bridge) delete(ctx context.Context, d machine.Delete) {
	klog.FromContext(ctx).Info("Deleting pod", "pod", klog.KRef(d.Namespace, d.Name), "uid", d.UID, "task", d.TaskID, "graceSeconds", d.Grace)
	b.call(ctx, func() {
		gone, err := b.node.Delete(ctx, d.Namespace, d.Name, d.UID, d.Grace)
		result := machine.DeleteAccepted
		switch {
		case err != nil:
			result = machine.DeleteFailed
		case gone:
			result = machine.DeleteGone
		}
		b.inbox.put(podDeleted{d, result, err})
	})
}

func (b *bridge) lookUp(ctx context.Context, l machine.Lookup) {
	b.call(ctx, func() {
		pod, err := b.node.Find(ctx, l.Namespace, l.Name, l.UID)
		found := podFound{request: l, err: err}
		if pod != nil {
			found.pod = ptr(machine.FromPod(pod))
		}
		b.inbox.put(found)
	})
}

// call runs f beside the loop, with a bound on how many calls to the API server are under way.
func (b *bridge) call(ctx context.Context, f func()) {
	b.workers.Go(func() {
		select {
		case b.calls <- struct{}{}:
			defer func() { <-b.calls }()
			f()
		case <-ctx.Done():
		}
	})
}

func (b *bridge) warn(ctx context.Context, w machine.Warning) {
	logger := klog.FromContext(ctx)
	logger.Info("Warning", "pod", klog.KRef(w.Namespace, w.Name), "reason", w.Reason, "message", w.Message)
	b.call(ctx, func() {
		if err := b.node.Warn(ctx, w.Namespace, w.Name, w.UID, w.Reason, w.Message); err != nil && ctx.Err() == nil {
			logger.Error(err, "Cannot record an event")
		}
	})
}

// finished says whether, and with which code, the executor ends now.
func (b *bridge) finished(ctx context.Context, now time.Time, wake *time.Time) (int, bool) {
	logger := klog.FromContext(ctx)
	if b.exit != nil {
		return *b.exit, true
	}
	if b.machine.Live() > 0 {
		b.quietSince = time.Time{}
		return 0, false
	}
	if b.quietSince.IsZero() {
		b.quietSince = now
	}
	if b.machine.ShuttingDown() {
		pending := b.machine.PendingUpdates()
		if pending == 0 || b.meta.Orphaned || now.Sub(b.quietSince) >= farewell {
			logger.Info("All tasks have ended, shutting down", "unacknowledged", pending)
			return ExitDone, true
		}
		*wake = sooner(*wake, b.quietSince.Add(farewell))
	}
	if !b.awaySince.IsZero() {
		if now.Sub(b.awaySince) >= b.env.RecoveryTimeout {
			logger.Info("The agent has been away for too long and no pod is left", "away", now.Sub(b.awaySince), "unacknowledged", b.machine.PendingUpdates())
			return ExitAgentGone, true
		}
		*wake = sooner(*wake, b.awaySince.Add(b.env.RecoveryTimeout))
	}
	return 0, false
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func ptr[T any](v T) *T { return &v }

func (b *bridge) endWith(code int) { b.exit = ptr(code) }

// nextStream lists what a SUBSCRIBE has to list, and opens the context of its stream.
func (b *bridge) nextStream(ctx context.Context) unacknowledged {
	b.endStream()
	b.stream++
	b.streamCtx, b.cancel = context.WithCancel(ctx)
	u := unacknowledged{ctx: b.streamCtx, stream: b.stream}
	tasks, updates := b.machine.Unacknowledged()
	for _, raw := range tasks {
		if info, err := decodeTask(raw); err == nil {
			u.tasks = append(u.tasks, info)
		}
	}
	b.listed = 0
	for _, up := range updates {
		u.updates = append(u.updates, status(up, b.env.ExecutorID))
		b.listed = max(b.listed, up.Seq)
	}
	return u
}

func (b *bridge) endStream() {
	b.ready = false
	if b.cancel != nil {
		b.cancel()
		b.cancel = nil
	}
}

// sendUnlisted sends the updates that came up after the SUBSCRIBE was written.
func (b *bridge) sendUnlisted(now time.Time) {
	_, updates := b.machine.Unacknowledged()
	i := slices.IndexFunc(updates, func(u *machine.Update) bool { return u.Seq > b.listed })
	if i < 0 {
		i = len(updates)
	}
	for _, u := range updates[:i] {
		b.machine.Sent(now, u.TaskID, u.UUID)
	}
	for _, u := range updates[i:] {
		b.sender.send(b.streamCtx, b.stream, u)
	}
}
