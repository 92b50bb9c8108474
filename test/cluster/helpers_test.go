// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

func resources(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
}

// pod is a template bound to a node: no scheduler runs here.
func pod(node string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeName: node,
		Containers: []corev1.Container{{
			Name: "c", Image: "registry.example/app:1",
			Resources: corev1.ResourceRequirements{Requests: resources("100m")},
		}},
	}}
}

func deployment(name string, replicas int32, template corev1.PodTemplateSpec) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	template.Labels = labels
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
}

func createPod(ctx context.Context, t *testing.T, c *cluster.Cluster, name, node string, annotations map[string]string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: pod(node).Spec}
	_, err := c.Client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
	require.NoError(t, err)
}

func waitPods(ctx context.Context, t *testing.T, c *cluster.Cluster, selector string, n int, phase corev1.PodPhase) {
	t.Helper()
	wait(ctx, t, fmt.Sprintf("%d pods %s to be %s", n, selector, phase), func(ctx context.Context) error {
		pods, err := c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		got := 0
		for _, p := range pods.Items {
			if p.Status.Phase == phase {
				got++
			}
		}
		if got != n || len(pods.Items) != n {
			return fmt.Errorf("%d of %d are", got, len(pods.Items))
		}
		return nil
	})
}

func waitPhase(ctx context.Context, t *testing.T, c *cluster.Cluster, name string, phase corev1.PodPhase) {
	t.Helper()
	wait(ctx, t, fmt.Sprintf("pod %s to be %s", name, phase), func(ctx context.Context) error {
		p, err := c.Client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && p.Status.Phase != phase {
			err = fmt.Errorf("phase %s", p.Status.Phase)
		}
		return err
	})
}

func waitGone(ctx context.Context, t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	wait(ctx, t, fmt.Sprintf("pod %s to be gone", name), func(ctx context.Context) error {
		_, err := c.Client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = errors.New("it is there")
		}
		return err
	})
}
