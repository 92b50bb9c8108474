// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"maps"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// records are what tests read: they outlive masters. They are guarded by the cluster's lock.
type records struct {
	counters   Counters
	serial     uint64
	tasks      map[streamKey]*taskRecord
	order      []*taskRecord
	onAgent    map[string][]*taskRecord // by agent id; those launched there that had not ended when they were last looked at
	frameworks map[string]*Framework
	fwOrder    []string
}

// A taskRecord is the life of one task id.
type taskRecord struct {
	c         *Cluster
	info      *mesos.TaskInfo
	framework string
	agent     string
	agentID   string
	executor  string
	resources bag
	task      Task // Launched, State, Removed, History
}

func (r *records) init() {
	r.tasks, r.onAgent, r.frameworks = map[streamKey]*taskRecord{}, map[string][]*taskRecord{}, map[string]*Framework{}
	r.counters.Calls, r.counters.Refused, r.counters.Updates = map[string]int{}, map[string]int{}, map[string]int{}
}

func (r *records) nextSerial() uint64 {
	r.serial++
	return r.serial
}

func (r *records) called(kind string)           { r.counters.Calls[kind]++ }
func (r *records) refused(kind string)          { r.counters.Refused[kind]++ }
func (r *records) updateSent(s mesos.TaskState) { r.counters.Updates[s.String()]++ }
func (r *records) snapshot() Counters {
	out := r.counters
	out.Calls, out.Refused, out.Updates = maps.Clone(r.counters.Calls), maps.Clone(r.counters.Refused), maps.Clone(r.counters.Updates)
	return out
}

func (r *records) record(c *Cluster, framework string, info *mesos.TaskInfo) *taskRecord {
	key := streamKey{framework, info.TaskID.Value}
	rec := r.tasks[key]
	if rec == nil {
		rec = &taskRecord{c: c, framework: framework, info: info}
		r.tasks[key] = rec
		r.order = append(r.order, rec)
	}
	return rec
}

// launched records a task that passed validation.
func (r *records) launched(c *Cluster, t *task, v *agentView) *taskRecord {
	rec := r.record(c, t.framework.id, t.info)
	rec.info, rec.agent, rec.agentID, rec.executor, rec.resources = t.info, v.agent.name, v.id, t.executorID, t.resources
	rec.task.Launched, rec.task.State, rec.task.Removed, rec.task.Lost = c.now(), mesos.TASK_STAGING, false, time.Time{}
	r.onAgent[v.id] = append(r.onAgent[v.id], rec)
	r.counters.TasksLaunched++
	rec.append(c, Transition{State: mesos.TASK_STAGING})
	return rec
}

// readmitted finds the record of a task that came with an agent.
func (r *records) readmitted(c *Cluster, t *task, v *agentView) *taskRecord {
	rec := r.record(c, t.framework.id, t.info)
	rec.info, rec.agent, rec.agentID, rec.executor, rec.resources = t.info, v.agent.name, v.id, t.executorID, t.resources
	if rec.task.Launched.IsZero() {
		rec.task.Launched = c.now()
	}
	rec.task.State, rec.task.Removed, rec.task.Lost = t.state, false, time.Time{}
	return rec
}

// lose notes that of the tasks that were launched on an agent only those still exist that are known.
func (r *records) lose(c *Cluster, agentID string, known func(streamKey) bool) {
	var rest []*taskRecord
	for _, rec := range r.onAgent[agentID] {
		if rec.agentID != agentID || !rec.task.Live() {
			continue
		}
		if known(streamKey{rec.framework, rec.info.TaskID.Value}) {
			rest = append(rest, rec)
		} else {
			rec.task.Lost = c.now()
		}
	}
	r.onAgent[agentID] = rest
}

// refusedTask finds or makes the record of a task that is refused. A live task of the same id keeps its state.
func (r *records) refusedTask(c *Cluster, framework string, info *mesos.TaskInfo) *taskRecord {
	rec := r.record(c, framework, info)
	if rec.agentID == "" {
		rec.agentID = info.AgentID.Value
	}
	return rec
}

