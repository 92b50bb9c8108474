// SPDX-License-Identifier: Apache-2.0

// Package lifecycle keeps pods and tasks in step, in both directions: the end of a pod ends its task, and what Mesos says
// of a bound pod's task has the pod held anew, removed, or left alone. It also takes over what an earlier life of the
// scheduler has left.
package lifecycle

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// Launcher launches the task of a claim and waits until its executor has it.
type Launcher interface {
	Launch(ctx context.Context, uid types.UID) (ledger.Task, error)
}

// Mesos tells how far the framework is.
type Mesos interface {
	// Reconciled says whether one full pass of reconciliation was done.
	Reconciled() bool
	// FrameworkID returns the present framework id, "" before the first subscription.
	FrameworkID() string
}

// Options are the fixed properties of a Lifecycle.
type Options struct {
	Clock    clock.WithTicker
	Client   kubernetes.Interface
	Pods     cache.SharedIndexInformer
	Nodes    corelisters.NodeLister
	Recorder events.EventRecorder
	// Ours says whether a scheduler name is one of this process's profiles with the plugin.
	Ours func(schedulerName string) bool
	// NeedOf counts a pod's need, with the role that it uses.
	NeedOf func(*v1.Pod) (resources.Need, error)
	// Activate wakes a pod that waits.
	Activate func(pods []*v1.Pod)
	// ReholdTimeout is how long a bound pod that lost its task by an accident may be without one.
	ReholdTimeout time.Duration
	// UnreachableTimeout is how long a pod may stay on a ready node whose agent cannot be reached, 0 for ever.
	UnreachableTimeout time.Duration
	// OrphanGrace is how old a task without a pod must be to be killed, MaxOrphans how many there may be at once.
	OrphanGrace time.Duration
	MaxOrphans  int
	// Drain has pods evicted from agents that Mesos wants back for maintenance, in time for MaintenanceLead before the window.
	Drain           bool
	MaintenanceLead time.Duration
	// Released says whether an operator has released the stop that began at a time.
	Released func(ctx context.Context, stop time.Time) (bool, error)
	// HowToRelease says to a person how to release it.
	HowToRelease func(stop time.Time) string
}

// Lifecycle is made once and run once.
type Lifecycle struct {
	options  Options
	ledger   *ledger.Ledger
	launcher Launcher
	mesos    Mesos
	queue    workqueue.TypedRateLimitingInterface[types.UID]
	stop     *Stop
	holding  sync.WaitGroup

	mu        sync.Mutex
	withdrawn map[types.UID]string // pods to remove by an operator's will, with what Mesos said
	reholding map[types.UID]bool
	exceeding map[types.UID]resources.Amounts // by how much pods were resized beyond their tasks
	drains    map[string]*drain               // by agent
}

// byUID is the name of the index of pods by UID.
const byUID = "kube-mesos.io/uid"

// settleEnd is how long a pod may still be there after its executor has reported the end of its containers.
const settleEnd = 10 * time.Second

// workers process pods; whatever they do in parallel is one call to the API server each.
const workers = 16

// AddIndex adds the index that a Lifecycle needs to an informer of pods. It must be called before the informer starts.
func AddIndex(pods cache.SharedIndexInformer) error {
	if _, ok := pods.GetIndexer().GetIndexers()[byUID]; ok {
		return nil
	}
	return pods.AddIndexers(cache.Indexers{byUID: func(obj any) ([]string, error) {
		if pod, ok := obj.(*v1.Pod); ok {
			return []string{string(pod.UID)}, nil
		}
		return nil, nil
	}})
}

// New returns a Lifecycle; it does nothing before Run.
func New(options Options, book *ledger.Ledger, launcher Launcher, mesos Mesos) *Lifecycle {
	return &Lifecycle{
		options: options, ledger: book, launcher: launcher, mesos: mesos,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](100*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[types.UID]{Clock: options.Clock}),
		stop:      NewStop(options.Clock),
		withdrawn: map[types.UID]string{}, reholding: map[types.UID]bool{}, exceeding: map[types.UID]resources.Amounts{}, drains: map[string]*drain{},
	}
}

// pod returns the pod with a UID from the informer, nil if it has none.
func (l *Lifecycle) pod(uid types.UID) *v1.Pod {
	objs, err := l.options.Pods.GetIndexer().ByIndex(byUID, string(uid))
	if err != nil || len(objs) == 0 {
		return nil
	}
	return objs[0].(*v1.Pod)
}

