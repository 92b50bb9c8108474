// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/lifecycle"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// Bind launches the task of the pod's claim, waits for its first status, and then binds the pod, with the task on record
// in its annotations. It never returns Skip: a pod of ours is not bound without a task.
func (m *Mesos) Bind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	claimed, ok := m.system.ledger.Task(pod.UID)
	if !ok {
		return fwk.AsStatus(errors.New("the pod's claim on Mesos resources is gone"))
	}
	if err := annotationsFit(pod, claimed); err != nil {
		return fwk.AsStatus(err)
	}
	if now, err := m.system.pods.Pods(pod.Namespace).Get(pod.Name); err != nil || now.UID != pod.UID || now.DeletionTimestamp != nil {
		return fwk.AsStatus(errors.New("the pod was deleted before its Mesos task was launched"))
	}
	begun := m.system.clock.Now()
	t, err := m.launch(ctx, pod)
	if err != nil {
		metrics.Launches.WithLabelValues("failed").Inc()
		return fwk.AsStatus(err)
	}
	metrics.Launches.WithLabelValues("launched").Inc()
	metrics.LaunchSeconds.Observe(m.system.clock.Since(begun).Seconds())
	begun = m.system.clock.Now()
	if err := m.post(ctx, pod, nodeName, t); err != nil {
		return fwk.AsStatus(err)
	}
	m.system.ledger.Bound(pod.UID, t.ID)
	metrics.BindSeconds.Observe(m.system.clock.Since(begun).Seconds())
	return nil
}

// launch launches the pod's task. A member of a gang waits until enough members have theirs; if one fails before, all do.
func (m *Mesos) launch(ctx context.Context, pod *v1.Pod) (ledger.Task, error) {
	group, minCount, assigned := gangOf(pod, m.handle.PodGroupManager())
	if minCount <= assigned {
		return m.system.launcher.Launch(ctx, pod.UID)
	}
	b := m.system.gangs.enter(group)
	defer m.system.gangs.leave(group, b)
	t, err := m.system.launcher.Launch(ctx, pod.UID)
	if err != nil {
		m.system.gangs.fail(group, b, err)
		return t, err
	}
	m.system.gangs.arrive(b, pod.UID, minCount-assigned)
	if err := b.wait(ctx, m.args.LaunchTimeout.Duration); err != nil {
		m.system.gangs.fail(group, b, err)
		return t, err
	}
	return t, nil
}

// annotationsFit checks before anything is launched that the annotations of the Binding will be good ones: the API server
// merges them unchecked, and a bad one breaks every later update of the pod's status. What the pod has was checked when it was
// written, and our keys are fixed, so that only the size of all together is in question.
func annotationsFit(pod *v1.Pod, claimed ledger.Task) error {
	// The ids are not known yet; 255 bytes are the most that Mesos allows for one.
	claimed.ID, claimed.ExecutorID = longestID, longestID
	all := lifecycle.Annotations(claimed, longestID)
	for k, v := range pod.Annotations {
		if _, ours := all[k]; !ours {
			all[k] = v
		}
	}
	return apivalidation.ValidateAnnotationsSize(all)
}

var longestID = strings.Repeat("x", 255)

// errNotOurs says that a pod certainly will not run on the node with the task.
var errNotOurs = errors.New("the pod cannot be bound")

// post sends the Binding until there is a definite answer to it. The same Binding may be sent again: it names the pod's
// UID, and a pod that is bound already is looked at. It also names the version of the pod, which was read while this process
// led: a leader that follows writes to the pod before it kills the task, so that a Binding of this process that is on its
// way by then is refused.
func (m *Mesos) post(ctx context.Context, pod *v1.Pod, nodeName string, t ledger.Task) error {
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Annotations: lifecycle.Annotations(t, m.system.session.Status().FrameworkID),
		},
		Target: v1.ObjectReference{Kind: "Node", Name: nodeName},
	}
	if known, err := m.system.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && known.UID == pod.UID {
		binding.ResourceVersion = known.ResourceVersion
	} else {
		binding.ResourceVersion = pod.ResourceVersion
	}
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 1 << 20, Cap: 5 * time.Second}
	for {
		if now, ok := m.system.ledger.Task(pod.UID); !ok || now.ID != t.ID || !now.State.Live() || !now.KillSince.IsZero() {
			return fmt.Errorf("%w: its Mesos task %s is no longer alive: %s", errNotOurs, t.ID, now.Last)
		}
		err := m.system.may()
		if err == nil {
			if err = m.send(ctx, binding); err == nil {
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			now, lookErr := m.look(ctx, pod)
			switch {
			case lookErr != nil:
			case now != nil && now.Spec.NodeName == nodeName && now.Annotations[wellknown.TaskIDAnnotation] == t.ID:
				return nil
			case now == nil || now.Spec.NodeName != "" || now.DeletionTimestamp != nil:
				return fmt.Errorf("%w: %w", errNotOurs, err)
			case apierrors.IsConflict(err) && binding.ResourceVersion != now.ResourceVersion:
				binding.ResourceVersion = now.ResourceVersion // somebody else has changed the pod
				continue
			case !ambiguous(err):
				return fmt.Errorf("%w: %w", errNotOurs, err)
			}
		}
		klog.FromContext(ctx).V(2).Info("No definite answer to a Binding; sending it again", "pod", klog.KObj(pod), "node", nodeName, "err", err)
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *Mesos) send(ctx context.Context, binding *v1.Binding) error {
	if cacher := m.handle.APICacher(); cacher != nil {
		done, err := cacher.BindPod(binding)
		if err != nil {
			return err
		}
		return cacher.WaitOnFinish(ctx, done)
	}
	if err := m.system.bindings.Acquire(ctx, 1); err != nil {
		return err
	}
	defer m.system.bindings.Release(1)
	return m.handle.ClientSet().CoreV1().Pods(binding.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
}

// maxBindings bounds the Bindings in flight. Offers that come back let many tasks start at one moment. Unless it is told
// otherwise, kube-apiserver takes 100 requests at a time on one connection (pkg/server/secure_serving.go), watches and those of
// others in this process among them, and beyond that the client opens more connections, with all that TLS costs. Fewer
// Bindings make tasks wait, and a task that waits is in each write of the launch log.
const maxBindings = 75

// look asks the API server for a pod as it is now; it returns nil if there is none of its UID any more.
func (m *Mesos) look(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	now, err := m.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return now, nil
}

// ambiguous says whether a Binding that failed with err may have been stored all the same, or may be if sent again.
func ambiguous(err error) bool {
	var netErr net.Error
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsUnexpectedServerError(err) || apierrors.ReasonForError(err) == metav1.StatusReasonUnknown ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) || errors.As(err, &netErr)
}
