// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
)

// Filter compares the pod's need with the headroom of the node's agent in the cycle's snapshot. It takes no lock, and
// allocates nothing for a node that fits.
func (m *Mesos) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	c, status := stateOf(state)
	if status != nil {
		return status
	}
	name := nodeInfo.Node().Name
	g := c.given[name]
	reason := c.snapshot.Node(name).FitWith(c.need, m.system.lead, c.now, g.amounts, g.ports)
	if reason == ledger.Fits {
		return nil
	}
	return fwk.NewStatus(codeOf(reason, c.unknown), string(reason))
}

// codeOf says whether evicting pods of the node could help. Only room that was seen to be too small, since offers were
// last asked for, may cost a victim.
func codeOf(reason ledger.Reason, unknown bool) fwk.Code {
	switch reason {
	case ledger.ReasonCPUs, ledger.ReasonMem, ledger.ReasonDisk, ledger.ReasonGPUs, ledger.ReasonPorts, ledger.ReasonNoOffer:
		if !unknown {
			return fwk.Unschedulable
		}
	}
	return fwk.UnschedulableAndUnresolvable
}
