// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"

	"github.com/gogo/protobuf/proto"
	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// accept handles ACCEPT. The call itself never fails: what is wrong comes back as task updates.
func (m *master) accept(f *framework, accept *scheduler.Call_Accept) {
	if text := m.validateOffers(f, accept.OfferIDs); text != "" {
		m.rejectAccept(f, accept, text)
		return
	}
	first := m.offers[accept.OfferIDs[0].Value]
	v, role := first.agent, first.role
	var pool bag
	for i := range accept.OfferIDs {
		o := m.offers[accept.OfferIDs[i].Value]
		pool = pool.plus(o.resources)
		m.removeOffer(o, offerAccepted)
	}
	a := &acceptance{m: m, f: f, v: v, role: role, pool: pool, offered: pool}
	for i := range accept.Operations {
		a.operation(&accept.Operations[i])
	}
	// What changed its shape and stays unused goes back without a filter.
	unchanged := a.pool.filter(func(r *resource) bool { return a.offered.find(&r.key) >= 0 })
	changed := a.pool.filter(func(r *resource) bool { return a.offered.find(&r.key) < 0 })
	m.alloc.recover(f, v, unchanged, orDefault(accept.Filters))
	m.alloc.recover(f, v, changed, nil)
}

// validateOffers is offer::validate: the first failure wins.
func (m *master) validateOffers(f *framework, ids []mesos.OfferID) string {
	if len(ids) == 0 {
		return "No offers specified"
	}
	seen := map[string]bool{}
	for i := range ids {
		if seen[ids[i].Value] {
			return fmt.Sprintf("Duplicate offer %s in offer list", ids[i].Value)
		}
		seen[ids[i].Value] = true
	}
	for i := range ids {
		if m.offers[ids[i].Value] == nil {
			return fmt.Sprintf("Offer %s is no longer valid", ids[i].Value)
		}
	}
	first := m.offers[ids[0].Value]
	for i := range ids {
		if o := m.offers[ids[i].Value]; o.framework != f {
			return fmt.Sprintf("Offer %s has invalid framework %s while framework %s is expected", o.id, o.framework.id, f.id)
		}
	}
	for i := range ids {
		if o := m.offers[ids[i].Value]; o.role != first.role {
			// The closing quotes are missing in Mesos too.
			return fmt.Sprintf("Aggregated offers must be allocated to the same role. Offer %s uses role '%s but another is using role '%s", o.id, o.role, first.role)
		}
	}
	for i := range ids {
		if o := m.offers[ids[i].Value]; o.agent != first.agent {
			return fmt.Sprintf("Aggregated offers must belong to one single agent. Offer %s uses agent %s and agent %s", o.id, o.agent.id, first.agent.id)
		}
	}
	return ""
}

// rejectAccept takes back every listed offer that still exists, whoever holds it, and drops the tasks.
func (m *master) rejectAccept(f *framework, accept *scheduler.Call_Accept, text string) {
	for i := range accept.OfferIDs {
		if o := m.offers[accept.OfferIDs[i].Value]; o != nil {
			m.removeOffer(o, offerInvalidated)
			m.alloc.recover(o.framework, o.agent, o.resources, nil)
		}
	}
	for i := range accept.Operations {
		op := &accept.Operations[i]
		for _, info := range tasksOf(op) {
			m.refuseTask(f, info, f.lost(mesos.TASK_DROPPED), mesos.REASON_INVALID_OFFERS, "Task launched with invalid offers: "+text)
		}
		if len(tasksOf(op)) == 0 && op.ID != nil {
			m.operationStatus(f, op.ID, mesos.OPERATION_ERROR, "Operation attempted with invalid offers: "+text)
		}
	}
}

func tasksOf(op *mesos.Offer_Operation) []*mesos.TaskInfo {
	var infos []mesos.TaskInfo
	switch op.Type {
	case mesos.Offer_Operation_LAUNCH:
		infos = op.GetLaunch().GetTaskInfos()
	case mesos.Offer_Operation_LAUNCH_GROUP:
		if g := op.GetLaunchGroup(); g != nil {
			infos = g.TaskGroup.Tasks
		}
	}
	out := make([]*mesos.TaskInfo, len(infos))
	for i := range infos {
		out[i] = &infos[i]
	}
	return out
}

// refuseTask sends the update of a task that is not launched, and records it.
func (m *master) refuseTask(f *framework, info *mesos.TaskInfo, state mesos.TaskState, reason mesos.TaskStatus_Reason, text string) {
	rec := m.c.records.refusedTask(m.c, f.id, info)
	status := m.masterStatus(info.TaskID.Value, info.AgentID.Value, state, reason, text)
	delivered := m.sendUpdate(f, status)
	rec.noteRefusal(m.c, Transition{State: state, Source: "SOURCE_MASTER", Reason: reason.String(), Message: text, Delivered: delivered})
}

// acceptance is one ACCEPT being worked through.
type acceptance struct {
	m       *master
	f       *framework
	v       *agentView
	role    string
	pool    bag // what is left
	offered bag
}

