// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

const limit = time.Minute

func TestCluster(t *testing.T) {
	ctx := t.Context()
	c, err := cluster.Start(ctx, cluster.Options{Dir: t.TempDir(), ControllerManager: true, Logf: t.Logf})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	require.NoError(t, c.AddKwokNodes(ctx,
		cluster.Node{Name: "a", CPU: "8", Memory: "16Gi"},
		cluster.Node{Name: "b", Labels: map[string]string{"zone": "z1"}},
	))
	hollow, err := c.StartHollowNode(ctx, "h")
	require.NoError(t, err)

	t.Run("kubectl reports the stamped version", func(t *testing.T) {
		out, err := c.Kubectl(ctx, "version")
		require.NoError(t, err)
		require.Equal(t, 2, strings.Count(out, "v1.37.2"), out)
	})

	t.Run("a Deployment's pods run and stop", func(t *testing.T) {
		d := deployment("web", 3, pod("a"))
		_, err := c.Client.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{})
		require.NoError(t, err)
		waitPods(ctx, t, c, "app=web", 3, corev1.PodRunning)
		require.NoError(t, c.Client.AppsV1().Deployments("default").Delete(ctx, "web", metav1.DeleteOptions{}))
		waitPods(ctx, t, c, "app=web", 0, corev1.PodRunning)
	})

	t.Run("a Job completes", func(t *testing.T) {
		one := int32(2)
		template := pod("b")
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "sum"}, Spec: batchv1.JobSpec{Completions: &one, Parallelism: &one, Template: template}}
		_, err := c.Client.BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{})
		require.NoError(t, err)
		wait(ctx, t, "the Job to complete", func(ctx context.Context) error {
			job, err := c.Client.BatchV1().Jobs("default").Get(ctx, "sum", metav1.GetOptions{})
			if err == nil && job.Status.Succeeded != 2 {
				err = fmt.Errorf("succeeded: %d", job.Status.Succeeded)
			}
			return err
		})
	})

	for name, tt := range map[string]struct {
		annotations map[string]string
		want        corev1.PodPhase
		code        int32
	}{
		"completes": {map[string]string{cluster.CompleteAfterAnnotation: "50ms"}, corev1.PodSucceeded, 0},
		"fails":     {map[string]string{cluster.CompleteAfterAnnotation: "50ms", cluster.ExitCodeAnnotation: "3"}, corev1.PodFailed, 3},
	} {
		t.Run("a pod that "+name, func(t *testing.T) {
			createPod(ctx, t, c, name, "a", tt.annotations)
			wait(ctx, t, "the pod's end", func(ctx context.Context) error {
				p, err := c.Client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
				if err == nil && p.Status.Phase != tt.want {
					err = fmt.Errorf("phase %s", p.Status.Phase)
				}
				if err == nil {
					require.Equal(t, tt.code, p.Status.ContainerStatuses[0].State.Terminated.ExitCode)
				}
				return err
			})
		})
	}

	t.Run("a pod that never becomes ready, and one that takes its whole grace to stop", func(t *testing.T) {
		createPod(ctx, t, c, "never", "a", map[string]string{cluster.ReadyAfterAnnotation: "never"})
		createPod(ctx, t, c, "slow", "a", map[string]string{cluster.StopAfterAnnotation: "grace"})
		waitPhase(ctx, t, c, "slow", corev1.PodRunning)
		grace := int64(2)
		start := time.Now()
		require.NoError(t, c.Client.CoreV1().Pods("default").Delete(ctx, "slow", metav1.DeleteOptions{GracePeriodSeconds: &grace}))
		waitGone(ctx, t, c, "slow")
		// Deletion times have whole seconds.
		require.Greater(t, time.Since(start), time.Second)
		p, err := c.Client.CoreV1().Pods("default").Get(ctx, "never", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, corev1.PodPending, p.Status.Phase)
		require.NoError(t, c.Client.CoreV1().Pods("default").Delete(ctx, "never", metav1.DeleteOptions{}))
		waitGone(ctx, t, c, "never")
	})

	t.Run("a proxy", func(t *testing.T) { testProxy(ctx, t, c) })

	t.Run("a hollow kubelet runs a pod, refuses one too many and ends the first", func(t *testing.T) {
		createPod(ctx, t, c, "real", "h", nil)
		waitPhase(ctx, t, c, "real", corev1.PodRunning)
		big := pod("h")
		big.Name = "big"
		big.Spec.Containers[0].Resources.Requests = resources("8")
		_, err := c.Client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: big.ObjectMeta, Spec: big.Spec}, metav1.CreateOptions{})
		require.NoError(t, err)
		wait(ctx, t, "the kubelet to refuse the pod", func(ctx context.Context) error {
			p, err := c.Client.CoreV1().Pods("default").Get(ctx, "big", metav1.GetOptions{})
			if err == nil && p.Status.Reason != "OutOfcpu" {
				err = fmt.Errorf("phase %s, reason %q", p.Status.Phase, p.Status.Reason)
			}
			return err
		})
		require.NoError(t, c.Client.CoreV1().Pods("default").Delete(ctx, "real", metav1.DeleteOptions{}))
		waitGone(ctx, t, c, "real")
		require.NoError(t, hollow.Kill())
		require.False(t, hollow.Running())
	})

	t.Run("a node's certificate reaches its own pods only", func(t *testing.T) {
		createPod(ctx, t, c, "on-a", "a", nil)
		node := clientFor(t, c.NodeKubeconfig("b"))
		_, err := node.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=b"})
		require.NoError(t, err)
		err = node.CoreV1().Pods("default").Delete(ctx, "on-a", metav1.DeleteOptions{})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		_, err = node.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		wait(ctx, t, "the refusals in the audit log", func(context.Context) error {
			refused, err := c.Forbidden("system:node:b")
			if err == nil && len(refused) != 2 {
				err = fmt.Errorf("%v", refused)
			}
			if err == nil {
				require.Equal(t, "delete pods default/on-a: 403", refused[0].String())
				require.Equal(t, "list pods default/: 403", refused[1].String())
			}
			return err
		})
	})

	t.Run("a service account may do nothing it was not given", func(t *testing.T) {
		path, err := c.ServiceAccountKubeconfig(ctx, "default", "default")
		require.NoError(t, err)
		_, err = clientFor(t, path).CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
	})

	t.Run("the API server is killed and comes back with its data", func(t *testing.T) {
		require.NoError(t, c.APIServer.Kill())
		_, err := c.Client.CoreV1().Nodes().Get(ctx, "a", metav1.GetOptions{})
		require.Error(t, err)
		require.NoError(t, c.APIServer.Start())
		require.NoError(t, c.WaitReady(ctx))
		_, err = c.Client.CoreV1().Nodes().Get(ctx, "a", metav1.GetOptions{})
		require.NoError(t, err)
		createPod(ctx, t, c, "after", "a", nil)
		waitPhase(ctx, t, c, "after", corev1.PodRunning)
	})
}

