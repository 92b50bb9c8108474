// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
)

// Rules for draining agents before a maintenance window.
const (
	// drainMargin is what a pod needs beside its grace to be gone.
	drainMargin = 30 * time.Second
	// drainSilence is how many inverse offers must be missing in a row before the window counts as cancelled. Mesos repeats
	// them while the window stands and the framework uses the agent.
	drainSilence = 4
	// evictAgain and evictTold are the pauses between attempts to evict a pod, and between events that say that it is refused.
	evictAgain = 5 * time.Second
	evictTold  = time.Minute
)

// drain is an agent that was promised to Mesos for a maintenance window.
type drain struct {
	window ledger.Unavailability
	heard  time.Time     // when Mesos last asked for it
	every  time.Duration // how often it does at least
	begun  bool
	pods   map[types.UID]*eviction
}

// eviction is what was tried for one pod.
type eviction struct{ next, told time.Time }

// OnInverseOffer gets the agent that Mesos wants back, and how often it repeats the wish. It does not block.
func (l *Lifecycle) OnInverseOffer(agentID string, window ledger.Unavailability, every time.Duration) {
	if !l.options.Drain {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.drains[agentID]
	if d == nil || !d.window.Start.Equal(window.Start) || d.window.Duration != window.Duration {
		d = &drain{window: window, pods: map[types.UID]*eviction{}}
		l.drains[agentID] = d
	}
	d.heard, d.every = l.options.Clock.Now(), every
}

// drainLoop evicts the pods of promised agents until ctx ends.
func (l *Lifecycle) drainLoop(ctx context.Context) {
	ticker := l.options.Clock.NewTicker(soon)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			l.drainAll(ctx)
		}
	}
}

func (l *Lifecycle) drainAll(ctx context.Context) {
	now, ready := l.options.Clock.Now(), l.mesos.Reconciled() && l.ledger.Connected()
	due := map[string]*drain{}
	l.mu.Lock()
	for id, d := range l.drains {
		switch {
		case !ready:
			d.heard = now // nothing can be heard
		case d.window.Duration > 0 && !now.Before(d.window.Start.Add(d.window.Duration)):
			delete(l.drains, id)
		default:
			due[id] = d
		}
	}
	l.mu.Unlock()
	for id, d := range due {
		l.drainAgent(ctx, id, d, now)
	}
}

// drainAgent evicts what an agent runs once its time has come: all of it, as early as the pod with the longest grace needs,
// so that the agent can be kept free from then on.
func (l *Lifecycle) drainAgent(ctx context.Context, agentID string, d *drain, now time.Time) {
	logger := klog.FromContext(ctx)
	tasks := l.ledger.TasksOn(agentID)
	// An offer that tells of no window, or of another one, says at once what silence says only by and by.
	told, known := l.ledger.Window(agentID)
	changed := known && !told.Start.Equal(d.window.Start)
	silent := now.Sub(d.heard) > drainSilence*d.every
	l.mu.Lock()
	if d == l.drains[agentID] && (silent || changed) {
		delete(l.drains, agentID)
	}
	l.mu.Unlock()
	switch {
	case changed:
		if len(tasks) > 0 {
			logger.Info("The maintenance window of an agent was called off or changed: its pods stay", "agent", agentID)
		}
		return
	case silent:
		if len(tasks) > 0 {
			logger.Info("Mesos no longer asks for an agent back: its pods stay", "agent", agentID)
			l.ledger.SetWindow(agentID, ledger.Unavailability{})
		}
		return
	}
	ahead := l.options.MaintenanceLead
	for _, t := range tasks {
		ahead = max(ahead, t.Grace+drainMargin)
	}
	if !d.begun {
		if now.Before(d.window.Start.Add(-ahead)) {
			return
		}
		d.begun = true
		l.ledger.Vacate(agentID, ahead)
		logger.Info("Draining an agent before its maintenance window", "agent", agentID, "start", d.window.Start, "pods", len(tasks))
	}
	for _, t := range tasks {
		if !t.Bound || !t.PodGone.IsZero() {
			continue
		}
		if pod := l.pod(t.UID); pod != nil && pod.DeletionTimestamp == nil {
			l.evict(ctx, pod, d, now)
		}
	}
}

// evict asks the API server to evict a pod; a PodDisruptionBudget may refuse it for now.
func (l *Lifecycle) evict(ctx context.Context, pod *v1.Pod, d *drain, now time.Time) {
	e := d.pods[pod.UID]
	if e == nil {
		e = &eviction{}
		d.pods[pod.UID] = e
	}
	if now.Before(e.next) {
		return
	}
	e.next = now.Add(evictAgain)
	uid := pod.UID
	err := l.options.Client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
	logger := klog.FromContext(ctx)
	switch {
	case err == nil:
		metrics.Removals.WithLabelValues("MesosMaintenance").Inc()
		logger.Info("Evicted a pod before a maintenance window", "pod", klog.KObj(pod))
		l.options.Recorder.Eventf(pod, nil, v1.EventTypeNormal, "MesosMaintenance", "Evicting", "evicted: its Mesos agent goes into maintenance at %s", d.window.Start.UTC().Format(time.RFC3339))
	case gone(err), apierrors.IsConflict(err):
	default:
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			e.next = now.Add(max(evictAgain, time.Duration(seconds)*time.Second))
		}
		logger.V(2).Info("Cannot evict a pod yet", "pod", klog.KObj(pod), "err", err)
		if now.Sub(e.told) < evictTold {
			return
		}
		e.told = now
		l.options.Recorder.Eventf(pod, nil, v1.EventTypeWarning, "MesosMaintenanceRefused", "Evicting", "%s",
			fmt.Sprintf("its Mesos agent goes into maintenance at %s, but the pod cannot be evicted yet: %v", d.window.Start.UTC().Format(time.RFC3339), err))
	}
}
