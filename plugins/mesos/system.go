// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	mesosproto "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/history"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/launcher"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/lifecycle"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/nodes"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/session"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// System is what all profiles of one process share: one Mesos framework, one ledger, and what keeps both in step with
// Kubernetes. It is inert until Lead.
type System struct {
	mu      sync.Mutex
	args    *config.MesosArgs
	handles map[string]fwk.Handle // by profile
	handle  fwk.Handle            // of the first profile: the queue, the client and the informers are everybody's
	ended   atomic.Bool
	leads   atomic.Bool
	mayLead func() error

	clock     clock.WithTicker
	bindings  *semaphore.Weighted // in flight
	tables    nodeTables
	scorings  scorings
	lead      time.Duration // before a maintenance window
	needs     *needs
	pods      corelisters.PodLister
	nodes     corelisters.NodeLister
	synced    []cache.InformerSynced
	ledger    *ledger.Ledger
	launcher  *launcher.Launcher
	session   *session.Session
	launches  *session.LaunchLog
	lifecycle *lifecycle.Lifecycle
	syncer    *nodes.Syncer
	capacity  *nodes.Capacity
	identity  session.ConfigMapIdentity
	history   *history.History
	debug     *debug.Server
	gangs     gangs

	preemptions preemptions
	preempting  struct { // see preempts
		once sync.Once
		may  bool
	}
}

// NewSystem returns a System without profiles.
func NewSystem() *System {
	return &System{handles: map[string]fwk.Handle{}, clock: clock.RealClock{}, bindings: semaphore.NewWeighted(maxBindings), preemptions: newPreemptions(clock.RealClock{})}
}

// Times that are no options.
const (
	returnTime   = 2 * time.Second  // two allocation intervals of a master at its default
	backing      = 3 * time.Second  // a claim without an offer behind it is given up after
	killRepeat   = 5 * time.Second  // between two KILLs of one task
	killPatience = 10 * time.Second // for the executor to report the end of a pod that is gone
)

// join adds a profile. The first one makes everything; the others must ask for the same.
func (s *System) join(ctx context.Context, args *config.MesosArgs, handle fwk.Handle) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.args != nil {
		other := args.DeepCopy()
		other.ScoringStrategy = s.args.ScoringStrategy // the one setting that a profile has for itself
		if !apiequality.Semantic.DeepEqual(s.args, other) {
			return errors.New("its MesosArgs differ from those of another profile: all profiles of one process share one Mesos framework, so that only scoringStrategy may differ")
		}
		s.handles[handle.ProfileName()] = handle
		return nil
	}
	if err := s.build(args, handle); err != nil {
		return err
	}
	s.args, s.handle = args, handle
	s.handles[handle.ProfileName()] = handle
	metrics.Register()
	klog.FromContext(ctx).V(2).Info("Built the Mesos framework; it subscribes when this process leads", "masters", len(args.Masters), "framework", args.FrameworkName)
	return nil
}

