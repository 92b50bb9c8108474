// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// LastOffer is what the agent offered a need's role when an offer last came. It may be gone or declined since: it tells
// people why a pod waits, and nothing is decided by it. The time is zero if none ever came.
func (v *View) LastOffer(need resources.Need) (resources.Amounts, time.Time) {
	if v == nil {
		return resources.Amounts{}, time.Time{}
	}
	if p := v.pool(poolOf(need)); p != nil {
		return p.last, p.lastAt
	}
	return resources.Amounts{}, time.Time{}
}

// Why is Fit for people: where there is no offer at present because the last one was too small and was declined, it says
// what that one lacked.
func (v *View) Why(need resources.Need, lead time.Duration, now time.Time) Reason {
	reason := v.Fit(need, lead, now)
	if reason != ReasonNoOffer {
		return reason
	}
	switch last, at := v.LastOffer(need); {
	case at.IsZero():
	case need.CPUs > last.CPUs:
		return ReasonCPUs
	case need.Mem > last.Mem:
		return ReasonMem
	case need.Disk > last.Disk:
		return ReasonDisk
	case need.GPUs > last.GPUs:
		return ReasonGPUs
	}
	return reason
}

// ExecutorShare is what the next launch for a need's role takes beside the need: the resources of an executor, none while
// one runs.
func (v *View) ExecutorShare(need resources.Need) resources.Amounts {
	if v == nil {
		return resources.Amounts{}
	}
	if p := v.pool(poolOf(need)); p != nil {
		return p.executor
	}
	return resources.Amounts{}
}
