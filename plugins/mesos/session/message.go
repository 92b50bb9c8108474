// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// message takes what an executor of ours says of its agent. Messages are not acknowledged, and executors repeat them.
func (s *Session) message(ctx context.Context, m *scheduler.Event_Message) {
	if m == nil {
		return
	}
	report, err := taskinfo.ParseReport(m.Data)
	if _, ours := taskinfo.ParseExecutorID(m.ExecutorID.Value); !ours || err != nil {
		klog.FromContext(ctx).V(2).Info("Ignored a message of an executor", "agent", m.AgentID.Value, "executor", m.ExecutorID.Value, "err", err)
		return
	}
	s.ledger.Told(m.AgentID.Value, resources.Amounts{CPUs: report.CPUs, Mem: report.Mem, Disk: report.Disk})
}
