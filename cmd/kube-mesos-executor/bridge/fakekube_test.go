// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// fakeKube is the part of an API server that the executor uses: list and watch of pods, their deletion with grace and
// UID precondition, and the creation of events.
type fakeKube struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	pods     map[string]*corev1.Pod // by namespace/name
	version  int
	watchers map[chan watchEvent]struct{}
	deletes  []deletion
	events   []corev1.Event
	down     bool
	aborted  int  // calls while down
	lagging  bool // watches tell nothing
	refuse   func(r *http.Request) (int, metav1.StatusReason, string)
	token    string
	changed  chan struct{}
}

type watchEvent struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

type deletion struct {
	name  string
	uid   types.UID
	grace int64
}

func newFakeKube(t *testing.T) *fakeKube {
	k := &fakeKube{t: t, pods: map[string]*corev1.Pod{}, watchers: map[chan watchEvent]struct{}{}, changed: make(chan struct{}), token: "token-1"}
	k.server = httptest.NewUnstartedServer(k)
	k.server.EnableHTTP2 = true
	k.server.StartTLS()
	t.Cleanup(func() {
		k.cut()
		k.server.Close()
	})
	return k
}

// kubeconfig writes a kubeconfig whose token is in a file beside it, and returns both paths.
func (k *fakeKube) kubeconfig() (path, tokenFile string) {
	dir := k.t.TempDir()
	tokenFile = filepath.Join(dir, "token")
	path = filepath.Join(dir, "kubeconfig")
	write(k.t, tokenFile, k.token)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.server.Certificate().Raw})
	write(k.t, path, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {tokenFile: token}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, k.server.URL, base64.StdEncoding.EncodeToString(ca)))
	return path, tokenFile
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (k *fakeKube) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
}

func (k *fakeKube) fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

func (k *fakeKube) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	locked := true
	unlock := func() {
		if locked {
			k.mu.Unlock()
			locked = false
		}
	}
	defer unlock()
	if k.down {
		k.aborted++
		k.wake()
		panic(http.ErrAbortHandler)
	}
	if r.Header.Get("Authorization") != "Bearer "+k.token {
		k.fail(w, 401, metav1.StatusReasonUnauthorized, "Unauthorized")
		return
	}
	if k.refuse != nil {
		if code, reason, message := k.refuse(r); code != 0 {
			k.fail(w, code, reason, message)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events"):
		var e corev1.Event
		k.decode(r, &e)
		k.events = append(k.events, e)
		k.wake()
		_ = json.NewEncoder(w).Encode(e)
	case r.Method == http.MethodDelete:
		k.delete(w, r)
	case q.Get("watch") == "" && q.Get("fieldSelector") != "spec.nodeName=node-1":
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
		selector, err := fields.ParseSelector(q.Get("fieldSelector"))
		if err != nil {
			k.t.Error(err)
			return
		}
		if node, _ := selector.RequiresExactMatch("spec.nodeName"); node != "node-1" {
			k.t.Errorf("A node looks for pods of another: %s", r.URL)
		}
		name, _ := selector.RequiresExactMatch("metadata.name")
		if pod := k.pods["ns/"+name]; pod != nil {
			list.Items = append(list.Items, *pod)
		}
		_ = json.NewEncoder(w).Encode(list)
	case r.URL.Path != "/api/v1/pods" || q.Get("fieldSelector") != "spec.nodeName=node-1":
		k.fail(w, 403, metav1.StatusReasonForbidden, "a node may only list and watch its own pods: "+r.URL.String())
	case q.Get("watch") == "":
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(k.version)}}
		for _, p := range k.pods {
			list.Items = append(list.Items, *p)
		}
		_ = json.NewEncoder(w).Encode(list)
	default:
		ch := make(chan watchEvent, 4096)
		if q.Get("sendInitialEvents") == "true" {
			for _, p := range k.pods {
				ch <- watchEvent{"ADDED", p.DeepCopy()}
			}
			mark := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}}
			mark.ResourceVersion = strconv.Itoa(k.version)
			mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			ch <- watchEvent{"BOOKMARK", mark}
		} else if from, _ := strconv.Atoi(q.Get("resourceVersion")); from < k.version {
			ch <- watchEvent{"ERROR", metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 410, Reason: metav1.StatusReasonExpired}}
		}
		k.watchers[ch] = struct{}{}
		unlock()
		w.(http.Flusher).Flush()
		for {
			select {
			case e, ok := <-ch:
				if !ok {
					return
				}
				_ = json.NewEncoder(w).Encode(e)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				k.mu.Lock()
				delete(k.watchers, ch)
				k.mu.Unlock()
				return
			}
		}
	}
}

