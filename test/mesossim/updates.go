// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"bytes"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// masterStatus makes a status without uuid: the master's own updates are not acknowledged.
func (m *master) masterStatus(taskID, agentID string, state mesos.TaskState, reason mesos.TaskStatus_Reason, text string) *mesos.TaskStatus {
	status := &mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: taskID}, State: state.Enum(), Source: mesos.SOURCE_MASTER.Enum(), Reason: reason.Enum(),
		Timestamp: proto.Float64(seconds(m.now())),
	}
	if text != "" {
		status.Message = proto.String(text)
	}
	if agentID != "" {
		status.AgentID = &mesos.AgentID{Value: agentID}
	}
	return status
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

func timeInfo(t time.Time) *mesos.TimeInfo { return &mesos.TimeInfo{Nanoseconds: t.UnixNano()} }

// sendUpdate sends an UPDATE and says whether there was a stream to send it on. Faults may lose, delay or double
// updates that the master made.
func (m *master) sendUpdate(f *framework, status *mesos.TaskStatus) bool {
	deliver := func() bool {
		m.c.records.updateSent(status.GetState())
		return f.send(&scheduler.Event{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{Status: *status}})
	}
	if !f.connected {
		return false
	}
	stream := f.stream
	switch action, delay := m.c.faults.updateAction(f.id, status); action {
	case updateLost:
		return false
	case updateDoubled:
		deliver()
		return deliver()
	case updateDelayed:
		m.c.after(delay, func() {
			if f.stream == stream {
				deliver()
			}
		})
		return true
	default:
		return deliver()
	}
}

// makeUpdate changes a task's state by the master's own authority and tells the framework.
func (m *master) makeUpdate(t *task, state mesos.TaskState, reason mesos.TaskStatus_Reason, text string, unreachable *mesos.TimeInfo) {
	status := m.masterStatus(t.id(), t.agentID, state, reason, text)
	status.UnreachableTime = unreachable
	t.setStatus(status)
	sent := *status
	if t.executorID != "" { // only what goes to the framework names the executor
		sent.ExecutorID = &mesos.ExecutorID{Value: t.executorID}
	}
	delivered := m.sendUpdate(t.framework, &sent)
	t.state = state
	t.rec.note(m.c, Transition{State: state, Source: "SOURCE_MASTER", Reason: reason.String(), Message: text, Delivered: delivered})
	m.notifyTaskUpdated(t, status)
}

// setStatus keeps the last status of each run of equal states.
func (t *task) setStatus(status *mesos.TaskStatus) {
	if n := len(t.statuses); n > 0 && t.statuses[n-1].GetState() == status.GetState() {
		t.statuses[n-1] = status
	} else {
		t.statuses = append(t.statuses, status)
	}
	if len(status.UUID) > 0 {
		t.statusState, t.statusUUID = status.State, status.UUID
	}
}

// An agentUpdate is a status update on its way from an agent: the head of a task's stream with the latest state that
// the agent knows.
type agentUpdate struct {
	framework string
	status    *mesos.TaskStatus
	latest    mesos.TaskState
}

// statusUpdate handles an update that an agent forwards.
func (m *master) statusUpdate(v *agentView, u agentUpdate) {
	f := m.frameworks[u.framework]
	if f == nil {
		return // the agent will hear of the framework's end
	}
	delivered := m.sendUpdate(f, u.status)
	t := f.tasks[u.status.TaskID.Value]
	if t == nil {
		m.c.records.strayUpdate(m.c, f.id, u.status, delivered)
		return
	}
	was := t.state
	resent := t.statusUUID != nil && bytes.Equal(t.statusUUID, u.status.UUID)
	if !terminal(was) {
		t.state = u.latest
	}
	t.setStatus(u.status)
	if resent {
		t.rec.redelivered(u.status.GetState(), delivered)
	} else {
		t.rec.note(m.c, transitionOf(u.status, delivered))
		m.notifyTaskUpdated(t, u.status)
	}
	t.rec.latest(t.state)
	if !terminal(was) && terminal(t.state) {
		m.alloc.recover(f, v, t.resources, nil)
	}
}

// acknowledge handles ACKNOWLEDGE. An acknowledgement of a terminal update ends the task's place in the table.
func (m *master) acknowledge(f *framework, ack *scheduler.Call_Acknowledge) {
	v := m.agents[ack.AgentID.Value]
	if v == nil || !v.connected {
		return
	}
	if t := f.tasks[ack.TaskID.Value]; t != nil && t.statusState != nil && terminal(*t.statusState) && bytes.Equal(t.statusUUID, ack.UUID) {
		m.removeTask(t)
		m.checkDrained(v)
	}
	taskID, id := ack.TaskID.Value, ack.UUID
	m.toAgent(v, func(a *agent) { a.acknowledged(f.id, taskID, id) })
}