func (r *records) strayUpdate(c *Cluster, framework string, status *mesos.TaskStatus, delivered bool) {
	if rec := r.tasks[streamKey{framework, status.TaskID.Value}]; rec != nil {
		rec.append(c, transitionOf(status, delivered))
	}
}

// transitionOf is what an update tells.
func transitionOf(status *mesos.TaskStatus, delivered bool) Transition {
	t := Transition{State: status.GetState(), Source: status.GetSource().String(), Message: status.GetMessage(), Delivered: delivered}
	if status.Reason != nil {
		t.Reason = status.Reason.String()
	}
	if seconds := status.GetTimestamp(); seconds > 0 && seconds < 1<<33 { // an executor may say anything
		t.Said = time.UnixMicro(int64(seconds * 1e6))
	}
	return t
}

func (r *records) acknowledged(framework, taskID string, state mesos.TaskState) {
	r.counters.Acknowledged++
	if rec := r.tasks[streamKey{framework, taskID}]; rec != nil {
		for i := range rec.task.History {
			if t := &rec.task.History[i]; t.State == state && !t.Acknowledged && t.Source != "" && t.Source != "SOURCE_MASTER" {
				t.Acknowledged = true
				return
			}
		}
	}
}

func (rec *taskRecord) append(c *Cluster, t Transition) {
	t.At = c.now()
	rec.task.History = append(rec.task.History, t)
}

// came records the state that a task came with, if the history does not end with it: the master tells nobody.
func (rec *taskRecord) came(c *Cluster, state mesos.TaskState) {
	if n := len(rec.task.History); n == 0 || rec.task.History[n-1].State != state {
		rec.note(c, Transition{State: state})
	}
}

// note records a change of state.
func (rec *taskRecord) note(c *Cluster, t Transition) {
	rec.append(c, t)
	rec.task.State = t.State
}

// noteRefusal records that the master refused the id; that says nothing of a live task of the same id.
func (rec *taskRecord) noteRefusal(c *Cluster, t Transition) {
	rec.append(c, t)
	if rec.task.Launched.IsZero() || terminal(rec.task.State) && rec.task.Removed {
		rec.task.State = t.State
		rec.task.Removed = true
	}
}

// latest follows the state that the master holds, which may be ahead of what it has delivered.
func (rec *taskRecord) latest(s mesos.TaskState) { rec.task.State = s }

func (rec *taskRecord) redelivered(state mesos.TaskState, delivered bool) {
	for i := len(rec.task.History) - 1; i >= 0; i-- {
		if t := &rec.task.History[i]; t.State == state {
			t.Delivered = t.Delivered || delivered
			return
		}
	}
}

func (rec *taskRecord) removed() { rec.task.Removed = true }

func (rec *taskRecord) snapshot() Task {
	t := rec.task
	t.ID, t.Name, t.FrameworkID, t.Agent, t.AgentID, t.ExecutorID = rec.info.TaskID.Value, rec.info.Name, rec.framework, rec.agent, rec.agentID, rec.executor
	t.Resources, t.Data = rec.resources.amounts(), rec.info.Data
	for name, limit := range rec.info.Limits {
		if t.Limits == nil {
			t.Limits = map[string]float64{}
		}
		t.Limits[name] = limit.Value
	}
	if rec.info.Labels != nil {
		t.Labels = map[string]string{}
		for i := range rec.info.Labels.Labels {
			l := &rec.info.Labels.Labels[i]
			t.Labels[l.Key] = l.GetValue()
		}
	}
	t.History = append([]Transition(nil), rec.task.History...)
	return t
}

func (r *records) subscribed(f *framework) {
	known := r.frameworks[f.id]
	if known == nil {
		known = &Framework{ID: f.id}
		r.frameworks[f.id] = known
		r.fwOrder = append(r.fwOrder, f.id)
	}
	known.Subscribes += min(f.subscribes, 1)
	known.Info = *f.info
	known.Removed = false
}

func (r *records) frameworkRemoved(f *framework) {
	if known := r.frameworks[f.id]; known != nil {
		known.Removed = true
	}
}
