// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// reconcile handles RECONCILE: without tasks it is implicit.
func (m *master) reconcile(f *framework, call *scheduler.Call_Reconcile) {
	if len(call.Tasks) == 0 {
		for _, t := range sortedTasks(f.tasks) {
			m.sendUpdate(f, m.reconciled(t))
		}
		return
	}
	for i := range call.Tasks {
		if status := m.reconcileTask(f, call.Tasks[i].TaskID.Value, call.Tasks[i].AgentID); status != nil {
			m.sendUpdate(f, status)
		}
	}
}

// reconciled is the answer for a task that the master knows: the last state that it got by an update.
func (m *master) reconciled(t *task) *mesos.TaskStatus {
	state := t.state
	if t.statusState != nil {
		state = *t.statusState
	}
	status := m.masterStatus(t.id(), t.agentID, state, mesos.REASON_RECONCILIATION, "Reconciliation: Latest task state")
	if t.executorID != "" {
		status.ExecutorID = &mesos.ExecutorID{Value: t.executorID}
	}
	t.addLast(status)
	return status
}

// addLast adds what the last status of the task said of its container and health.
func (t *task) addLast(status *mesos.TaskStatus) {
	if n := len(t.statuses); n > 0 {
		last := t.statuses[n-1]
		status.ContainerStatus, status.Healthy, status.CheckStatus = last.ContainerStatus, last.Healthy, last.CheckStatus
	}
}

// reconcileTask answers for one task; nil is no answer.
func (m *master) reconcileTask(f *framework, taskID string, agentID *mesos.AgentID) *mesos.TaskStatus {
	if t := f.tasks[taskID]; t != nil {
		return m.reconciled(t)
	}
	answer := func(state mesos.TaskState, text string) *mesos.TaskStatus {
		return m.masterStatus(taskID, agentID.GetValue(), f.lost(state), mesos.REASON_RECONCILIATION, text)
	}
	if agentID == nil {
		if len(m.recovered) > 0 {
			return nil
		}
		return answer(mesos.TASK_UNKNOWN, "Reconciliation: Task is unknown")
	}
	id := agentID.Value
	if m.recovered[id] {
		return nil
	}
	if m.agents[id] != nil {
		return answer(mesos.TASK_GONE, "Reconciliation: Task is unknown to the agent")
	}
	if at, ok := m.registry.unreachable[id]; ok {
		status := answer(mesos.TASK_UNREACHABLE, "Reconciliation: Task is unreachable")
		status.UnreachableTime = timeInfo(at)
		return status
	}
	if _, ok := m.registry.gone[id]; ok {
		return answer(mesos.TASK_GONE_BY_OPERATOR, "Reconciliation: Task is gone")
	}
	return answer(mesos.TASK_UNKNOWN, "Reconciliation: Task is unknown")
}

// kill handles KILL.
func (m *master) kill(f *framework, call *scheduler.Call_Kill) {
	t := f.tasks[call.TaskID.Value]
	if t == nil {
		if status := m.reconcileTask(f, call.TaskID.Value, call.AgentID); status != nil {
			m.sendUpdate(f, status)
		}
		return
	}
	if call.AgentID != nil && call.AgentID.Value != t.agentID {
		return
	}
	v := m.agents[t.agentID]
	if v == nil {
		return
	}
	k := killTask{framework: f.id, task: t.id(), policy: call.KillPolicy}
	if !v.connected {
		v.pendingKills = append(v.pendingKills, k) // delivered when the agent is back
		return
	}
	m.toAgent(v, func(a *agent) { a.kill(k) })
}

// shutdownExecutor handles SHUTDOWN; nobody is told when there is nothing to shut down.
func (m *master) shutdownExecutor(f *framework, call *scheduler.Call_Shutdown) {
	v := m.agents[call.AgentID.Value]
	if v == nil || !v.connected {
		return
	}
	id := call.ExecutorID.Value
	m.toAgent(v, func(a *agent) { a.shutdownExecutor(f.id, id) })
}

// message passes MESSAGE on, or drops it.
func (m *master) message(f *framework, call *scheduler.Call_Message) {
	v := m.agents[call.AgentID.Value]
	if v == nil || !v.connected {
		return
	}
	id, data := call.ExecutorID.Value, call.Data
	m.toAgent(v, func(a *agent) { a.frameworkMessage(f.id, id, data) })
}

// executorMessage passes a MESSAGE of an executor on.
func (m *master) executorMessage(v *agentView, frameworkID, executorID string, data []byte) {
	if f := m.frameworks[frameworkID]; f != nil {
		f.send(&scheduler.Event{Type: scheduler.Event_MESSAGE, Message: &scheduler.Event_Message{
			AgentID: mesos.AgentID{Value: v.id}, ExecutorID: mesos.ExecutorID{Value: executorID}, Data: data}})
	}
}

// reconcileOperations answers RECONCILE_OPERATIONS. Operations here are done at once and keep no status.
func (m *master) reconcileOperations(f *framework, call *scheduler.Call_ReconcileOperations) {
	for i := range call.Operations {
		op := &call.Operations[i]
		state := mesos.OPERATION_UNKNOWN
		switch id := op.AgentID.GetValue(); {
		case m.recovered[id]:
			state = mesos.OPERATION_RECOVERING
		default:
			if _, ok := m.registry.unreachable[id]; ok {
				state = mesos.OPERATION_UNREACHABLE
			} else if _, ok := m.registry.gone[id]; ok {
				state = mesos.OPERATION_GONE_BY_OPERATOR
			}
		}
		id := op.OperationID
		m.operationStatus(f, &id, state, "")
	}
}
