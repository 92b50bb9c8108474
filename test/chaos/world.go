// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	debugv1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

const masterCount = 3

// Settings that are shorter than in life, so that a run sees every time-out in half a minute.
const (
	offerHold  = 4 * time.Second
	lease      = 3 * time.Second
	killMargin = 20 * time.Second
)

var timing = mesossim.Timing{
	AllocationInterval:   500 * ms,
	Heartbeat:            time.Second,
	PingTimeout:          time.Second,
	MaxPingTimeouts:      3,
	AgentReregister:      6 * time.Second,
	RegistrationBackoff:  300 * ms,
	ExecutorRegistration: 20 * time.Second,
	SubscriptionBackoff:  time.Second,
	UpdateRetryMin:       time.Second,
	UpdateRetryMax:       4 * time.Second,
}

// mesosArgs are merged over the args of the shipped configuration.
var mesosArgs = map[string]any{
	"launchTimeout":     "10s",
	"idleAfter":         "1s",
	"shortRefuse":       "500ms",
	"offerHold":         offerHold.String(),
	"reconcileInterval": "5s",
	// Longer than a run: no fault here lasts so long that a pod may be removed for want of a task.
	"reholdTimeout":     "3m",
	"orphanGracePeriod": "2s",
	"executor": map[string]any{
		"bindTimeout": "30s",
		"killMargin":  killMargin.String(),
		"idleTimeout": "8s",
	},
}

// world is one run's system: its own nodes, agents and schedulers, on the shared API server.
type world struct {
	c         *cluster.Cluster
	options   Options
	journal   *journal
	sim       *mesossim.Cluster
	recorder  *recorder
	size      size
	namespace string
	dir       string
	nodes     []string
	kubelets  map[string]*cluster.Process // by node, where each has one of its own
	audit     int64                       // where the audit log began

	// What lies between the product's programs and the API server, and what hears of calls to Mesos.
	api          *api
	proxy        *cluster.Proxy
	executorURLs map[string]string // by node
	hooks        *callHooks

	schedulers []*cluster.Scheduler
	keepers    sync.WaitGroup
	stopping   chan struct{}
	stop       func()
	bench      sync.Mutex
	benched    map[*cluster.Scheduler]bool // that the keeper must not start for now
}

func newWorld(ctx context.Context, c *cluster.Cluster, seed uint64, dir string, o Options) (*world, error) {
	w := &world{
		c: c, size: kwokSize, kubelets: map[string]*cluster.Process{}, options: o, journal: &journal{}, namespace: fmt.Sprintf("chaos-%d", seed), dir: dir, api: newAPI(fmt.Sprintf("chaos-%d", seed)), hooks: &callHooks{},
		executorURLs: map[string]string{}, stopping: make(chan struct{}), benched: map[*cluster.Scheduler]bool{},
	}
	if o.Hollow {
		w.size = hollowSize
	}
	w.stop = sync.OnceFunc(func() { close(w.stopping) })
	var err error
	if w.audit, err = auditSize(c); err != nil {
		return nil, err
	}
	sim := mesossim.Options{Masters: masterCount, Timing: timing, WorkDir: filepath.Join(dir, "agents"), Seed: int64(seed)}
	for i := range w.size.agents {
		name := fmt.Sprintf("c%d-node-%d", seed, i+1)
		w.nodes = append(w.nodes, name)
		sim.Agents = append(sim.Agents, mesossim.AgentOptions{Name: name, Resources: w.size.resources(), Attributes: fmt.Sprintf("rack:r%d", i%2)})
	}
	if w.sim, err = mesossim.Start(ctx, sim); err != nil {
		return nil, err
	}
	if err := w.start(ctx, seed); err != nil {
		return nil, errors.Join(err, w.end(ctx))
	}
	return w, nil
}

