// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
)

// remove deletes a pod as preemption and eviction do: first the condition DisruptionTarget, then a delete by UID with
// the pod's own grace.
func (l *Lifecycle) remove(ctx context.Context, pod *v1.Pod, reason, message string) error {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	patch := map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{
			"observedGeneration": pod.Generation,
			"conditions": []map[string]any{{
				"type": v1.DisruptionTarget, "status": v1.ConditionTrue, "reason": reason, "message": message,
				"observedGeneration": pod.Generation, "lastTransitionTime": metav1.NewTime(l.options.Clock.Now()),
			}},
		},
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	pods := l.options.Client.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status"); err != nil && !gone(err) {
		return fmt.Errorf("set DisruptionTarget on pod %s: %w", klog.KObj(pod), err)
	}
	uid := pod.UID
	err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !gone(err) {
		return fmt.Errorf("delete pod %s: %w", klog.KObj(pod), err)
	}
	metrics.Removals.WithLabelValues(reason).Inc()
	klog.FromContext(ctx).Info("Removed a pod", "pod", klog.KObj(pod), "reason", reason, "message", message)
	l.options.Recorder.Eventf(pod, nil, v1.EventTypeWarning, reason, "Removing", "%s", message)
	return nil
}

// gone says whether an error tells that the object is not there any more. A conflict does not: it stands for another UID, but
// also for a write at the same moment. Whoever meets one tries again, and finds the pod of that UID no more.
func gone(err error) bool { return apierrors.IsNotFound(err) }

// record writes the present task onto its pod, if another one stands there, and by how much the pod exceeds it.
func (l *Lifecycle) record(ctx context.Context, pod *v1.Pod, t ledger.Task) error {
	want := map[string]any{}
	for k, v := range Annotations(t, l.mesos.FrameworkID()) {
		if pod.Annotations[k] != v {
			want[k] = v
		}
	}
	l.noteExcess(ctx, pod, t, want)
	if len(want) == 0 || pod.Spec.NodeName == "" { // the informer has not seen the Binding yet
		return nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": want}})
	if err != nil {
		return err
	}
	_, err = l.options.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil && !gone(err) {
		return fmt.Errorf("record task %s on pod %s: %w", t.ID, klog.KObj(pod), err)
	}
	return nil
}
