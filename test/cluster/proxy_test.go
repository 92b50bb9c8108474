// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// testProxy sees that a proxy acts for its clients with their rights, and does to requests what it is told.
func testProxy(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	var act atomic.Pointer[func(w http.ResponseWriter, r *http.Request, next http.Handler)]
	does := func(f func(w http.ResponseWriter, r *http.Request, next http.Handler)) { act.Store(&f) }
	pass := func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) }
	does(pass)
	proxy, err := c.NewProxy(func(client string, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if client == "a" {
			(*act.Load())(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	url, err := proxy.Listen("a")
	require.NoError(t, err)

	connect := func(write func(path, url, node string) error) kubernetes.Interface {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, write(path, url, "a"))
		config, err := clientcmd.BuildConfigFromFlags("", path)
		require.NoError(t, err)
		client, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		return client
	}
	node := connect(c.WriteNodeKubeconfig)
	own := metav1.ListOptions{FieldSelector: "spec.nodeName=a"}
	_, err = node.CoreV1().Pods("").List(ctx, own)
	require.NoError(t, err, "a node may list its own pods")
	_, err = node.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "a node may not list all pods: %v", err)
	_, err = connect(c.WriteForeignNodeKubeconfig).CoreV1().Pods("").List(ctx, own)
	require.True(t, apierrors.IsUnauthorized(err), "nobody has signed for it: %v", err)

	watch, err := node.CoreV1().Pods("").Watch(ctx, own)
	require.NoError(t, err)
	defer watch.Stop()
	does(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		cluster.Refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "no", 0)
	})
	_, err = node.CoreV1().Nodes().Get(ctx, "a", metav1.GetOptions{})
	require.True(t, apierrors.IsConflict(err), "%v", err)

	does(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { cluster.Break(r) })
	_, err = node.CoreV1().Nodes().Patch(ctx, "a", "application/merge-patch+json", []byte(`{}`), metav1.PatchOptions{})
	require.Error(t, err)
	for range watch.ResultChan() { // it was on the same connection, and ends
	}

	does(pass)
	meant := func(client string) bool { return client == "a" }
	proxy.Away(meant, true)
	_, err = node.CoreV1().Nodes().Get(ctx, "a", metav1.GetOptions{})
	require.Error(t, err)
	proxy.Away(meant, false)
	_, err = node.CoreV1().Nodes().Get(ctx, "a", metav1.GetOptions{})
	require.NoError(t, err)
}