func TestStartTellsWhyItFailed(t *testing.T) {
	_, err := cluster.Start(t.Context(), cluster.Options{Dir: t.TempDir(), FeatureGates: map[string]bool{"NoSuchGate": true}})
	require.ErrorContains(t, err, "kube-apiserver has ended")
	require.ErrorContains(t, err, "NoSuchGate")
}

func TestDetachedClusterIsEndedFromItsRecord(t *testing.T) {
	dir := t.TempDir()
	c, err := cluster.Start(t.Context(), cluster.Options{Dir: dir, Detached: true})
	require.NoError(t, err)
	names, err := cluster.Recorded(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"etcd", "kube-apiserver"}, names)
	ended, err := cluster.StopRecorded(dir, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"kube-apiserver", "etcd"}, ended)
	<-c.APIServer.Done()
	ended, err = cluster.StopRecorded(dir, 0)
	require.NoError(t, err)
	require.Empty(t, ended)
}

func TestProcess(t *testing.T) {
	shell := func(script string) *cluster.Process {
		return &cluster.Process{Name: "sh", Path: "/bin/sh", Args: []string{"-c", script}, LogFile: filepath.Join(t.TempDir(), "log"), StopGrace: limit}
	}
	t.Run("stop is graceful, then final", func(t *testing.T) {
		p := shell(`trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done`)
		require.NoError(t, p.Start())
		require.Error(t, p.Start())
		wait(t.Context(), t, "the program to be up", func(context.Context) error {
			if !strings.Contains(p.LogTail(5), "up") {
				return errors.New("not up")
			}
			return nil
		})
		require.NoError(t, p.Stop())
		require.Equal(t, "up\nbye", p.LogTail(5))
		require.NoError(t, p.Stop())
		require.NoError(t, p.Wait(t.Context()))
	})
	t.Run("a wait ends with the program", func(t *testing.T) {
		p := shell(`echo no such luck; exit 3`)
		require.NoError(t, p.Start())
		err := p.WaitUntil(t.Context(), "luck", func(context.Context) error { return errors.New("none") })
		require.ErrorContains(t, err, "sh has ended")
		require.ErrorContains(t, err, "no such luck")
		require.ErrorContains(t, p.Wait(t.Context()), "exit status 3")
	})
	t.Run("kill", func(t *testing.T) {
		p := shell(`trap '' TERM; sleep 1000`)
		require.NoError(t, p.Kill())
		require.NoError(t, p.Start())
		first := p.PID()
		require.NoError(t, p.Kill())
		require.False(t, p.Running())
		require.NoError(t, p.Start())
		require.NotEqual(t, first, p.PID())
		p.StopGrace = 0
		require.NoError(t, p.Stop())
	})
	t.Run("no such program", func(t *testing.T) {
		p := &cluster.Process{Name: "none", Path: "/no/such/program", LogFile: filepath.Join(t.TempDir(), "log")}
		require.ErrorContains(t, p.Start(), "start none")
		require.False(t, p.Running())
		require.NoError(t, p.Stop())
	})
}

func wait(ctx context.Context, t *testing.T, what string, cond func(context.Context) error) {
	t.Helper()
	require.NoError(t, cluster.WaitAtMost(ctx, limit, what, cond))
}

func clientFor(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}