func (s *System) build(args *config.MesosArgs, handle fwk.Handle) error {
	informers := handle.SharedInformerFactory().Core().V1()
	pods, nodeInformer, namespaces := informers.Pods(), informers.Nodes(), informers.Namespaces()
	s.pods, s.nodes = pods.Lister(), nodeInformer.Lister()
	s.synced = []cache.InformerSynced{pods.Informer().HasSynced, nodeInformer.Informer().HasSynced, namespaces.Informer().HasSynced}
	if err := lifecycle.AddIndex(pods.Informer()); err != nil {
		return err
	}
	var err error
	if s.needs, err = newNeeds(args, namespaces.Lister()); err != nil {
		return err
	}
	client, err := newClient(args)
	if err != nil {
		return err
	}
	mapping := nodes.Mapping{Source: nodes.Source(args.NodeMapping.Source), Label: args.NodeMapping.Label, StripDomain: args.NodeMapping.StripDomain}
	if err := indexNodes(nodeInformer.Informer(), &mapping); err != nil {
		return err
	}
	s.lead = args.MaintenanceLeadTime.Duration
	executor := executorOf(args)
	s.history = history.New(s.clock)
	s.ledger = ledger.New(ledger.Options{
		Clock: s.clock, NodeName: mapping.NodeName, Executor: executor, ReturnTime: returnTime, Observe: s.history.Observe,
	})
	s.identity = session.ConfigMapIdentity{Client: handle.ClientSet(), Namespace: args.StateConfigMap.Namespace, Name: args.StateConfigMap.Name}
	s.launches = session.NewLaunchLog(handle.ClientSet(), args.StateConfigMap.Namespace, args.StateConfigMap.Name, s.clock, s.ledger.InFlight)
	s.launches.MayLead = s.may
	roles := make([]string, len(args.Roles))
	for i, r := range args.Roles {
		roles[i] = r.Name
	}
	s.session = session.New(session.Options{
		Clock: s.clock, Client: client, Framework: frameworkOf(args, roles), Roles: roles, Identity: s.identity, MayLead: s.may,
		Economy: session.Economy{
			IdleAfter: args.IdleAfter.Duration, IdleRefuse: args.IdleRefuse.Duration, ShortRefuse: args.ShortRefuse.Duration,
			OfferHold: args.OfferHold.Duration, MaintenanceLead: s.lead, AcceptInverse: args.InverseOffers == config.InverseOffersDrain,
		},
		ReconcileInterval: args.ReconcileInterval.Duration, KillRepeat: killRepeat, KillPatience: killPatience, LaunchLimit: args.LaunchTimeout.Duration,
		ExecutorIdle: args.Executor.IdleTimeout.Duration, ExecutorMaxTasks: int(args.Executor.MaxTasks),
	}, session.Hooks{
		OnChange: func(c ledger.Change) { s.lifecycle.OnChange(c) },
		Kick:     func() { s.launcher.Kick() },
		OnFrameworkGone: func(tasks []ledger.Task) {
			s.lifecycle.OnFrameworkGone(tasks)
		},
		OnInverseOffer: func(agentID string, window ledger.Unavailability, every time.Duration) {
			s.lifecycle.OnInverseOffer(agentID, window, every)
		},
		Bound: s.bound, Match: s.matcher, Usable: s.usable, Activate: s.activate,
	}, s.ledger)
	s.launcher = launcher.New(launcher.Options{
		Clock: s.clock, Executor: executor, Window: args.BatchWindow.Duration, MaxTasks: int(args.MaxBatchTasks),
		Timeout: args.LaunchTimeout.Duration, Backing: backing, Retries: int(args.LaunchRetries), OnLimitsRefused: s.limitsRefused,
	}, s.ledger, s.session, s.launches)
	s.lifecycle = lifecycle.New(lifecycle.Options{
		Clock: s.clock, Client: handle.ClientSet(), Pods: pods.Informer(), Nodes: s.nodes, Recorder: s.recorder(handle.EventRecorder()),
		Ours: s.ours, NeedOf: s.needs.of, Activate: s.activate,
		ReholdTimeout: args.ReholdTimeout.Duration, UnreachableTimeout: args.UnreachableTimeout.Duration, OrphanGrace: args.OrphanGracePeriod.Duration, MaxOrphans: int(args.MaxOrphanKills),
		Drain: args.InverseOffers == config.InverseOffersDrain, MaintenanceLead: s.lead,
		Released: s.released, HowToRelease: s.howToRelease,
	}, s.ledger, s.launcher, identified{s.session})
	s.syncer = &nodes.Syncer{Clock: s.clock, Client: handle.ClientSet(), Nodes: s.nodes, Agents: s.ledger.Agents, AttributeLabels: args.AttributeLabels, Lead: s.lead, Ready: s.session.Reconciled}
	s.capacity = &nodes.Capacity{
		Clock: s.clock, Client: handle.ClientSet(), Nodes: s.nodes, Pods: s.pods, Agents: s.ledger.Agents, Held: s.held,
		Recorder: handle.EventRecorder(), Ready: s.session.Reconciled,
	}
	s.debug, err = s.newDebug(args)
	return err
}

// identified is what lifecycle sees of the session.
type identified struct{ *session.Session }

func (i identified) FrameworkID() string { return i.Status().FrameworkID }

func executorOf(args *config.MesosArgs) taskinfo.Executor {
	e := taskinfo.Executor{
		Path: args.Executor.Path, Kubeconfig: args.Executor.Kubeconfig, Amounts: amounts(args.Executor.CPU, args.Executor.Memory),
		BindTimeout: args.Executor.BindTimeout.Duration, ForceDeleteAfter: args.Executor.ForceDeleteAfter.Duration,
		KillMargin: args.Executor.KillMargin.Duration, ShutdownGracePeriod: args.Executor.ShutdownGracePeriod.Duration, User: args.User,
	}
	for _, v := range args.Executor.Environment {
		e.Environment = append(e.Environment, taskinfo.EnvironmentVariable{Name: v.Name, Value: v.Value})
	}
	return e
}

// amounts returns a cpu and a memory quantity in thousandths.
func amounts(cpu, memory resource.Quantity) resources.Amounts {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: cpu, v1.ResourceMemory: memory},
	}}}}}
	return resources.NeedOf(pod, resources.Amounts{}).Amounts
}

