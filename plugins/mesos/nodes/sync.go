// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// Syncer shows agents on their nodes.
type Syncer struct {
	Clock  clock.WithTicker
	Client kubernetes.Interface
	Nodes  corelisters.NodeLister
	// Agents returns all agents; the record of one that has not changed is the same as before.
	Agents func() []*ledger.AgentInfo
	// AttributeLabels turns attributes and fault domains into labels.
	AttributeLabels bool
	// Lead is how long before a maintenance window the node is tainted.
	Lead time.Duration
	// Ready says whether the picture of the agents is complete: nothing is taken off nodes before.
	Ready func() bool

	right map[string]right
}

// right is what a node and its agent were when nothing had to change on the node: as long as both are that, nothing has to.
type right struct {
	agent   *ledger.AgentInfo
	version string
}

// interval is the time between looks at the agents, and calmPatches the most nodes that are written in one without trouble:
// when a large cluster is first seen every node may have labels to get.
const (
	interval    = time.Second
	calmPatches = 25
)

// Run keeps the nodes up to date until ctx ends.
func (s *Syncer) Run(ctx context.Context) error {
	ticker := s.Clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			s.sync(ctx)
		}
	}
}

func (s *Syncer) sync(ctx context.Context) {
	if !s.Ready() {
		return
	}
	agents := s.Agents()
	serving := make(map[string]*ledger.AgentInfo, len(agents))
	for _, a := range agents {
		if a.Serves {
			serving[a.Node] = a
		}
	}
	nodes, err := s.Nodes.List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot list nodes")
		return
	}
	before := s.right
	s.right = make(map[string]right, len(nodes))
	calm := 0
	for _, node := range nodes {
		agent, known := serving[node.Name]
		now := right{agent, node.ResourceVersion}
		timed := known && !agent.Unavailable.Start.IsZero()
		if !timed && node.ResourceVersion != "" && before[node.Name] == now {
			s.right[node.Name] = now
			continue
		}
		if !known {
			agent = &ledger.AgentInfo{}
		}
		body := patch(node, agent, known, s.AttributeLabels, s.wantedKeys(agent, known))
		if body == nil {
			s.right[node.Name] = now
			continue
		}
		if agent.Trouble == ledger.NoTrouble {
			if calm++; calm > calmPatches {
				continue // the next rounds come to it: the API server has pods to bind meanwhile
			}
		}
		if _, err := s.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}); err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot show an agent on its node yet", "node", node.Name, "err", err)
		}
	}
}

// patch returns what has to change on a node, nil for nothing. Labels of agents that have made no offer yet are left:
// an agent whose room is all used does not offer for a long time after a restart. They go when the master has removed
// the agent.
func patch(node *v1.Node, agent *ledger.AgentInfo, known, attributeLabels bool, taintKeys []string) []byte {
	changed := map[string]any{}
	if known && attributeLabels && (agent.Hostname != "" || agent.Gone) {
		want := map[string]string{}
		if !agent.Gone {
			want, _ = Labels(agent.Attributes)
			if d := agent.Domain.GetFaultDomain(); d != nil {
				domain(node, want, v1.LabelTopologyRegion, d.Region.Name)
				domain(node, want, v1.LabelTopologyZone, d.Zone.Name)
			}
		}
		for k, v := range want {
			if node.Labels[k] != v {
				changed[k] = v
			}
		}
		for k := range node.Labels {
			if _, ok := want[k]; !ok && strings.HasPrefix(k, wellknown.AttributeLabelPrefix) {
				changed[k] = nil
			}
		}
	}
	taints, other := wantedTaints(node, taintKeys)
	if len(changed) == 0 && !other {
		return nil
	}
	p := map[string]any{"metadata": map[string]any{"labels": changed}}
	if other {
		// The list is atomic: it is replaced whole, so nobody may have changed it since it was read.
		p["metadata"].(map[string]any)["resourceVersion"] = node.ResourceVersion
		p["spec"] = map[string]any{"taints": taints}
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("strings always marshal: %v", err))
	}
	return body
}

func domain(node *v1.Node, want map[string]string, key, name string) {
	if name != "" && node.Labels[key] == "" {
		want[key] = name
	}
}

// taintOf is the taint for each trouble of an agent.
var taintOf = map[ledger.Trouble]string{
	ledger.AgentUnreachable: wellknown.UnreachableTaint,
	ledger.AgentDraining:    wellknown.DrainingTaint,
}

// wantedKeys returns the keys of the taints that a node should have because of its agent.
func (s *Syncer) wantedKeys(agent *ledger.AgentInfo, known bool) []string {
	if !known {
		return nil
	}
	var keys []string
	if key := taintOf[agent.Trouble]; key != "" {
		keys = append(keys, key)
	}
	if !agent.Gone && agent.Unavailable.Covers(s.Clock.Now(), s.Lead) {
		keys = append(keys, wellknown.MaintenanceTaint)
	}
	return keys
}

// ours are the keys of all taints that this package sets and removes.
var ours = []string{wellknown.UnreachableTaint, wellknown.DrainingTaint, wellknown.MaintenanceTaint}

func wantedTaints(node *v1.Node, keys []string) (taints []v1.Taint, changed bool) {
	taints = []v1.Taint{} // none is an empty list, not null
	missing := slices.Clone(keys)
	for _, t := range node.Spec.Taints {
		i := slices.Index(missing, t.Key)
		if i >= 0 {
			missing = slices.Delete(missing, i, i+1)
		} else if slices.Contains(ours, t.Key) {
			changed = true
			continue
		}
		taints = append(taints, t)
	}
	for _, key := range missing {
		taints, changed = append(taints, v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule}), true
	}
	return taints, changed
}
