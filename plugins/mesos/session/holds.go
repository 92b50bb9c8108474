// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
)

// shapeHolds sends the ACCEPTs that only give back or make reservations. The answer says nothing of whether the master did
// what they ask for; the next offers of the agent do.
func (s *Session) shapeHolds(ctx context.Context) {
	for _, b := range s.ledger.Reshape() {
		err := s.Accept(ctx, b.Pool.Role, b.OfferIDs, b.Operations(nil))
		klog.FromContext(ctx).V(2).Info("Changed reservations for gangs", "agent", b.AgentID, "role", b.Pool.Role, "unreserved", len(b.Unreserve), "reserved", len(b.Reserve), "err", err)
		switch {
		case err == nil:
			s.ledger.Sent(b)
		case mesosapi.Ambiguous(err):
			s.ledger.Unclear(b)
			s.economy.giveBack(b.OfferIDs) // there is no task to settle it by: the offers may be outstanding still
		default:
			s.ledger.NotSent(b)
		}
	}
}

// giveBack declines offers without a filter.
func (e *economy) giveBack(offerIDs []string) {
	e.mu.Lock()
	e.failed = append(e.failed, declined{offerIDs, 0})
	e.mu.Unlock()
	e.nudge()
}
