// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
)

// strangers deals with live tasks that no record is known for. A task of a pod that is not bound was launched by an
// earlier leader that did not come to bind it: it goes at once, so that the pod can be scheduled. A task whose pod is
// gone goes after a grace. Too many of those at once are a wrong picture rather than many orphans: none is killed.
func (l *Lifecycle) strangers(ctx context.Context) {
	if !l.mesos.Reconciled() {
		return
	}
	logger := klog.FromContext(ctx)
	var orphans []ledger.Stranger
	for _, s := range l.ledger.Strangers() {
		pod := l.pod(s.UID)
		switch {
		case pod == nil || !l.options.Ours(pod.Spec.SchedulerName):
			if l.options.Clock.Since(s.Since) >= l.options.OrphanGrace {
				orphans = append(orphans, s)
			}
		case pod.Spec.NodeName == "":
			if _, busy := l.ledger.Task(s.UID); busy {
				continue
			}
			if now, err := l.options.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err != nil || now.Spec.NodeName != "" {
				continue // the informer does not know of its Binding, or not of its end, yet
			}
			logger.Info("Killing a task that was launched for a pod and never bound", "pod", klog.KObj(pod), "task", s.TaskID)
			l.ledger.KillStranger(s.TaskID)
		default:
			if taskID, _, _, _, ok := recordOf(pod); ok && taskID == s.TaskID {
				l.onBound(ctx, pod)
				continue
			}
			if l.options.Clock.Since(s.Since) >= l.options.OrphanGrace && l.ledger.Second(s) {
				logger.Info("Killing a second task of a bound pod", "pod", klog.KObj(pod), "task", s.TaskID, "agent", s.AgentID)
				l.ledger.KillStranger(s.TaskID)
			}
		}
	}
	if len(orphans) == 0 {
		return
	}
	counts := l.ledger.Counts()
	tasks := 0
	for _, n := range counts {
		tasks += n
	}
	if limit := max(l.options.MaxOrphans, tasks/20); len(orphans) > limit {
		l.stop.Trip()
		if stopped, since := l.stop.Stopped(0); stopped {
			metrics.Stopped.WithLabelValues().Set(1)
			logger.Error(nil, "Too many tasks without pods at once; none is killed", "tasks", len(orphans), "limit", limit, "release", l.options.HowToRelease(since))
			return
		}
	}
	for _, s := range orphans {
		logger.Info("Killing a task whose pod is gone", "task", s.TaskID, "agent", s.AgentID)
		l.ledger.KillStranger(s.TaskID)
	}
}
