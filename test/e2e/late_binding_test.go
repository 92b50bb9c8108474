// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// TestLateBindingIsRefused shows what a new leader relies on before it kills a task of the one before: once it has written to
// the pod, the API server refuses a Binding that names the version before.
func TestLateBindingIsRefused(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1})
	pod := w.pod("waits", "100m", "64Mi", func(p *corev1.Pod) { p.Spec.SchedulerName = "nobody" })
	bind := func(version string) error {
		return shared.Client.CoreV1().Pods(w.namespace).Bind(w.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: version},
			Target:     corev1.ObjectReference{Kind: "Node", Name: w.nodes[0]},
		}, metav1.CreateOptions{})
	}
	noted, err := shared.Client.CoreV1().Pods(w.namespace).Patch(w.ctx, pod.Name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+wellknown.AbandonedTaskAnnotation+`":"task"}}}`), metav1.PatchOptions{})
	w.ok(err)
	if err := bind(pod.ResourceVersion); !apierrors.IsConflict(err) {
		t.Errorf("a Binding of the version before: %v", err)
	}
	if now, err := w.get(pod.Name); err != nil || now.Spec.NodeName != "" {
		t.Errorf("%v, bound to %q", err, now.Spec.NodeName)
	}
	w.ok(bind(noted.ResourceVersion))
}