func (a *acceptance) operation(op *mesos.Offer_Operation) {
	switch op.Type {
	case mesos.Offer_Operation_LAUNCH:
		a.launch(op)
	case mesos.Offer_Operation_LAUNCH_GROUP:
		a.launchGroup(op)
	case mesos.Offer_Operation_RESERVE:
		a.convert(op, nil, op.GetReserve().GetResources(), "RESERVE")
	case mesos.Offer_Operation_UNRESERVE:
		a.convert(op, op.GetUnreserve().GetResources(), nil, "UNRESERVE")
	case mesos.Offer_Operation_CREATE:
		a.convert(op, nil, op.GetCreate().GetVolumes(), "CREATE")
	case mesos.Offer_Operation_DESTROY:
		a.convert(op, op.GetDestroy().GetVolumes(), nil, "DESTROY")
	}
}

func (a *acceptance) launch(op *mesos.Offer_Operation) {
	tasks := tasksOf(op)
	text := ""
	for _, info := range tasks {
		if text == "" {
			text = validateResourceList(info.Resources)
		}
		if text == "" && info.Executor != nil {
			text = validateResourceList(info.Executor.Resources)
		}
	}
	if text == "" && op.ID != nil {
		text = "The `id` field cannot be set on LAUNCH operations"
	}
	if text != "" {
		for _, info := range tasks {
			a.m.refuseTask(a.f, info, mesos.TASK_ERROR, mesos.REASON_TASK_INVALID, text)
		}
		return
	}
	for _, info := range tasks {
		prepared := a.prepare(info)
		if prepared.Executor != nil && prepared.Executor.FrameworkID == nil {
			prepared.Executor.FrameworkID = &mesos.FrameworkID{Value: a.f.id}
		}
		resources := newBag(prepared.Resources)
		executor, charged, text := a.validate(prepared, resources)
		if text != "" {
			a.m.refuseTask(a.f, info, mesos.TASK_ERROR, mesos.REASON_TASK_INVALID, text)
			continue
		}
		a.pool = a.pool.minus(resources.plus(charged))
		a.start([]*mesos.TaskInfo{prepared}, []bag{resources}, executor, charged, nil)
	}
}

// prepare copies a task and injects what a framework may leave out: the allocation role, and the newer form of reservations.
func (a *acceptance) prepare(info *mesos.TaskInfo) *mesos.TaskInfo {
	out := *info
	out.Resources = a.inject(info.Resources)
	if info.Executor != nil {
		out.Executor = a.prepareExecutor(info.Executor)
	}
	return &out
}

func (a *acceptance) prepareExecutor(info *mesos.ExecutorInfo) *mesos.ExecutorInfo {
	out := *info
	out.Resources = a.inject(info.Resources)
	return &out
}

func (a *acceptance) inject(rs []mesos.Resource) []mesos.Resource {
	if len(rs) == 0 {
		return nil
	}
	out := make([]mesos.Resource, len(rs))
	for i := range rs {
		out[i] = rs[i]
		if out[i].AllocationInfo == nil {
			out[i].AllocationInfo = &mesos.Resource_AllocationInfo{Role: proto.String(a.role)}
		}
		if len(out[i].Reservations) == 0 {
			out[i].Reservations = upgradedReservations(&rs[i])
		}
		out[i].Role, out[i].Reservation = nil, nil
	}
	return out
}

// start records the tasks and their executor, and sends them to the agent.
func (a *acceptance) start(infos []*mesos.TaskInfo, resources []bag, executor *mesos.ExecutorInfo, charged bag, group *mesos.TaskGroupInfo) {
	m, f, v := a.m, a.f, a.v
	launchExecutor := true
	executorID := ""
	if executor != nil {
		executorID = executor.ExecutorID.Value
		launchExecutor = f.executors[v.id][executorID] == nil
		if launchExecutor {
			f.addExecutor(v.id, executor, charged)
		}
	}
	for i, info := range infos {
		t := &task{info: info, framework: f, agentID: v.id, executorID: executorID, resources: resources[i], serial: m.c.records.nextSerial(),
			state: mesos.TASK_STAGING}
		t.rec = m.c.records.launched(m.c, t, v)
		m.addTask(f, v, t)
		m.notifyTaskAdded(t)
	}
	run := runTask{framework: f.id, info: f.info, launchExecutor: launchExecutor, tasks: infos, executor: executor, group: group != nil}
	if m.c.faults.launchLost(v.agent.name) {
		return
	}
	m.toAgent(v, func(ag *agent) { ag.run(run) })
}

// operationStatus sends UPDATE_OPERATION_STATUS.
func (m *master) operationStatus(f *framework, id *mesos.OperationID, state mesos.OperationState, text string) {
	m.operationStatusOf(f, nil, id, state, text)
}

// operationStatusOf is operationStatus for an operation that an agent has done: it is to be acknowledged.
func (m *master) operationStatusOf(f *framework, v *agentView, id *mesos.OperationID, state mesos.OperationState, text string) {
	status := mesos.OperationStatus{OperationID: id, State: state}
	if v != nil {
		status.AgentID = &mesos.AgentID{Value: v.id}
		fresh := uuid.New()
		status.UUID = &mesos.UUID{Value: fresh[:]}
	}
	if text != "" {
		status.Message = proto.String(text)
	}
	f.send(&scheduler.Event{Type: scheduler.Event_UPDATE_OPERATION_STATUS, UpdateOperationStatus: &scheduler.Event_UpdateOperationStatus{Status: status}})
}
