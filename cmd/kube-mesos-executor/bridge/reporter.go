// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/klog/v2"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/agent"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// A framework message may be lost, and a new leader has heard none: so the report is repeated. Executors of a large cluster
// must not all do that at once.
const (
	reportEvery  = 5 * time.Minute
	reportSpread = time.Minute
	reportAgain  = 10 * time.Second // after one that the agent did not take
)

// reporter tells the scheduler what the agent has in all.
type reporter struct {
	client *agent.Client
	latest chan taskinfo.Report
}

func newReporter(client *agent.Client) *reporter {
	return &reporter{client: client, latest: make(chan taskinfo.Report, 1)}
}

// told notes what the agent has said of itself. The loop alone calls it.
func (r *reporter) told(all []mesos.Resource) {
	select {
	case <-r.latest: // nobody has read that yet
	default:
	}
	r.latest <- taskinfo.ReportOf(all)
}

// run reports until ctx ends.
func (r *reporter) run(ctx context.Context) {
	var report taskinfo.Report
	timer := time.NewTimer(reportEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case report = <-r.latest:
		case <-timer.C:
		}
		next := reportEvery + rand.N(reportSpread)
		if !report.IsZero() {
			if err := r.client.Message(ctx, report.Marshal()); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("Cannot report what the agent has yet", "err", err)
				next = reportAgain
			}
		}
		timer.Reset(next)
	}
}
