// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// Overcommit is a host on which Mesos and Kubernetes together give away more than there is.
type Overcommit struct {
	Node, AgentID string
	// Agent is what the Mesos agent gives away: all that it has, once an executor of ours was told, and before that the most
	// that was seen of it, offered to us and held by our tasks and executors at one time.
	Agent resources.Amounts
	// Outside is what pods that are no business of Mesos request on the node: DaemonSets, static pods, other schedulers' pods.
	Outside resources.Amounts
	// Allocatable is what the node has for pods.
	Allocatable resources.Amounts
	// Over is what is given away twice.
	Over resources.Amounts
}

// Advice says what to change.
func (o Overcommit) Advice() string {
	return fmt.Sprintf("the Mesos agent gives away %s, pods outside Mesos request %s, and the node has %s for pods: %s too much. Start the agent with --resources of at most %s, or let fewer pods run there outside Mesos",
		o.Agent, orNothing(o.Outside), o.Allocatable, o.Over, orNothing(o.Allocatable.Sub(o.Outside).Max(resources.Amounts{})))
}

func orNothing(a resources.Amounts) string {
	if a.IsZero() {
		return "nothing"
	}
	return a.String()
}

// Capacity compares what agents give away with what their nodes have.
type Capacity struct {
	Clock  clock.WithTicker
	Client kubernetes.Interface
	Nodes  corelisters.NodeLister
	Pods   corelisters.PodLister
	Agents func() []*ledger.AgentInfo
	// Held says whether a task of ours holds the pod's resources, or is to.
	Held     func(*v1.Pod) bool
	Recorder events.EventRecorder
	// Ready says whether the picture of the tasks is complete.
	Ready func() bool

	counted map[types.UID]counted
	warned  bool // of ports
	limiter *rate.Limiter

	mu   sync.Mutex
	over map[string]Overcommit // by node
}

// counted is a pod's request, as long as the pod does not change.
type counted struct {
	version string
	amounts resources.Amounts
}

// capacityInterval is the time between two comparisons.
const capacityInterval = 10 * time.Second

// Run compares until ctx ends.
func (c *Capacity) Run(ctx context.Context) error {
	ticker := c.Clock.NewTicker(capacityInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			if c.Ready() {
				c.compare(ctx)
			}
		}
	}
}

// Of returns how a node is overcommitted; ok is false if it is not.
func (c *Capacity) Of(node string) (o Overcommit, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok = c.over[node]
	return o, ok
}

func (c *Capacity) compare(ctx context.Context) {
	agents := c.Agents()
	c.ports(ctx, agents)
	outside, err := c.outside()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot list pods")
		return
	}
	over := map[string]Overcommit{}
	serving := map[string]bool{}
	for _, a := range agents {
		if !a.Serves || a.Gone || a.Node == "" {
			continue
		}
		serving[a.Node] = true
		node, err := c.Nodes.Get(a.Node)
		if err != nil {
			continue
		}
		if o, ok := judge(a, outside[a.Node], node); ok {
			over[a.Node] = o
		}
	}
	c.mu.Lock()
	before := c.over
	c.over = over
	c.mu.Unlock()
	var sum resources.Amounts
	for name, o := range over {
		sum = sum.Add(o.Over)
		if old, was := before[name]; !was || old.Over != o.Over {
			klog.FromContext(ctx).Info("A host is overcommitted", "node", name, "agent", o.AgentID, "over", o.Over, "advice", o.Advice())
			if node, err := c.Nodes.Get(name); err == nil && c.pace().Wait(ctx) == nil {
				c.Recorder.Eventf(node, nil, v1.EventTypeWarning, "MesosOvercommit", "Comparing", "%s", o.Advice())
			}
		}
	}
	metrics.OverNodes.WithLabelValues().Set(float64(len(over)))
	for name, n := range map[string]int64{resources.CPUs: sum.CPUs, resources.Mem: sum.Mem, resources.Disk: sum.Disk} {
		metrics.Overcommit.WithLabelValues(name).Set(float64(n) / 1000)
	}
	c.annotate(ctx, over, serving)
}