// OnChange gets what an update means. It does not block.
func (l *Lifecycle) OnChange(change ledger.Change) {
	uid := change.Task.UID
	switch change.Effect {
	case ledger.Withdrawn:
		l.mu.Lock()
		l.withdrawn[uid] = change.Update.Status.String()
		l.mu.Unlock()
		l.queue.Add(uid)
	case ledger.Lost:
		l.stop.Lost(change.Task.AgentID)
		l.queue.Add(uid)
	case ledger.Adopted, ledger.Freed:
		l.queue.Add(uid)
	case ledger.Ended:
		l.queue.AddAfter(uid, settleEnd)
	case ledger.Progressed:
		if change.Task.Bound && change.Task.State.Live() {
			l.queue.AddAfter(uid, soon) // its record may name an earlier task
		}
	}
}

// OnFrameworkGone gets the bound pods whose tasks ended with the framework: an operator has confirmed a new one.
func (l *Lifecycle) OnFrameworkGone(tasks []ledger.Task) {
	for _, t := range tasks {
		l.queue.Add(t.UID)
	}
}

// Run works until ctx ends. Recover must have been called before.
func (l *Lifecycle) Run(ctx context.Context) error {
	handle, err := l.options.Pods.AddEventHandler(l.handler(ctx))
	if err != nil {
		return err
	}
	defer func() { _ = l.options.Pods.RemoveEventHandler(handle) }()

	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	wg.Go(func() { l.tend(ctx) })
	if l.options.Drain {
		wg.Go(func() { l.drainLoop(ctx) })
	}
	<-ctx.Done()
	l.queue.ShutDown()
	wg.Wait()
	l.holding.Wait()
	return nil
}

func (l *Lifecycle) next(ctx context.Context) bool {
	uid, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(uid)
	after, err := l.process(ctx, uid)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		klog.FromContext(ctx).Info("Cannot bring pod and task in step yet", "podUID", uid, "err", err)
		l.queue.AddRateLimited(uid)
	default:
		l.queue.Forget(uid)
		if after > 0 {
			l.queue.AddAfter(uid, after)
		}
	}
	return true
}

// Times after which a pod that cannot be helped yet is looked at again.
const (
	soon  = time.Second
	later = 5 * time.Second
)

// process does for one pod what its record asks for. It returns after how long to look again, 0 for never.
func (l *Lifecycle) process(ctx context.Context, uid types.UID) (time.Duration, error) {
	t, ok := l.ledger.Task(uid)
	pod := l.pod(uid)
	if !ok {
		l.settled(uid)
		if pod != nil && pod.Spec.NodeName == "" && l.options.Ours(pod.Spec.SchedulerName) {
			l.options.Activate([]*v1.Pod{pod})
		} else if pod != nil {
			l.onBound(ctx, pod)
		}
		return 0, nil
	}
	if !t.Bound {
		return 0, nil // Bind and the ledger see to it
	}
	if pod == nil {
		l.ledger.PodGone(uid)
		l.settled(uid)
		return 0, nil
	}
	if why, ok := l.isWithdrawn(uid); ok {
		return 0, l.remove(ctx, pod, "MesosTaskWithdrawn", "Mesos has taken the pod's resources back: "+why)
	}
	switch t.State {
	case ledger.Unheld:
		return l.unheld(ctx, pod, t)
	case ledger.Terminal:
		if pod.DeletionTimestamp == nil && l.options.Clock.Since(t.ChangedAt) >= settleEnd {
			return later, l.remove(ctx, pod, "MesosTaskEnded", "the pod's Mesos task has ended: "+t.Last.String())
		}
		return later, nil
	case ledger.Starting, ledger.Running, ledger.Unreachable:
		return 0, l.record(ctx, pod, t)
	}
	return 0, nil
}

func (l *Lifecycle) isWithdrawn(uid types.UID) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	why, ok := l.withdrawn[uid]
	return why, ok
}

func (l *Lifecycle) settled(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.withdrawn, uid)
	l.setExcess(uid, resources.Amounts{})
}

// tend does what no event brings: strangers, agents that came back under another id, pods without a task that nothing
// works on, and the release of a stop.
func (l *Lifecycle) tend(ctx context.Context) {
	ticker := l.options.Clock.NewTicker(soon)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			l.strangers(ctx)
			l.unreachable()
			l.tendLost()
			l.tendStop(ctx)
		}
	}
}

// tendLost ends the tasks of agents that another agent has replaced, gives pods the tasks that turn out to be theirs, and
// brings up again whoever is free to be scheduled or has been without a task for a while.
func (l *Lifecycle) tendLost() {
	if !l.mesos.Reconciled() {
		return
	}
	for _, changes := range [][]ledger.Change{l.ledger.Replaced(), l.ledger.Recognized(), l.ledger.Freed()} {
		for _, change := range changes {
			l.OnChange(change)
		}
	}
	for _, uid := range l.ledger.Troubled(settleEnd) {
		l.queue.Add(uid)
	}
}
