// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"strconv"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// PodOf returns what the ledger keeps of a pod.
func PodOf(pod *v1.Pod) ledger.Pod {
	p := ledger.Pod{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Priority: corev1helpers.PodPriority(pod), Created: pod.CreationTimestamp.Time, Grace: ledger.DefaultGrace}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		p.Grace = ledger.GraceOf(*s)
	}
	return p
}

// recordOf reads the record of a pod's task from its annotations. Anybody can write them, so it counts only if the task
// id is one of this pod's UID. ok is false if the pod carries no record of ours.
func recordOf(pod *v1.Pod) (taskID, agentID, frameworkID, executorID string, ok bool) {
	taskID, agentID = pod.Annotations[wellknown.TaskIDAnnotation], pod.Annotations[wellknown.AgentIDAnnotation]
	frameworkID, executorID = pod.Annotations[wellknown.FrameworkIDAnnotation], pod.Annotations[wellknown.ExecutorIDAnnotation]
	uid, _, parsed := taskinfo.ParseTaskID(taskID)
	return taskID, agentID, frameworkID, executorID, parsed && uid == pod.UID && agentID != "" && frameworkID != ""
}

// Annotations returns what the Binding of a pod, or a later patch, records of its task.
func Annotations(t ledger.Task, frameworkID string) map[string]string {
	out := map[string]string{
		wellknown.TaskIDAnnotation:      t.ID,
		wellknown.AgentIDAnnotation:     t.AgentID,
		wellknown.FrameworkIDAnnotation: frameworkID,
		wellknown.ExecutorIDAnnotation:  t.ExecutorID,
		wellknown.ResourcesAnnotation:   t.Need.String(),
	}
	for i, port := range t.Need.Chosen {
		out[wellknown.HostPortAnnotationPrefix+strconv.Itoa(i)] = strconv.Itoa(int(port))
	}
	return out
}

// chosenPorts reads the host ports that were chosen for a bound pod.
func chosenPorts(pod *v1.Pod, n int) []int32 {
	var out []int32
	for i := range n {
		port, err := strconv.ParseInt(pod.Annotations[wellknown.HostPortAnnotationPrefix+strconv.Itoa(i)], 10, 32)
		if err != nil || port < 1 || port > 65535 {
			continue
		}
		out = append(out, int32(port))
	}
	return out
}

func finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// Recover takes the bound pods of ours into the ledger. frameworkID is the stored id: a record of another one is of a
// framework that was given up, so its pod has no task. It returns how many pods it found. Nothing of them is touched.
func (l *Lifecycle) Recover(ctx context.Context, frameworkID string) int {
	n := 0
	for _, obj := range l.options.Pods.GetStore().List() {
		pod := obj.(*v1.Pod)
		if pod.Spec.NodeName != "" && l.restore(ctx, pod, frameworkID) {
			n++
		}
	}
	return n
}

