// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// drain is a DRAIN_AGENT in force.
type drain struct {
	grace    *time.Duration // nil: tasks keep their own
	markGone bool
	done     bool // DRAINED
	began    time.Time
}

// startDrain takes an agent out of the offers and has it kill its tasks.
func (m *master) startDrain(v *agentView, d *drain) {
	d.began = m.now()
	m.registry.draining[v.id] = d
	v.draining = d
	m.registry.deactivated[v.id] = true
	v.deactivated = true
	m.alloc.update(v)
	m.rescindAll(v)
	m.rescindInverse(v)
	sent := *d
	m.toAgent(v, func(a *agent) { a.drain(&sent) })
	m.checkDrained(v)
}

// checkDrained ends a drain when the framework has acknowledged the end of every task, or is gone, and the agent is there.
func (m *master) checkDrained(v *agentView) {
	d := v.draining
	if d == nil || d.done || len(v.tasks) > 0 || m.ended || m.agents[v.id] != v {
		return
	}
	d.done = true
	if d.markGone {
		m.markGone(v)
	}
}

// markGone is MARK_AGENT_GONE: the id can never come back.
func (m *master) markGone(v *agentView) {
	m.registry.gone[v.id] = m.now()
	m.toAgent(v, func(a *agent) {
		a.shutdownAll()
		a.registered = false
	})
	m.removeAgent(v, mesos.TASK_GONE_BY_OPERATOR, mesos.TASK_LOST, mesos.REASON_AGENT_REMOVED_BY_OPERATOR, mesos.REASON_AGENT_REMOVED,
		"Agent has been marked gone")
}

// drain kills every task. A cap is passed on only where it shortens the task's own policy, or the task has none.
func (a *agent) drain(d *drain) {
	if old := a.draining; old != nil && old.markGone == d.markGone && (old.grace == nil) == (d.grace == nil) && (d.grace == nil || *old.grace == *d.grace) {
		return
	}
	a.draining = d
	for _, f := range a.sortedFrameworks() {
		if f.terminating {
			continue
		}
		for _, e := range f.sortedExecutors() {
			var infos []*mesos.TaskInfo
			for _, t := range e.sortedLaunched() {
				infos = append(infos, t.info)
			}
			for _, q := range e.queue {
				infos = append(infos, q.tasks...)
			}
			for _, info := range infos {
				var policy *mesos.KillPolicy
				if d.grace != nil {
					own := info.KillPolicy.GetGracePeriod()
					if info.KillPolicy == nil || info.KillPolicy.GracePeriod == nil || time.Duration(own.GetNanoseconds()) > *d.grace {
						policy = &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: int64(*d.grace)}}
					}
				}
				a.kill(killTask{framework: f.id, task: info.TaskID.Value, policy: policy})
			}
		}
	}
}

// drained marks the updates of executors while the agent drains.
func (a *agent) drained(f *agentFramework, status *mesos.TaskStatus) {
	switch status.GetState() {
	case mesos.TASK_KILLING, mesos.TASK_KILLED:
		status.Reason = mesos.REASON_AGENT_DRAINING.Enum()
		if a.draining.markGone && status.GetState() == mesos.TASK_KILLED && f.partitionAware() {
			status.State = mesos.TASK_GONE_BY_OPERATOR.Enum()
		}
	}
}
