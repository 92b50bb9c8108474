// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func jsonBody(v any) ([]byte, error) { return json.Marshal(v) }

// forceDelete takes a bound pod out of the API server at once, while its containers run.
func (in *injector) forceDelete(ctx context.Context, f fault) error {
	var bound []*corev1.Pod
	for _, pod := range in.recorder.present() {
		if pod.Spec.NodeName != "" {
			bound = append(bound, pod)
		}
	}
	if len(bound) == 0 {
		return errors.New("no pod is bound")
	}
	pod := bound[f.n%len(bound)]
	in.begin(f, incident{text: fmt.Sprintf(": pod %s (%s)", pod.Name, pod.UID), pod: string(pod.UID)})
	zero := int64(0)
	err := in.c.Client.CoreV1().Pods(in.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// deleteNode takes a node out of the API server and puts it back, as a kubelet does when it registers again.
func (in *injector) deleteNode(ctx context.Context, f fault) error {
	name := in.nodes[f.agent]
	in.begin(f, incident{text: ": " + name, hides: true})
	if err := in.c.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	pause(ctx, f.lasts)
	if p := in.kubelets[name]; p != nil { // it registers when it starts
		return p.Restart()
	}
	for {
		err := in.c.AddKwokNodes(ctx, kwokNode(name))
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		in.journal.notef("node %s does not come back yet: %v", name, err)
		if !pause(ctx, 200*ms) {
			return err
		}
	}
}
