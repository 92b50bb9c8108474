// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
)

// unheld deals with a bound pod that has no task: a new one is launched for it where it runs. The pod goes on running
// meanwhile, and its need stays charged to its node.
func (l *Lifecycle) unheld(ctx context.Context, pod *v1.Pod, t ledger.Task) (time.Duration, error) {
	if pod.DeletionTimestamp != nil {
		return 0, nil // it stops by itself; the record ends with it
	}
	need, _ := l.options.NeedOf(pod) // an error is about the role, which the record has
	l.ledger.Resize(pod.UID, need.Amounts)
	if !l.mesos.Reconciled() || !l.ledger.Connected() {
		return soon, nil // a task of the pod may turn up yet; and silence is no lack of room
	}
	node, err := l.options.Nodes.Get(t.Node)
	if err != nil || !ready(node) {
		return later, nil // Kubernetes' own eviction decides over a node that is not ready
	}
	l.mu.Lock()
	busy := l.reholding[pod.UID]
	l.reholding[pod.UID] = true
	l.mu.Unlock()
	if busy {
		return 0, nil
	}
	// Not in a worker: a lost executor leaves a hundred pods at once, and they share one ACCEPT.
	l.holding.Go(func() {
		again := l.rehold(ctx, pod.UID)
		l.mu.Lock()
		delete(l.reholding, pod.UID)
		l.mu.Unlock()
		if ctx.Err() == nil && again > 0 {
			l.queue.AddAfter(pod.UID, again)
		}
	})
	return 0, nil
}

// rehold tries to hold a pod's resources with a new task. It returns after how long to look at the pod again.
func (l *Lifecycle) rehold(ctx context.Context, uid types.UID) time.Duration {
	logger := klog.FromContext(ctx)
	lost, ok := l.ledger.Reclaim(uid)
	if !ok {
		if now, known := l.ledger.Task(uid); known && now.State == ledger.Unheld {
			return soon // a task that was found may turn out to hold it
		}
		return 0
	}
	subscription := l.ledger.Subscription()
	limited, cancel := context.WithTimeout(ctx, l.options.ReholdTimeout)
	defer cancel()
	t, err := l.launcher.Launch(limited, uid)
	if ctx.Err() != nil {
		return 0
	}
	if err == nil {
		metrics.Reholds.WithLabelValues("held").Inc()
		logger.Info("Held a pod's resources with a new task", "pod", klog.KRef(t.Namespace, t.Name), "task", t.ID)
		return time.Nanosecond // the record is written by a worker
	}
	metrics.Reholds.WithLabelValues("failed").Inc()
	l.ledger.GiveUp(uid)
	now, ok := l.ledger.Task(uid)
	if !ok || now.State != ledger.Unheld {
		return later
	}
	if subscription == 0 || l.ledger.Subscription() != subscription {
		return soon // no master could offer room all the time
	}
	// Not all that lost their tasks can stay: the least important and youngest goes first and makes room.
	if victim := l.leastImportant(now); victim != uid {
		return soon
	}
	pod := l.pod(uid)
	if pod == nil {
		return soon
	}
	if stopped, since := l.stop.Stopped(l.ledger.AgentCount()); stopped {
		metrics.Stopped.WithLabelValues().Set(1)
		logger.Error(nil, "Pods without tasks are not removed: too many agents have lost tasks at once", "pod", klog.KObj(pod), "release", l.options.HowToRelease(since))
		l.options.Recorder.Eventf(pod, nil, v1.EventTypeWarning, "MesosTaskLost", "Holding",
			"the pod's Mesos task was lost and its resources cannot be held; it is not removed because too many agents have lost tasks at once; to remove such pods annotate %s", l.options.HowToRelease(since))
		return later
	}
	if err := l.remove(ctx, pod, "MesosTaskLost", fmt.Sprintf("the pod's Mesos task was lost (%s) and no room to hold it was offered within %s", lost.Last, l.options.ReholdTimeout)); err != nil {
		logger.Info("Cannot remove a pod yet", "pod", klog.KObj(pod), "err", err)
		return soon
	}
	return later
}

// leastImportant returns the pod that has to go first of those on a node that have no task: the lowest priority, then
// the youngest.
func (l *Lifecycle) leastImportant(of ledger.Task) types.UID {
	least := of
	for _, t := range l.ledger.Tasks() {
		if t.Node != of.Node || !t.Bound || t.State != ledger.Unheld || t.Need.Role != of.Need.Role {
			continue
		}
		if pod := l.pod(t.UID); pod == nil || pod.DeletionTimestamp != nil {
			continue
		}
		if cmp.Or(cmp.Compare(t.Priority, least.Priority), least.Created.Compare(t.Created), cmp.Compare(t.UID, least.UID)) < 0 {
			least = t
		}
	}
	return least.UID
}

// unreachable gives up the pods whose agents have been unreachable for longer than an operator wants to wait. By default
// none is: nobody can be offered their room, and if their node is not ready Kubernetes' own eviction decides.
func (l *Lifecycle) unreachable() {
	if l.options.UnreachableTimeout == 0 {
		return
	}
	for _, t := range l.ledger.Tasks() {
		if !t.Bound || t.State != ledger.Unreachable || l.options.Clock.Since(t.ChangedAt) < l.options.UnreachableTimeout {
			continue
		}
		if node, err := l.options.Nodes.Get(t.Node); err != nil || !ready(node) {
			continue
		}
		l.mu.Lock()
		l.withdrawn[t.UID] = fmt.Sprintf("its agent has been unreachable for %s (%s)", l.options.UnreachableTimeout, t.Last)
		l.mu.Unlock()
		l.queue.Add(t.UID)
	}
}

func ready(node *v1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