func frameworkOf(args *config.MesosArgs, roles []string) mesosproto.FrameworkInfo {
	capability := func(t mesosproto.FrameworkInfo_Capability_Type) mesosproto.FrameworkInfo_Capability {
		return mesosproto.FrameworkInfo_Capability{Type: t}
	}
	timeout, checkpoint, hostname := args.FailoverTimeout.Seconds(), true, args.Hostname
	if hostname == "" {
		hostname, _ = os.Hostname()
	}
	info := mesosproto.FrameworkInfo{
		User: args.User, Name: args.FrameworkName, FailoverTimeout: &timeout, Checkpoint: &checkpoint, Roles: roles,
		Capabilities: []mesosproto.FrameworkInfo_Capability{
			capability(mesosproto.FrameworkInfo_Capability_PARTITION_AWARE),
			capability(mesosproto.FrameworkInfo_Capability_TASK_KILLING_STATE),
			capability(mesosproto.FrameworkInfo_Capability_MULTI_ROLE),
			capability(mesosproto.FrameworkInfo_Capability_RESERVATION_REFINEMENT),
			capability(mesosproto.FrameworkInfo_Capability_REGION_AWARE),
		},
	}
	if args.Revocable {
		info.Capabilities = append(info.Capabilities, capability(mesosproto.FrameworkInfo_Capability_REVOCABLE_RESOURCES))
	}
	if args.GPUs {
		info.Capabilities = append(info.Capabilities, capability(mesosproto.FrameworkInfo_Capability_GPU_RESOURCES))
	}
	if hostname != "" {
		info.Hostname = &hostname
	}
	if args.WebUIURL != "" {
		url := args.WebUIURL
		info.WebUiURL = &url
	}
	if args.Authentication.Principal != "" {
		principal := args.Authentication.Principal
		info.Principal = &principal
	}
	return info
}

// indexNodes lets the mapping find nodes by address or label.
func indexNodes(informer cache.SharedIndexInformer, m *nodes.Mapping) error {
	property := map[nodes.Source]string{nodes.Address: nodes.AddressProperty, nodes.Label: nodes.LabelProperty}[m.Source]
	if property == "" {
		return nil
	}
	const index = "kube-mesos.io/agent"
	err := informer.AddIndexers(cache.Indexers{index: func(obj any) ([]string, error) {
		if node, ok := obj.(*v1.Node); ok {
			return nodes.Properties(node, property, m.Label), nil
		}
		return nil, nil
	}})
	m.Find = func(_, value string) []string {
		keys, err := informer.GetIndexer().IndexKeys(index, value)
		if err != nil {
			return nil
		}
		return keys
	}
	return err
}

// newClient makes the client of the Mesos master; it opens no connection.
func newClient(args *config.MesosArgs) (*mesosapi.Client, error) {
	c := mesosapi.Config{Masters: args.Masters}
	if t := args.TLS; t != nil {
		files := mesosapi.TLSFiles{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
		if t.MinVersion == "1.3" {
			files.MinVersion = tls.VersionTLS13
		}
		var err error
		if c.TLS, err = files.Config(); err != nil {
			return nil, fmt.Errorf("args.tls: %w", err)
		}
	}
	if a := args.Authentication; a.SecretFile != "" || a.BearerTokenFile != "" {
		c.Credential = mesosapi.FileCredential(a.Principal, a.SecretFile, a.BearerTokenFile)
	}
	return mesosapi.New(c)
}

// ours says whether pods with a scheduler name are this process's.
func (s *System) ours(schedulerName string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handles[schedulerName] != nil
}

// bound counts the pods that are bound by us.
func (s *System) bound() int {
	n := 0
	for _, t := range s.ledger.Tasks() {
		if t.Bound && t.State != ledger.Terminal {
			n++
		}
	}
	return n
}

// limitsRefused tells that an agent enforces no limits.
func (s *System) limitsRefused(ctx context.Context, t ledger.Task) {
	klog.FromContext(ctx).Info("A Mesos agent refuses tasks with limits; its tasks are launched without them", "agent", t.AgentID, "node", t.Node, "status", t.Last)
	if pod, err := s.pods.Pods(t.Namespace).Get(t.Name); err == nil {
		s.recorder(s.handleOf(pod).EventRecorder()).Eventf(pod, nil, v1.EventTypeWarning, "MesosTaskLimitsRefused", "Binding",
			"the Mesos agent of node %s refuses tasks with limits (%s); tasks are launched there without them, the kubelet enforces the pods' limits all the same", t.Node, cutString(t.Last.Message, 300))
	}
}

// held says whether a task of ours holds a pod's resources, or is to.
func (s *System) held(pod *v1.Pod) bool {
	if !s.ours(pod.Spec.SchedulerName) {
		return false
	}
	_, ok := s.ledger.Task(pod.UID)
	return ok
}

// usable says whether a node exists and is not cordoned: pods can be put there at all.
func (s *System) usable(nodeName string) bool {
	node, err := s.nodes.Get(nodeName)
	return err == nil && !node.Spec.Unschedulable
}

// match says whether a node exists and a pod's own rules allow it.
func (s *System) match(pod *v1.Pod, nodeName string) bool { return s.matcher(pod)(nodeName) }

// matcher returns what says whether a node exists and a pod's own rules allow it: its node selector and affinity, the node's
// taints and whether it is cordoned.
func (s *System) matcher(pod *v1.Pod) func(nodeName string) bool {
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	logger := klog.Background()
	cordoned := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	keepsOff := func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}
	return func(nodeName string) bool {
		node, err := s.nodes.Get(nodeName)
		if err != nil {
			return false
		}
		if node.Spec.Unschedulable && !corev1helpers.TolerationsTolerateTaint(logger, pod.Spec.Tolerations, &cordoned, false) {
			return false
		}
		if ok, err := affinity.Match(node); err != nil || !ok {
			return false
		}
		_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(logger, node.Spec.Taints, pod.Spec.Tolerations, keepsOff, false)
		return !untolerated
	}
}

