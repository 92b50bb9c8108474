// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// callTimeout bounds one call to the API server.
const callTimeout = 15 * time.Second

// Delete deletes the pod with the given UID, with a grace in seconds. gone says that there is no such pod (any more):
// no pod of that name, or one with another UID.
func (n *Node) Delete(ctx context.Context, namespace, name, uid string, grace int64) (gone bool, err error) {
	client, err := n.client()
	if err != nil {
		return false, err
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	id := types.UID(uid)
	err = client.CoreV1().Pods(namespace).Delete(limited, name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace,
		Preconditions:      &metav1.Preconditions{UID: &id},
	})
	switch {
	case err == nil:
		return false, nil
	case otherUID(err):
		return true, nil
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("delete pod %s/%s: %w", namespace, name, err)
	}
	// The plugin NodeRestriction answers so for every pod while an API server that has just started has yet to learn of the
	// pods (plugin/pkg/admission/noderestriction, admitPod).
	pod, findErr := n.Find(ctx, namespace, name, uid)
	switch {
	case findErr != nil:
		return false, fmt.Errorf("delete pod %s/%s: %w, which is not certain: %w", namespace, name, err, findErr)
	case pod != nil:
		return false, fmt.Errorf("delete pod %s/%s: %w, but it is there: the API server has yet to learn of it", namespace, name, err)
	}
	return true, nil
}

// Find returns the pod with the given UID if it is bound to this node, nil if it is not. The answer is the API server's
// latest, unlike what Run tells. namespace and name may be empty.
func (n *Node) Find(ctx context.Context, namespace, name, uid string) (*corev1.Pod, error) {
	client, err := n.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// A node may list its own pods; it may get a pod only once the API server's authorizer has learnt of the binding.
	selector := fields.Set{"spec.nodeName": n.name}
	if name != "" {
		selector["metadata.name"] = name
	}
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector.AsSelector().String()})
	if err != nil {
		return nil, fmt.Errorf("find pod %s/%s: %w", namespace, name, err)
	}
	for i := range list.Items {
		if string(list.Items[i].UID) == uid {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// otherUID says whether a deletion failed because the pod has another UID. The API server answers other conflicts with
// 409 too and tells them apart in the text only: "the UID in the precondition (..) does not match the UID in record
// (..)" when it sees that before, and "Precondition failed: UID in precondition: .., UID in object meta: .." when it
// sees it while it writes.
func otherUID(err error) bool {
	return apierrors.IsConflict(err) &&
		(strings.Contains(err.Error(), "UID in the precondition") || strings.Contains(err.Error(), "UID in precondition"))
}

// Warn records an event on the pod, so that its owner can see what happened.
func (n *Node) Warn(ctx context.Context, namespace, name, uid, reason, message string) error {
	client, err := n.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now := metav1.Now()
	_, err = client.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, GenerateName: name + "."},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(uid)},
		Type:           corev1.EventTypeWarning,
		Reason:         reason,
		Message:        message,
		Source:         corev1.EventSource{Component: "kube-mesos-executor", Host: n.name},
		FirstTimestamp: now,
		LastTimestamp:  now,
		Count:          1,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("record event on pod %s/%s: %w", namespace, name, err)
	}
	return nil
}
