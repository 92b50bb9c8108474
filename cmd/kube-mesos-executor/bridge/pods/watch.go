// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// credentialsPeriod is how often the credentials are compared with the files that they came from.
const credentialsPeriod = 5 * time.Second

// Sink is told of the pods of the node. Calls come one at a time.
type Sink interface {
	// Replaced gives all pods of the node.
	Replaced(pods []*corev1.Pod)
	// Seen gives a pod that is new or changed, Gone one whose object was removed.
	Seen(pod *corev1.Pod)
	Gone(pod *corev1.Pod)
	// Synced says whether what was told is current: false while the API server cannot be reached.
	Synced(bool)
}

// Node watches and deletes the pods of one node.
type Node struct {
	name       string
	kubeconfig string
	current    atomic.Pointer[credentials]
	heard      atomic.Pointer[time.Time]
	recheck    chan struct{}
}

// NewNode returns a Node that takes its credentials from the kubeconfig at the given path.
func NewNode(name, kubeconfig string) *Node {
	return &Node{name: name, kubeconfig: kubeconfig, recheck: make(chan struct{}, 1)}
}

// Heard returns when the API server last said anything of this node's pods; zero if it never has.
func (n *Node) Heard() time.Time {
	if t := n.heard.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

func (n *Node) hear() {
	now := time.Now()
	n.heard.Store(&now)
}

// errNoCredentials says that there was no usable kubeconfig yet.
var errNoCredentials = errors.New("no usable kubeconfig yet")

func (n *Node) client() (kubernetes.Interface, error) {
	c := n.current.Load()
	if c == nil {
		return nil, errNoCredentials
	}
	return c.client, nil
}

// Run tells sink of the node's pods until ctx ends. Whenever the credentials change, it starts over with the new ones.
func (n *Node) Run(ctx context.Context, sink Sink) {
	logger := klog.FromContext(ctx)
	ticker := time.NewTicker(credentialsPeriod)
	defer ticker.Stop()
	stop := func() {}
	defer func() {
		stop()
		if c := n.current.Load(); c != nil {
			c.close()
		}
	}()
	for {
		old := n.current.Load()
		_, sum, err := loadConfig(n.kubeconfig)
		if err == nil && (old == nil || old.fingerprint != sum) {
			var fresh *credentials
			if fresh, err = newCredentials(n.kubeconfig); err == nil {
				stop()
				n.current.Store(fresh)
				if old != nil {
					logger.Info("Credentials changed, watching with the new ones", "kubeconfig", n.kubeconfig)
					old.close()
				}
				stop = n.start(ctx, fresh.client, sink)
			}
		}
		if err != nil {
			logger.Error(err, "Cannot read the node's credentials, going on with the last ones", "have", old != nil)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-n.recheck:
		}
	}
}

// start watches with one client. The function that it returns ends that and waits for the end.
func (n *Node) start(ctx context.Context, client kubernetes.Interface, sink Sink) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	store := &store{sink: sink, heard: n.hear}
	// Once the watch has ended, pods may be missed until the next call succeeds.
	note := func(err error, ok func()) {
		switch {
		case err == nil:
			n.hear()
			ok()
		case ctx.Err() == nil:
			store.synced(false)
			if apierrors.IsUnauthorized(err) {
				select {
				case n.recheck <- struct{}{}:
				default:
				}
			}
		}
	}
	selector := fields.OneTermEqualSelector("spec.nodeName", n.name).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
			note(err, func() {})
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			w, err := client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, o)
			note(err, func() { store.synced(true) })
			return w, err
		},
	}
	logger := klog.FromContext(ctx)
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, client), &corev1.Pod{}, store,
		cache.ReflectorOptions{
			Name:    "pods of this node",
			Logger:  &logger,
			Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Cap: 2 * time.Second, Steps: 5, Factor: 2, Jitter: 0.5},
		})
	var wg sync.WaitGroup
	wg.Go(func() { reflector.RunWithContext(ctx) })
	return func() {
		cancel()
		wg.Wait()
		sink.Synced(false)
	}
}

// store hands what the reflector learns to the sink, instead of keeping it.
type store struct {
	mu      sync.Mutex
	sink    Sink
	heard   func()
	listed  bool
	current bool // what the sink was told last
}

func (s *store) synced(ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok != s.current && (!ok || s.listed) {
		s.current = ok
		s.sink.Synced(ok)
	}
}

// Replace is called with each complete list.
func (s *store) Replace(objects []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, o := range objects {
		if pod, ok := o.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	s.sink.Replaced(pods)
	s.listed, s.current = true, true
	s.sink.Synced(true)
	return nil
}

func (s *store) Add(o any) error { return s.Update(o) }

func (s *store) Update(o any) error {
	if pod, ok := o.(*corev1.Pod); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sink.Seen(pod)
	}
	return nil
}

func (s *store) Delete(o any) error {
	if pod, ok := o.(*corev1.Pod); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sink.Gone(pod)
	}
	return nil
}

func (s *store) Resync() error { return nil }

// UpdateResourceVersion is called with each event of the watch, also with a bookmark.
func (s *store) UpdateResourceVersion(string) { s.heard() }
