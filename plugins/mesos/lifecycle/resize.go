// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// Pods can be resized in place, Mesos tasks cannot. A pod that shrinks goes on holding what its task holds. One that
// grows uses, or is about to use, more than Mesos knows of: nobody stops that, but it is never silent. An event, a metric
// and an annotation say by how much. A task that is launched for the pod later, after an accident, has its new size.

// excess returns by how much a pod asks for more than its task holds.
func (l *Lifecycle) excess(pod *v1.Pod, t ledger.Task) resources.Amounts {
	need, _ := l.options.NeedOf(pod) // an error is about the role; the amounts stand
	return need.Amounts.Sub(t.Need.Amounts).Max(resources.Amounts{})
}

// onResized sees a bound pod change.
func (l *Lifecycle) onResized(pod *v1.Pod) {
	if !l.options.Ours(pod.Spec.SchedulerName) {
		return
	}
	t, ok := l.ledger.Task(pod.UID)
	if !ok || !t.Bound {
		return
	}
	l.mu.Lock()
	known := l.exceeding[pod.UID]
	l.mu.Unlock()
	if l.excess(pod, t) != known {
		l.queue.Add(pod.UID)
	}
}

// noteExcess brings event, metric and annotation up to date; a change of the annotation is added to want.
func (l *Lifecycle) noteExcess(ctx context.Context, pod *v1.Pod, t ledger.Task, want map[string]any) {
	excess := l.excess(pod, t)
	switch recorded := pod.Annotations[wellknown.ExceedsTaskAnnotation]; {
	case recorded == excess.String():
	case excess.IsZero():
		want[wellknown.ExceedsTaskAnnotation] = nil
	default:
		want[wellknown.ExceedsTaskAnnotation] = excess.String()
	}
	l.mu.Lock()
	before := l.exceeding[pod.UID]
	l.setExcess(pod.UID, excess)
	l.mu.Unlock()
	if before == excess || excess.IsZero() {
		return
	}
	klog.FromContext(ctx).Info("A pod was resized beyond what its Mesos task holds", "pod", klog.KObj(pod), "task", t.ID, "holds", t.Need.Amounts, "exceeds", excess)
	l.options.Recorder.Eventf(pod, nil, v1.EventTypeWarning, "ExceedsMesosTask", "Resizing",
		"the pod was resized in place to more than its Mesos task holds (%s): it exceeds the task by %s, which Mesos may give to others; create the pod anew to have it held", t.Need.Amounts, excess)
}

// setExcess keeps the metric. The caller holds the lock.
func (l *Lifecycle) setExcess(uid types.UID, excess resources.Amounts) {
	if l.exceeding[uid] == excess {
		return
	}
	if excess.IsZero() {
		delete(l.exceeding, uid)
	} else {
		l.exceeding[uid] = excess
	}
	var sum resources.Amounts
	for _, e := range l.exceeding {
		sum = sum.Add(e)
	}
	metrics.Exceeded.WithLabelValues(resources.CPUs).Set(float64(sum.CPUs) / 1000)
	metrics.Exceeded.WithLabelValues(resources.Mem).Set(float64(sum.Mem) / 1000)
}
