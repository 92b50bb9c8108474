// SPDX-License-Identifier: Apache-2.0

package ledger

import "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"

// remember keeps the most that was seen of an agent: what it offers now and what our tasks and their executors hold. The
// same resources are never offered and held at once, so it is never more than the agent has. While it is not certain which
// tasks live, nothing is counted.
func (l *Ledger) remember(a *agent) {
	var sum resources.Amounts
	for _, t := range a.tasks {
		if !t.State.Live() {
			return
		}
		if !t.Need.Revocable {
			sum = sum.Add(t.Need.Amounts)
		}
	}
	for _, p := range a.pools {
		if p.key.Revocable {
			continue // Mesos offers these beside the rest
		}
		sum = sum.Add(p.offered.Amounts)
		if p.executor.phase == executorRunning {
			sum = sum.Add(l.options.Executor.Amounts)
		}
		if len(p.offered.Ports) > 0 {
			a.offeredPorts = p.offered.Ports
		}
	}
	a.most = a.most.Max(sum)
}

// Told notes what an executor of ours says that its agent has in all.
func (l *Ledger) Told(agentID string, total resources.Amounts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.agents[agentID]; a != nil && a.total != total {
		a.total = total
		l.touch(a)
	}
}

// Offering says whether an offer for a role is in hand.
func (l *Ledger) Offering(role string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.offers {
		if o.role == role {
			return true
		}
	}
	return false
}
