// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// A podEvent is one state of a pod as the API server stored it.
type podEvent struct {
	at  time.Time
	pod *corev1.Pod
	// gone says that the pod was taken out of the store; pod is its last state.
	gone bool
}

// A podHistory is all states of one pod, oldest first.
type podHistory struct {
	uid    string
	events []podEvent
}

func (h *podHistory) last() podEvent { return h.events[len(h.events)-1] }

// name is the pod's name.
func (h *podHistory) name() string { return h.events[0].pod.Name }

// since returns when the pod first was in a state, nil if it never was.
func (h *podHistory) since(is func(podEvent) bool) *podEvent {
	for i := range h.events {
		if is(h.events[i]) {
			return &h.events[i]
		}
	}
	return nil
}

func bound(e podEvent) bool    { return e.pod.Spec.NodeName != "" }
func deleting(e podEvent) bool { return e.gone || e.pod.DeletionTimestamp != nil }
func stopped(e podEvent) bool {
	return e.gone || e.pod.Status.Phase == corev1.PodSucceeded || e.pod.Status.Phase == corev1.PodFailed
}

// recorder follows the pods of a namespace in etcd. It sees every state that was ever stored, also while the API server
// is away, which a watch of the API server does not promise.
type recorder struct {
	mu     sync.Mutex
	pods   map[string]*podHistory
	order  []*podHistory
	byKey  map[string]*podHistory // by etcd key, the one that is stored now
	failed error
}

// record starts a recorder that works until ctx ends. What it was asked to see is seen from its return on.
func record(ctx context.Context, c *cluster.Cluster, namespace string) (*recorder, error) {
	r := &recorder{pods: map[string]*podHistory{}, byKey: map[string]*podHistory{}}
	url, err := etcdURL(c)
	if err != nil {
		return nil, err
	}
	prefix := []byte("/registry/pods/" + namespace + "/")
	end := slices.Clone(prefix)
	end[len(end)-1]++
	body, err := json.Marshal(map[string]any{"create_request": map[string]any{"key": prefix, "range_end": end}})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v3/watch", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("watch etcd: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("watch etcd: %s", response.Status)
	}
	decoder := json.NewDecoder(response.Body)
	var created watchAnswer
	if err := decoder.Decode(&created); err != nil || !created.Result.Created {
		response.Body.Close()
		return nil, fmt.Errorf("watch etcd: %+v: %w", created, errors.Join(err, errors.New("the watch was not created")))
	}
	go func() {
		defer response.Body.Close()
		err := r.follow(decoder)
		r.mu.Lock()
		defer r.mu.Unlock()
		if ctx.Err() == nil {
			r.failed = err
		}
	}()
	return r, nil
}

// etcdURL finds where etcd listens among its flags.
func etcdURL(c *cluster.Cluster) (string, error) {
	for _, arg := range c.Etcd.Args {
		if url, ok := strings.CutPrefix(arg, "--listen-client-urls="); ok {
			return url, nil
		}
	}
	return "", errors.New("etcd has no --listen-client-urls")
}

// watchAnswer is one message of etcd's JSON gateway; []byte fields are base64 there.
type watchAnswer struct {
	Result struct {
		Created      bool   `json:"created"`
		Canceled     bool   `json:"canceled"`
		CancelReason string `json:"cancel_reason"`
		Events       []struct {
			Type string `json:"type"` // empty: PUT
			KV   struct {
				Key   []byte `json:"key"`
				Value []byte `json:"value"`
			} `json:"kv"`
		} `json:"events"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

func (r *recorder) follow(decoder *json.Decoder) error {
	for {
		var answer watchAnswer
		if err := decoder.Decode(&answer); err != nil {
			return fmt.Errorf("watch etcd: %w", err)
		}
		if answer.Result.Canceled || len(answer.Error) > 0 {
			return fmt.Errorf("watch etcd: ended: %s %s", answer.Result.CancelReason, answer.Error)
		}
		now := time.Now()
		for _, e := range answer.Result.Events {
			if err := r.note(now, string(e.KV.Key), e.KV.Value, e.Type == "DELETE"); err != nil {
				return err
			}
		}
	}
}

func (r *recorder) note(at time.Time, key string, value []byte, gone bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if gone {
		if h := r.byKey[key]; h != nil {
			h.events = append(h.events, podEvent{at: at, pod: h.last().pod, gone: true})
			delete(r.byKey, key)
		}
		return nil
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("%s: a %T", key, object)
	}
	uid := string(pod.UID)
	h := r.pods[uid]
	if h == nil {
		h = &podHistory{uid: uid}
		r.pods[uid] = h
		r.order = append(r.order, h)
	}
	r.byKey[key] = h
	h.events = append(h.events, podEvent{at: at, pod: pod})
	return nil
}

// histories returns all pods that were ever stored, oldest first. The error says that the record is not whole.
func (r *recorder) histories() ([]*podHistory, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*podHistory, len(r.order))
	for i, h := range r.order {
		out[i] = &podHistory{uid: h.uid, events: slices.Clone(h.events)}
	}
	if errors.Is(r.failed, io.EOF) {
		return out, io.ErrUnexpectedEOF
	}
	return out, r.failed
}

// present returns the pods that are stored now.
func (r *recorder) present() []*corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*corev1.Pod
	for _, h := range r.order {
		if e := h.last(); !e.gone {
			out = append(out, e.pod)
		}
	}
	return out
}
