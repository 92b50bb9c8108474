// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// kube-scheduler finds out whether a gang fits by reserving for all its members in one scheduling cycle and giving
// everything back, before it reserves for good. Nothing is launched, reserved or declined for such claims, the pods wait on,
// and their end is no news: the room is what the members were tried with. Otherwise a gang that does not fit would wake itself
// again and again.

// Try is Claim for the time until Withdraw.
func (l *Ledger) Try(pod Pod, need resources.Need, node string) error {
	return l.claim(pod, need, node, true)
}

// Withdraw ends a claim that Try has made. It may be called without one and more than once.
func (l *Ledger) Withdraw(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.pods[uid]
	if t == nil || !t.tentative {
		return
	}
	a := l.agents[t.AgentID]
	grew := a.grew
	l.forget(t)
	a.grew = grew
}
