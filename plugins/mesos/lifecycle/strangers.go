// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
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
			if now, err := l.abandon(ctx, pod, s.TaskID); err != nil || now == nil || now.Spec.NodeName != "" {
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

// abandon notes on a pod that a task is about to be killed which an earlier leader has launched for it. It returns the pod as
// it is now, nil if it is gone; if it is bound nothing was noted, and the task must live. From the note on a Binding of the
// earlier leader is refused, since it names the version of the pod before.
func (l *Lifecycle) abandon(ctx context.Context, pod *v1.Pod, taskID string) (*v1.Pod, error) {
	pods := l.options.Client.CoreV1().Pods(pod.Namespace)
	for {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID:
			return nil, nil
		case err != nil || now.Spec.NodeName != "" || now.Annotations[wellknown.AbandonedTaskAnnotation] == taskID:
			return now, err
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": now.UID, "resourceVersion": now.ResourceVersion, "annotations": map[string]string{wellknown.AbandonedTaskAnnotation: taskID},
		}})
		if err != nil {
			return nil, err
		}
		noted, err := pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			continue // look again what it is now
		}
		return noted, err
	}
}
