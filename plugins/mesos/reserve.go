// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/lifecycle"
)

// Reserve claims the pod's need on the node's agent in the live ledger.
func (m *Mesos) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	c, status := stateOf(state)
	if status != nil {
		return status
	}
	err := m.system.ledger.Claim(lifecycle.PodOf(pod), c.need, nodeName)
	switch {
	case err == nil:
		m.system.preemptions.won(pod)
		return nil
	case errors.Is(err, ledger.ErrNoRoom), errors.Is(err, ledger.ErrUnsettled):
		return fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	return fwk.AsStatus(err)
}

// Unreserve releases a claim that was not sent to Mesos; a task that was, or may have been, is to be killed. It does no
// I/O and may be called without Reserve and more than once. When the process ends it touches nothing: the next leader
// settles what is in flight.
func (m *Mesos) Unreserve(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if ctx.Err() == nil && !m.system.ending() {
		m.system.ledger.Release(pod.UID)
	}
}
