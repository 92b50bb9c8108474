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

// Reserve claims the pod's need on the node's agent in the live ledger. While it is only found out whether a pod group fits,
// the claims are tentative.
func (m *Mesos) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	c, status := stateOf(state)
	if status != nil {
		return status
	}
	claimant := lifecycle.PodOf(pod)
	claim, tries := m.system.ledger.Claim, state.IsPodGroupSchedulingCycle()
	if tries { // whether the pod's gang fits
		claim = m.system.ledger.Try
	} else {
		claimant.Gang = m.heldGang(pod)
	}
	err := claim(claimant, c.need, nodeName)
	switch {
	case err == nil:
		if !tries {
			m.system.preemptions.won(pod)
		}
		return nil
	case errors.Is(err, ledger.ErrNoRoom), errors.Is(err, ledger.ErrUnsettled):
		return fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	return fwk.AsStatus(err)
}

// Unreserve releases a claim that was not sent to Mesos; a task that was, or may have been, is to be killed. It does no
// I/O and may be called without Reserve and more than once. When the process ends it touches nothing: the next leader
// settles what is in flight. A trial of whether a pod group fits is over in any case: kube-scheduler ends it with a context
// that it has cancelled.
func (m *Mesos) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	switch {
	case state != nil && state.IsPodGroupSchedulingCycle():
		m.system.ledger.Withdraw(pod.UID)
	case ctx.Err() == nil && !m.system.ending():
		m.system.ledger.Release(pod.UID)
	}
}