// activate wakes pods. The queue is that of all profiles.
func (s *System) activate(pods []*v1.Pod) {
	m := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		m[string(pod.UID)] = pod
	}
	s.handle.Activate(klog.Background(), m)
}

func (s *System) released(ctx context.Context, stop time.Time) (bool, error) {
	cm, err := s.handle.ClientSet().CoreV1().ConfigMaps(s.identity.Namespace).Get(ctx, s.identity.Name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	return cm.Annotations[wellknown.ReleaseStopAnnotation] == stop.UTC().Format(time.RFC3339), nil
}

func (s *System) howToRelease(stop time.Time) string {
	return fmt.Sprintf("ConfigMap %s/%s with %s=%s", s.identity.Namespace, s.identity.Name, wellknown.ReleaseStopAnnotation, stop.UTC().Format(time.RFC3339))
}

// LeadWhile sets what says whether this process may still lead: without an error nobody else does. It is asked before
// each subscription, which takes the framework from whoever holds it. It must be called before Lead.
func (s *System) LeadWhile(may func() error) { s.mayLead = may }

func (s *System) may() error {
	if s.mayLead == nil {
		return nil // there is no leader election
	}
	return s.mayLead()
}

// Used says whether any profile enables the plugin.
func (s *System) Used() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.args != nil
}

// End says that the process is about to end on purpose: what is in flight is left for the next leader.
func (s *System) End() { s.ended.Store(true) }

func (s *System) ending() bool { return s.ended.Load() }

// Lead takes over what an earlier leader has left, subscribes, and works until ctx ends. It returns
// session.ErrFailedOver when another instance has taken over the framework.
func (s *System) Lead(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return ctx.Err()
	}
	s.holdGangs(ctx)
	if err := s.takeOver(ctx); err != nil {
		return err
	}
	s.leads.Store(true)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { s.launcher.Run(ctx); return nil })
	group.Go(func() error { return s.launches.Run(ctx) })
	group.Go(func() error { return s.lifecycle.Run(ctx) })
	group.Go(func() error { return s.session.Run(ctx) })
	group.Go(func() error { return s.syncer.Run(ctx) })
	group.Go(func() error { return s.capacity.Run(ctx) })
	group.Go(func() error { return s.explainLoop(ctx) })
	group.Go(func() error { return s.debug.Run(ctx) })
	return group.Wait()
}

// takeOver brings into the ledger what the leader before has left, as soon as the API server can be had: bound pods, and
// launches in flight. From then on no other process can put a launch on record.
func (s *System) takeOver(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	attempt := func() error {
		id, err := s.identity.Load(ctx)
		if err != nil {
			return err
		}
		flights, err := s.launches.TakeOver(ctx)
		if err != nil {
			return err
		}
		bound := s.lifecycle.Recover(ctx, id)
		launches, err := s.lifecycle.RecoverLaunches(ctx, id, flights)
		if err != nil {
			return err
		}
		logger.Info("Recovered what an earlier leader has left", "frameworkID", id, "boundPods", bound, "launches", launches)
		return nil
	}
	for {
		err := attempt()
		if err == nil {
			return nil
		}
		logger.Error(err, "Cannot take over from an earlier leader yet")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.clock.After(time.Second):
		}
	}
}

// handleOf returns the handle of a pod's profile.
func (s *System) handleOf(pod *v1.Pod) fwk.Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.handles[pod.Spec.SchedulerName]; h != nil {
		return h
	}
	return s.handle
}