func (k *fakeKube) delete(w http.ResponseWriter, r *http.Request) {
	var o metav1.DeleteOptions
	k.decode(r, &o)
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
	key := parts[0] + "/" + parts[2]
	if o.Preconditions == nil || o.Preconditions.UID == nil {
		k.t.Errorf("Pod %s deleted without a UID precondition", key)
		return
	}
	k.deletes = append(k.deletes, deletion{parts[2], *o.Preconditions.UID, *o.GracePeriodSeconds})
	k.wake()
	pod := k.pods[key]
	switch {
	case pod == nil:
		k.fail(w, 404, metav1.StatusReasonNotFound, "pod not found")
		return
	case pod.UID != *o.Preconditions.UID:
		k.fail(w, 409, metav1.StatusReasonConflict, fmt.Sprintf("Operation cannot be fulfilled on Pod %q: the UID in the precondition (%s) does not match the UID in record (%s).", parts[2], *o.Preconditions.UID, pod.UID))
		return
	}
	if *o.GracePeriodSeconds == 0 || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		k.removeLocked(key)
	} else {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Duration(*o.GracePeriodSeconds) * time.Second)}
		pod.DeletionGracePeriodSeconds = o.GracePeriodSeconds
		k.emit("MODIFIED", pod)
	}
	_ = json.NewEncoder(w).Encode(pod)
}

// decode reads a body in whatever form the client chose.
func (k *fakeKube) decode(r *http.Request, into runtime.Object) {
	b, err := io.ReadAll(r.Body)
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(b, nil, into)
	}
	if err != nil {
		k.t.Error(err)
	}
}

// emit tells the watchers. The lock is held.
func (k *fakeKube) emit(kind string, pod *corev1.Pod) {
	k.version++
	pod.ResourceVersion = strconv.Itoa(k.version)
	for ch := range k.watchers {
		if k.lagging {
			break
		}
		ch <- watchEvent{kind, pod.DeepCopy()}
	}
	k.wake()
}

func (k *fakeKube) removeLocked(key string) {
	pod := k.pods[key]
	delete(k.pods, key)
	k.emit("DELETED", pod)
}

// cut ends all watches, as an API server that goes away does.
func (k *fakeKube) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for ch := range k.watchers {
		close(ch)
		delete(k.watchers, ch)
	}
}

func (k *fakeKube) set(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// bind makes a pod appear on the node, bound for the given task.
func (k *fakeKube) bind(name, uid, task string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	grace := int64(30)
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(uid),
			Annotations: map[string]string{wellknown.TaskIDAnnotation: task},
		},
		Spec:   corev1.PodSpec{NodeName: "node-1", TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	k.pods["ns/"+name] = pod
	k.emit("ADDED", pod)
}

// status changes a pod as its kubelet does.
func (k *fakeKube) status(name string, phase corev1.PodPhase) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pod := k.pods["ns/"+name]
	pod.Status.Phase = phase
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	if phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		code := int32(0)
		if phase == corev1.PodFailed {
			code = 3
		}
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, StartedAt: metav1.Now(), FinishedAt: metav1.Now()}}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: state}}
	k.emit("MODIFIED", pod)
}

// remove removes a pod's object.
func (k *fakeKube) remove(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removeLocked("ns/" + name)
}

func (k *fakeKube) await(what string, cond func() bool) {
	k.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		k.mu.Lock()
		ok, changed := cond(), k.changed
		k.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			k.t.Fatalf("Waited in vain for %s", what)
		}
	}
}

// awaitDelete waits until the pod's deletion was asked for and returns the last grace.
func (k *fakeKube) awaitDelete(name string, times int) (grace int64) {
	k.t.Helper()
	k.await("deletion of pod "+name, func() bool {
		n := 0
		for _, d := range k.deletes {
			if d.name == name {
				n++
				grace = d.grace
			}
		}
		return n >= times
	})
	return grace
}