func (w *world) start(ctx context.Context, seed uint64) error {
	if err := w.startNodes(ctx); err != nil {
		return err
	}
	if err := w.openProxy(); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if _, err := w.c.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := cluster.WaitAtMost(ctx, time.Minute, "the default service account", func(ctx context.Context) error {
		_, err := w.c.Client.CoreV1().ServiceAccounts(w.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	var err error
	if w.recorder, err = record(ctx, w.c, w.namespace); err != nil {
		return err
	}
	for _, letter := range []string{"a", "b"} {
		name := w.namespace + "-scheduler-" + letter
		url, err := w.proxy.Listen(clientOf(name))
		if err != nil {
			return err
		}
		s, err := w.c.NewScheduler(ctx, cluster.SchedulerOptions{
			Name: name, Masters: w.sim.URLs(), Mesos: w.mesosArgs(seed, name), LeaseDuration: lease, Args: []string{"--v=4"}, APIServer: url,
			Binary: w.options.program("kube-mesos-scheduler"), Executor: w.options.program("kube-mesos-executor"),
		})
		if err != nil {
			return err
		}
		s.LogFile = filepath.Join(w.dir, "scheduler-"+letter+".log")
		w.schedulers = append(w.schedulers, s)
		if err := s.Start(); err != nil {
			return err
		}
		w.keepers.Go(func() { w.keep(s) })
	}
	return cluster.WaitAtMost(ctx, time.Minute, "a subscription", func(context.Context) error {
		if _, ok := w.framework(); !ok {
			return fmt.Errorf("the master knows no framework; %s", w.schedulers[0].LogTail(5))
		}
		return nil
	})
}

// openProxy puts the proxy between the API server and the executors; each scheduler follows.
func (w *world) openProxy() error {
	var err error
	if w.proxy, err = w.c.NewProxy(w.api.intercept); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(w.executorKubeconfig("")), 0o755); err != nil {
		return err
	}
	for _, node := range w.nodes {
		if w.executorURLs[node], err = w.proxy.Listen(executorOn(node)); err != nil {
			return err
		}
		if err := w.writeExecutorKubeconfig(node, w.c.WriteNodeKubeconfig); err != nil {
			return err
		}
	}
	return nil
}

// mesosArgs are the args of one scheduler.
func (w *world) mesosArgs(seed uint64, name string) map[string]any {
	args := maps.Clone(mesosArgs)
	args["hostname"] = name // by which crash points know whose call it is
	if seed%2 == 1 {
		args["inverseOffers"] = "Drain"
	}
	executor := maps.Clone(args["executor"].(map[string]any))
	executor["kubeconfig"] = w.executorKubeconfig("{node}")
	args["executor"] = executor
	return args
}

func (w *world) startNodes(ctx context.Context) error {
	if w.size.kubelets == hollowSize.kubelets {
		return w.startHollow(ctx)
	}
	var nodes []cluster.Node
	for _, name := range w.nodes {
		nodes = append(nodes, kwokNode(name))
	}
	return w.c.AddKwokNodes(ctx, nodes...)
}

func kwokNode(name string) cluster.Node {
	return cluster.Node{Name: name, CPU: "64", Memory: "256Gi"}
}

// keep starts a scheduler anew whenever it ends, as its Deployment would.
func (w *world) keep(s *cluster.Scheduler) {
	for {
		select {
		case <-s.Done():
		case <-w.stopping:
			return
		}
		w.journal.notef("%s has ended: %s", s.Name, firstLine(s.LogTail(1)))
		for {
			select {
			case <-time.After(300 * ms):
			case <-w.stopping:
				return
			}
			w.bench.Lock()
			away := w.benched[s]
			w.bench.Unlock()
			if !away {
				break
			}
		}
		if err := s.Start(); err != nil {
			w.journal.notef("%s does not start: %v", s.Name, err)
			continue
		}
		w.journal.notef("%s starts", s.Name)
	}
}

func firstLine(s string) string {
	const most = 240
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}

// setBenched keeps a scheduler from being started again, or allows it.
func (w *world) setBenched(s *cluster.Scheduler, away bool) {
	w.bench.Lock()
	defer w.bench.Unlock()
	w.benched[s] = away
}

// leads asks a scheduler whether it leads. It serves to choose whom a fault strikes, and never as proof of anything.
func leads(ctx context.Context, s *cluster.Scheduler) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.StatusURL+debugv1.Root+"/status", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	var state debugv1.Status
	return json.NewDecoder(response.Body).Decode(&state) == nil && state.Leading
}

// end takes everything of the run away.
func (w *world) end(ctx context.Context) error {
	w.stop()
	w.keepers.Wait()
	var errs []error
	for _, s := range w.schedulers {
		errs = append(errs, s.Stop())
	}
	if w.sim != nil {
		w.sim.Close()
	}
	if w.proxy != nil {
		errs = append(errs, w.proxy.Close())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	zero := int64(0)
	now := metav1.DeleteOptions{GracePeriodSeconds: &zero}
	all := metav1.ListOptions{}
	client := w.c.Client
	background := metav1.DeletePropagationBackground
	_ = client.AppsV1().Deployments(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, all)
	_ = client.BatchV1().Jobs(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, all)
	errs = append(errs, cluster.WaitAtMost(ctx, 40*time.Second, "the end of all pods", func(ctx context.Context) error {
		_ = client.CoreV1().Pods(w.namespace).DeleteCollection(ctx, now, all)
		pods, err := client.CoreV1().Pods(w.namespace).List(ctx, all)
		if err != nil || len(pods.Items) == 0 {
			return err
		}
		for _, pod := range pods.Items {
			if len(pod.Finalizers) > 0 {
				_, _ = client.CoreV1().Pods(w.namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			}
		}
		return fmt.Errorf("%d are left", len(pods.Items))
	}))
	for _, p := range w.kubelets {
		errs = append(errs, p.Stop())
	}
	_ = client.CoreV1().Namespaces().Delete(ctx, w.namespace, metav1.DeleteOptions{})
	for _, node := range w.nodes {
		_ = client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})
	}
	_ = client.CoreV1().ConfigMaps(cluster.SchedulerNamespace).Delete(ctx, stateConfigMap, metav1.DeleteOptions{})
	_ = client.CoordinationV1().Leases(cluster.SchedulerNamespace).Delete(ctx, cluster.SchedulerName, metav1.DeleteOptions{})
	return errors.Join(errs...)
}

// program is the path of a product's program.
func (o Options) program(name string) string {
	if o.Binaries == "" {
		return ""
	}
	return filepath.Join(o.Binaries, name)
}

func makeDir(elem ...string) (string, error) {
	dir := filepath.Join(elem...)
	return dir, os.MkdirAll(dir, 0o755)
}
