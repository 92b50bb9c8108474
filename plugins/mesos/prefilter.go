// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// stateKey is where a cycle's state is kept.
const stateKey fwk.StateKey = Name

// cycleState is what one scheduling cycle knows: the pod's need, and every agent as it was at one moment. It is shared
// between goroutines and never changed; what preemption would give back is added in a copy.
type cycleState struct {
	need     resources.Need
	snapshot *ledger.Snapshot
	now      time.Time
	unknown  bool // offers of the role have yet to come: that there are none says nothing
	given    map[string]given
	removed  map[types.UID]resources.Need // what removed pods gave back
	preempts preemptionView
	table    *nodeTable // nil if there is none
	allFit   bool       // every agent has room for the pod
	whole    bool       // every node has an agent
	scoring  uint64     // what Score is asked for
}

// given is what tasks on a node would give back, or take, if pods were removed or added.
type given struct {
	amounts resources.Amounts
	ports   resources.PortSet
	taken   resources.PortSet // by nominated pods
}

// Clone returns a copy whose given can be changed.
func (c *cycleState) Clone() fwk.StateData {
	made := *c
	made.given, made.removed = maps.Clone(c.given), maps.Clone(c.removed)
	return &made
}

func stateOf(state fwk.CycleState) (*cycleState, *fwk.Status) {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	return data.(*cycleState), nil
}

// Reasons of PreFilter.
const (
	reasonNotSubscribed = "not subscribed with a Mesos master"
	reasonReconciling   = "waiting for the Mesos master to say which tasks are alive"
)

// PreFilter counts the pod's need, registers the pod as waiting, and takes one snapshot for the whole cycle. Filter is
// skipped when every node has an agent with room for the pod, and no room may be kept for another pod.
func (m *Mesos) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	need, err := m.system.needs.of(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	priority := corev1helpers.PodPriority(pod)
	if !m.system.ledger.Connected() {
		m.system.ledger.Expect(pod, need, priority)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonNotSubscribed)
	}
	if !m.system.session.Reconciled() {
		m.system.ledger.Expect(pod, need, priority)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonReconciling)
	}
	return nil, m.begin(ctx, state, pod, nodes, need, priority)
}

// begin begins the cycle of a pod.
func (m *Mesos) begin(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, need resources.Need, priority int32) *fwk.Status {
	snapshot := m.system.ledger.Wait(pod, need, priority)
	if why, settled := m.system.ledger.Settled(pod.UID); !settled {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	c := &cycleState{
		need: need, snapshot: snapshot, now: m.system.clock.Now(),
		unknown: m.system.session.Unknown(need.Role), given: map[string]given{}, removed: map[types.UID]resources.Need{},
	}
	c.scoring = m.system.scorings.of(need, m.args.ScoringStrategy)
	c.table = m.system.tables.of(nodes, snapshot)
	c.allFit, c.whole = snapshot.AllFit(need)
	c.whole = c.whole && c.table != nil && c.table.all
	preempts := m.system.preempts()
	if c.unknown && preempts {
		m.system.ledger.TriedBlind(pod.UID)
	}
	c.preempts = m.system.enterPreemption(ctx, state, pod, snapshot, need, priority)
	state.Write(stateKey, c)
	if c.allFit && c.whole && !m.system.ledger.Contested(pod.UID, preempts) {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// PreFilterExtensions returns the plugin: preemption tries what removing pods would bring.
func (m *Mesos) PreFilterExtensions() fwk.PreFilterExtensions { return m }

// RemovePod gives back what the pod's live task holds on the node's agent, if the preempting pod's role could be offered
// it. A pod without a task of ours gives nothing back: its removal makes no room in Mesos.
func (m *Mesos) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return m.give(state, removed.GetPod(), node, false)
}

// AddPod takes a pod's need from the node: of one that was removed before what its task gave back, of any other, such as
// a nominated one, its need.
func (m *Mesos) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return m.give(state, added.GetPod(), node, true)
}

func (m *Mesos) give(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, take bool) *fwk.Status {
	c, status := stateOf(state)
	if status != nil {
		return status
	}
	name := node.Node().Name
	g := c.given[name]
	if !take {
		t, held := m.system.ledger.Task(pod.UID)
		if !held || !t.State.Sent() || t.Need.Role != c.need.Role || t.Need.Revocable != c.need.Revocable {
			return nil
		}
		c.removed[pod.UID] = t.Need // the task may end before the pod is added again
		g.amounts, g.ports = g.amounts.Add(t.Need.Amounts), g.ports.Union(resources.PortsOf(t.Need.Ports...))
		c.given[name] = g
		return nil
	}
	need, removed := c.removed[pod.UID]
	delete(c.removed, pod.UID)
	if !removed {
		if !m.system.ours(pod.Spec.SchedulerName) || pod.Spec.NodeName != "" {
			return nil
		}
		var err error
		if need, err = m.system.needs.of(pod); err != nil || need.Role != c.need.Role || need.Revocable != c.need.Revocable {
			return nil
		}
	}
	g.amounts = g.amounts.Sub(need.Amounts)
	if ports := resources.PortsOf(need.Ports...); removed {
		g.ports = g.ports.Minus(ports)
	} else {
		g.taken = g.taken.Union(ports)
	}
	c.given[name] = g
	return nil
}