// RecoverLaunches takes the launches into the ledger that an earlier leader had in flight, but those of pods that are gone
// or bound. It returns how many it took. Recover must have been called before.
func (l *Lifecycle) RecoverLaunches(ctx context.Context, frameworkID string, flights []ledger.Flight) (int, error) {
	pods := make([]*v1.Pod, len(flights))
	group, abandonCtx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i, f := range flights {
		uid, _, ok := taskinfo.ParseTaskID(f.TaskID)
		pod := l.pod(uid)
		if !ok || pod == nil || pod.Spec.NodeName != "" || !l.options.Ours(pod.Spec.SchedulerName) {
			continue
		}
		group.Go(func() (err error) {
			pods[i], err = l.abandon(abandonCtx, pod, f.TaskID)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	n := 0
	for i, f := range flights {
		pod := pods[i]
		if pod == nil {
			continue
		}
		if pod.Spec.NodeName != "" {
			l.restore(ctx, pod, frameworkID)
			continue
		}
		need, err := l.options.NeedOf(pod)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot tell the need of a pod that was being launched", "pod", klog.KObj(pod), "err", err)
		}
		l.ledger.RestoreLaunch(ledger.Task{Pod: PodOf(pod), Need: need, AgentID: f.AgentID, Node: f.Node, ID: f.TaskID})
		n++
	}
	return n, nil
}

// restore takes one bound pod into the ledger; it returns false for a pod that is not ours.
func (l *Lifecycle) restore(ctx context.Context, pod *v1.Pod, frameworkID string) bool {
	if !l.options.Ours(pod.Spec.SchedulerName) || finished(pod) {
		return false
	}
	logger := klog.FromContext(ctx)
	taskID, agentID, of, executorID, ok := recordOf(pod)
	if !ok {
		logger.Info("Pod names this scheduler but was bound by somebody else; it is left alone", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
		return false
	}
	need, err := l.options.NeedOf(pod)
	if err != nil {
		logger.Info("Cannot tell the role of a bound pod; its namespace's default is assumed", "pod", klog.KObj(pod), "err", err)
	}
	if need.AnyPorts > 0 {
		need = need.WithPorts(chosenPorts(pod, need.AnyPorts))
	}
	asks := need.Amounts
	if held, ok := resources.ParseAmounts(pod.Annotations[wellknown.ResourcesAnnotation]); ok && taskID != "" {
		need.Amounts = held // the task cannot have been resized with its pod
	}
	t := ledger.Task{Pod: PodOf(pod), Need: need, AgentID: agentID, Node: pod.Spec.NodeName, ID: taskID, ExecutorID: executorID}
	if frameworkID != "" && of != frameworkID {
		t.ID = "" // its framework is gone, and its task with it
	}
	if t.ID == "" {
		t.Need.Amounts = asks
	}
	l.ledger.Restore(t)
	if t.ID == "" || asks != t.Need.Amounts || pod.Annotations[wellknown.ExceedsTaskAnnotation] != "" {
		l.queue.Add(pod.UID)
	}
	return true
}

// handler follows the pods. The informer is kube-scheduler's own: a pod that is complete arrives as a deletion.
func (l *Lifecycle) handler(ctx context.Context) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if pod, ok := obj.(*v1.Pod); ok && pod.Spec.NodeName != "" {
				l.onBound(ctx, pod)
			}
		},
		UpdateFunc: func(before, after any) {
			was, ok1 := before.(*v1.Pod)
			pod, ok2 := after.(*v1.Pod)
			if !ok1 || !ok2 {
				return
			}
			if was.UID != pod.UID {
				l.onGone(was)
			}
			if pod.Spec.NodeName != "" && (was.Spec.NodeName == "" || was.UID != pod.UID) {
				l.onBound(ctx, pod)
			} else if pod.Spec.NodeName != "" {
				l.onResized(pod)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				l.onGone(pod)
			}
		},
	}
}

func (l *Lifecycle) onGone(pod *v1.Pod) {
	if l.options.Ours(pod.Spec.SchedulerName) {
		l.ledger.PodGone(pod.UID)
		l.settled(pod.UID)
	}
}

// onBound sees a pod bound. Mostly this process did it and knows; but a Binding of an earlier leader may be stored late.
func (l *Lifecycle) onBound(ctx context.Context, pod *v1.Pod) {
	if !l.options.Ours(pod.Spec.SchedulerName) || finished(pod) {
		return
	}
	l.ledger.NotWaiting(pod.UID)
	taskID, _, _, _, ok := recordOf(pod)
	if ok && l.ledger.Bound(pod.UID, taskID) {
		return
	}
	t, known := l.ledger.Task(pod.UID)
	switch {
	case !known:
		if l.restore(ctx, pod, l.mesos.FrameworkID()) {
			klog.FromContext(ctx).Info("Found a pod that an earlier leader has bound", "pod", klog.KObj(pod), "task", taskID)
		} else {
			l.options.Recorder.Eventf(pod, nil, v1.EventTypeWarning, "BoundElsewhere", "Binding",
				"the pod names this scheduler but was bound to node %s by somebody else: no Mesos task holds its resources", pod.Spec.NodeName)
		}
	case !t.Bound:
		// Two launches for one pod: the Binding names the one that counts. Ours has to end before that can be restored.
		klog.FromContext(ctx).Info("Pod was bound with another task than the one launched now; that one is killed", "pod", klog.KObj(pod), "bound", taskID, "launched", t.ID)
		l.ledger.Unbound(pod.UID)
	}
}