// pace bounds the writes: on a large cluster that is set up wrongly every node is overcommitted at once.
func (c *Capacity) pace() *rate.Limiter {
	if c.limiter == nil {
		c.limiter = rate.NewLimiter(25, 25)
	}
	return c.limiter
}

// outside adds up what pods without a record of ours request, by node.
func (c *Capacity) outside() (map[string]resources.Amounts, error) {
	pods, err := c.Pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	out := map[string]resources.Amounts{}
	seen := make(map[types.UID]counted, len(c.counted))
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed || c.Held(pod) {
			continue
		}
		k, ok := c.counted[pod.UID]
		if !ok || k.version != pod.ResourceVersion {
			k = counted{pod.ResourceVersion, resources.NeedOf(pod, resources.Amounts{}).Amounts}
		}
		seen[pod.UID] = k
		out[pod.Spec.NodeName] = out[pod.Spec.NodeName].Add(k.amounts)
	}
	c.counted = seen
	return out, nil
}

// judge compares one agent with its node. Resources that the node does not know, or the agent does not have, cannot be given
// away twice.
func judge(a *ledger.AgentInfo, outside resources.Amounts, node *v1.Node) (Overcommit, bool) {
	gives := a.Total
	if gives.IsZero() {
		gives = a.Most
	}
	o := Overcommit{Node: a.Node, AgentID: a.ID, Agent: gives, Outside: outside, Allocatable: resources.AmountsOf(node.Status.Allocatable)}
	one := func(agent, outside, allocatable int64) int64 {
		if agent == 0 || allocatable == 0 {
			return 0
		}
		return max(0, agent+outside-allocatable)
	}
	o.Over = resources.Amounts{
		CPUs: one(gives.CPUs, outside.CPUs, o.Allocatable.CPUs), Mem: one(gives.Mem, outside.Mem, o.Allocatable.Mem), Disk: one(gives.Disk, outside.Disk, o.Allocatable.Disk),
	}
	return o, !o.Over.IsZero()
}

// annotate shows overcommit on nodes, and takes off what is no longer so.
func (c *Capacity) annotate(ctx context.Context, over map[string]Overcommit, serving map[string]bool) {
	nodes, err := c.Nodes.List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot list nodes")
		return
	}
	for _, node := range nodes {
		has, shown := node.Annotations[wellknown.NodeOvercommitAnnotation]
		var want any
		if o, ok := over[node.Name]; ok {
			want = o.Over.String()
		}
		if want == nil && (!shown || !serving[node.Name]) || want == has {
			continue
		}
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{wellknown.NodeOvercommitAnnotation: want}}})
		if err != nil {
			panic(fmt.Sprintf("strings always marshal: %v", err))
		}
		if c.pace().Wait(ctx) != nil {
			return
		}
		if _, err := c.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot show overcommit on a node yet", "node", node.Name, "err", err)
		}
	}
}

// nodePorts is the API server's default for --service-node-port-range. What it is really cannot be asked for.
var nodePorts = resources.NewPortSet(resources.PortRange{Begin: 30000, End: 32767})

// ports warns once that agents offer ports which Services of type NodePort may take on every node.
func (c *Capacity) ports(ctx context.Context, agents []*ledger.AgentInfo) {
	if c.warned {
		return
	}
	for _, a := range agents {
		both := a.OfferedPorts.Intersect(nodePorts)
		if len(both) == 0 {
			continue
		}
		node, err := c.Nodes.Get(a.Node)
		if err != nil {
			continue
		}
		c.warned = true
		message := fmt.Sprintf("Mesos agents offer ports %s, which are in the default range of NodePort Services (%s): a Service may take a port that a pod holds. "+
			"Start the agents with other ports, or the API server with another --service-node-port-range", both, nodePorts)
		klog.FromContext(ctx).Info("Ports of agents and of Services overlap", "agent", a.ID, "advice", message)
		c.Recorder.Eventf(node, nil, v1.EventTypeWarning, "MesosPortsOverlap", "Comparing", "%s", message)
		return
	}
}
