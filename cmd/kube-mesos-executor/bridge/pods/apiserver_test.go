// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2/ktesting"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// recorder is a Sink that keeps what it is told.
type recorder struct {
	mu      sync.Mutex
	pods    map[types.UID]*corev1.Pod
	synced  bool
	changed chan struct{}
}

func newRecorder() *recorder {
	return &recorder{pods: map[types.UID]*corev1.Pod{}, changed: make(chan struct{})}
}

func (r *recorder) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) Replaced(pods []*corev1.Pod) {
	r.change(func() {
		clear(r.pods)
		for _, p := range pods {
			r.pods[p.UID] = p
		}
	})
}
func (r *recorder) Seen(p *corev1.Pod) { r.change(func() { r.pods[p.UID] = p }) }
func (r *recorder) Gone(p *corev1.Pod) { r.change(func() { delete(r.pods, p.UID) }) }
func (r *recorder) Synced(ok bool)     { r.change(func() { r.synced = ok }) }

func (r *recorder) await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		r.mu.Lock()
		ok, changed := cond(), r.changed
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("Waited in vain for %s", what)
		}
	}
}

// X2: what the executor does is what a node's own certificate allows, with NodeRestriction and no other right, on a
// real API server.
func TestRealAPIServer(t *testing.T) {
	if _, err := cluster.FindTools(); err != nil {
		t.Skip("Needs the control plane of hack/control-plane.sh: ", err)
	}
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	c, err := cluster.Start(ctx, cluster.Options{Dir: t.TempDir(), ControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Log(err)
		}
	})
	if err := c.AddKwokNodes(ctx, cluster.Node{Name: "node-1"}, cluster.Node{Name: "node-2"}); err != nil {
		t.Fatal(err)
	}
	// From now on nobody plays the kubelets: pods change only by what the test does.
	if err := c.Kwok.Kill(); err != nil {
		t.Fatal(err)
	}
	admin := c.Client
	certificate, err := os.ReadFile(c.NodeKubeconfig("node-1"))
	if err != nil {
		t.Fatal(err)
	}
	// Beside the original, as it may name files by relative paths.
	kubeconfig := filepath.Join(filepath.Dir(c.NodeKubeconfig("node-1")), "rotated.kubeconfig")
	replace := func(b []byte) {
		if err := os.WriteFile(kubeconfig+".new", b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(kubeconfig+".new", kubeconfig); err != nil {
			t.Fatal(err)
		}
	}
	// The file comes late, as on a host that just joins.
	node, sink := NewNode("node-1", kubeconfig), newRecorder()
	if _, err := node.Delete(ctx, "default", "a", "u", 1); err == nil {
		t.Error("A deletion without credentials went well")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		node.Run(ctx, sink)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	replace(certificate)
	sink.await(t, "the first view", func() bool { return sink.synced })

	create := func(name, nodeName string) types.UID {
		t.Helper()
		grace := int64(30)
		pod, err := admin.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				NodeName: nodeName, TerminationGracePeriodSeconds: &grace,
				Containers: []corev1.Container{{Name: "c", Image: "i"}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return pod.UID
	}
	seen := func(uid types.UID) func() bool {
		return func() bool { return sink.pods[uid] != nil }
	}
	uid := create("a", "node-1")
	other := create("other", "node-2")
	sink.await(t, "pod a", seen(uid))

	// A pod is found as soon as it is bound, by name and without; others are not.
	for _, name := range []string{"a", ""} {
		if pod, err := node.Find(ctx, "default", name, string(uid)); err != nil || pod == nil || pod.UID != uid {
			t.Errorf("Find %q: %v, %v", name, pod, err)
		}
	}
	for name, id := range map[string]types.UID{"a": "another", "none": uid, "other": other} {
		if pod, err := node.Find(ctx, "default", name, string(id)); err != nil || pod != nil {
			t.Errorf("Find %s with UID %s: %v, %v", name, id, pod, err)
		}
	}

	// Another UID is "gone", and so is a pod that is not there. The pod stays.
	for name, id := range map[string]string{"a": "another", "none": string(uid)} {
		if gone, err := node.Delete(ctx, "default", name, id, 5); err != nil || !gone {
			t.Errorf("Delete %s with UID %s: gone %v, %v", name, id, gone, err)
		}
	}
	// A pod of another node is refused, which is no proof of anything.
	if gone, err := node.Delete(ctx, "default", "other", string(other), 5); err == nil || gone {
		t.Errorf("Delete of another node's pod: gone %v, %v", gone, err)
	}
	// A later, shorter grace counts.
	for _, grace := range []int64{20, 5} {
		if gone, err := node.Delete(ctx, "default", "a", string(uid), grace); err != nil || gone {
			t.Errorf("Delete with grace %d: gone %v, %v", grace, gone, err)
		}
		sink.await(t, "the deletion", func() bool {
			p := sink.pods[uid]
			return p != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == grace
		})
	}
	if err := node.Warn(ctx, "default", "a", string(uid), "MesosTaskReleased", "message"); err != nil {
		t.Error(err)
	}
	events, err := admin.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=a"})
	if err != nil || !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.InvolvedObject.UID == uid }) {
		t.Errorf("No event on the pod: %v", err)
	}
	// By force, as its kubelet is dead.
	if gone, err := node.Delete(ctx, "default", "a", string(uid), 0); err != nil || gone {
		t.Errorf("Delete by force: gone %v, %v", gone, err)
	}
	sink.await(t, "the end of the pod", func() bool { return sink.pods[uid] == nil })

	// New credentials, read while the watch goes on.
	old := node.current.Load()
	replace(append(certificate, "\n# renewed\n"...))
	node.recheck <- struct{}{}
	uid = create("b", "node-1")
	sink.await(t, "pod b", seen(uid))
	deadline := time.Now().Add(20 * time.Second)
	for node.current.Load() == old {
		if time.Now().After(deadline) {
			t.Fatal("The new credentials are not used")
		}
		time.Sleep(10 * time.Millisecond)
	}
	uid = create("c", "node-1")
	sink.await(t, "pod c", func() bool { return sink.synced && sink.pods[uid] != nil && len(sink.pods) == 2 })

	// The API server goes away and comes back.
	if err := c.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	sink.await(t, "the loss of the view", func() bool { return !sink.synced })
	if _, err := node.Delete(ctx, "default", "c", string(uid), 5); err == nil {
		t.Error("A deletion without an API server went well")
	}
	if err := c.APIServer.Start(); err != nil {
		t.Fatal(err)
	}
	sink.await(t, "the view again", func() bool { return sink.synced && len(sink.pods) == 2 })
}

func TestBadKubeconfigs(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"garbage":  "}{",
		"empty":    "",
		"no-cert":  "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://h'}}]\nusers: [{name: u, user: {client-certificate: nowhere.pem, client-key: nowhere.pem}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n",
		"no-token": "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://h'}}]\nusers: [{name: u, user: {tokenFile: nowhere}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Check(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
