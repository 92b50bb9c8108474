// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// Filter compares the pod's need with the headroom of the node's agent in the cycle's snapshot. It takes no lock, and
// allocates nothing for a node that fits.
func (m *Mesos) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	c, status := stateOf(state)
	if status != nil {
		return status
	}
	if c.allFit && len(c.given) == 0 && (c.whole || c.view(nodeInfo) != nil) {
		return nil
	}
	name := nodeInfo.Node().Name
	g, view := c.given[name], c.view(nodeInfo)
	reason := view.FitWith(c.need, m.system.lead, c.now, g.amounts, g.ports)
	if reason == ledger.Fits && len(g.taken) > 0 && !portsLeft(view, c.need, g) {
		reason = ledger.ReasonPorts
	}
	if reason == ledger.Fits {
		return nil
	}
	never := c.unknown || c.preempts.off
	if until, ok := c.preempts.paused[name]; ok && c.now.Before(until) {
		never = true
	}
	return fwk.NewStatus(codeOf(reason, never), string(reason))
}

// portsLeft says whether nominated pods leave the host ports that a need asks for.
func portsLeft(v *ledger.View, need resources.Need, g given) bool {
	free := v.Ports(need).Union(g.ports).Minus(g.taken)
	return free.HasAll(need.Ports) && free.Count() >= need.AnyPorts+len(need.Ports)
}

// codeOf says whether evicting pods of the node could help. Only room that was seen to be too small, since offers were
// last asked for, may cost a victim, and not where victims were lately of no use (never).
func codeOf(reason ledger.Reason, never bool) fwk.Code {
	switch reason {
	case ledger.ReasonCPUs, ledger.ReasonMem, ledger.ReasonDisk, ledger.ReasonGPUs, ledger.ReasonPorts, ledger.ReasonNoOffer:
		if !never {
			return fwk.Unschedulable
		}
	}
	return fwk.UnschedulableAndUnresolvable
}
