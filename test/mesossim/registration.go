// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"slices"
	"strconv"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// registerAgent admits an agent without an id. An agent that the master knows at the same address is removed first.
func (m *master) registerAgent(a *agent) {
	if m.registry.schedule.down(a.info.Hostname, ipOf(a)) {
		return
	}
	if old := m.byEndpoint[a.endpoint]; old != nil {
		m.removeOrderly(old, "a new agent registered at the same address")
	}
	a.id = m.id + "-S" + strconv.Itoa(m.nextAgent)
	v := m.admit(a)
	v.registered = m.now()
	m.alloc.addAgent(v)
	m.welcome(v)
	m.notifyAgentAdded(v)
}

func ipOf(a *agent) string {
	ip, _ := splitEndpoint(a.endpoint)
	return ip
}

// admit makes the master's record of an agent.
func (m *master) admit(a *agent) *agentView {
	v := &agentView{m: m, id: a.id, serial: m.nextAgent, info: a.info, agent: a, connected: true, total: a.resources, free: a.resources,
		tasks: map[*task]struct{}{}, offers: map[string]*offer{}, inverse: map[string]*inverseOffer{},
		deactivated: m.registry.deactivated[a.id], draining: m.registry.draining[a.id]}
	m.nextAgent++
	v.info.ID = &mesos.AgentID{Value: a.id}
	m.agents[a.id], m.byEndpoint[a.endpoint] = v, v
	m.registry.agents[a.id] = v.info
	delete(m.recovered, a.id)
	delete(m.registry.unreachable, a.id)
	return v
}

// welcome ends a registration: the agent may send updates again, and is pinged from now on.
func (m *master) welcome(v *agentView) {
	v.agent.registered = true
	v.missed = 0
	m.ping(v)
	if v.draining != nil {
		d := *v.draining
		m.toAgent(v, func(a *agent) { a.drain(&d) })
		m.c.post(func() { m.checkDrained(v) }) // it may come back without a task
	}
	m.toAgent(v, func(a *agent) { a.resendAll("") })
}

// reregisterAgent takes an agent back that has an id.
func (m *master) reregisterAgent(a *agent) {
	if _, gone := m.registry.gone[a.id]; gone {
		a.deliver(a.shutdownAll) // "Agent has been marked gone"
		return
	}
	if m.registry.schedule.down(a.info.Hostname, ipOf(a)) {
		return
	}
	if v := m.agents[a.id]; v != nil {
		m.reconnect(v)
		return
	}
	if old := m.byEndpoint[a.endpoint]; old != nil {
		m.removeOrderly(old, "a new agent registered at the same address")
	}
	_, unreachable := m.registry.unreachable[a.id]
	recovered := m.recovered[a.id]
	v := m.admit(a)
	v.registered, v.reregistered = m.now(), m.now()
	text := "Unknown agent reregistered"
	if unreachable {
		text = "Unreachable agent re-reregistered"
	}
	m.readmit(v, a.report(), recovered, text)
	m.alloc.addAgent(v)
	m.welcome(v)
	m.toAgent(v, func(a *agent) { a.c.records.lose(a.c, a.id, a.knows) }) // behind every launch that is still on its way
	m.notifyAgentAdded(v)
	for _, t := range sortedViewTasks(v) {
		m.notifyTaskAdded(t)
	}
	for _, f := range m.sortedFrameworks() {
		if f.connected {
			id, info := f.id, f.info
			m.toAgent(v, func(a *agent) { a.updateFramework(id, info) })
		}
	}
}

// readmit puts the tasks and executors that an agent brings into the tables, and tells frameworks of tasks that they
// may have taken for lost.
func (m *master) readmit(v *agentView, reports []agentTaskReport, recovered bool, text string) {
	for i := range reports {
		r := &reports[i]
		f := m.frameworks[r.framework.id]
		if f == nil {
			if m.wasRemoved(r.framework.id) {
				continue // the agent is told below
			}
			f = newFramework(m, r.framework.id, r.framework.info)
			f.recovered = true
			m.frameworks[f.id] = f
			m.c.records.subscribed(f)
		}
		if !r.executor.command && r.executor.state != executorTerminated && f.executors[v.id][r.executor.id] == nil {
			resources := newBag(r.executor.info.Resources)
			f.addExecutor(v.id, r.executor.info, resources)
			m.alloc.readmit(f, v, resources)
		}
		id := r.info.TaskID.Value
		f.unreachable = slices.DeleteFunc(f.unreachable, func(t *task) bool { return t.id() == id && t.agentID == v.id })
		t := &task{info: r.info, framework: f, agentID: v.id, executorID: r.executor.id, resources: newBag(r.info.Resources), serial: m.c.records.nextSerial(),
			state: r.state, statusState: r.statusState, statusUUID: r.statusUUID, statuses: r.statuses}
		t.rec = m.c.records.readmitted(m.c, t, v)
		m.addTask(f, v, t)
		if !terminal(t.state) {
			m.alloc.readmit(f, v, t.resources)
		}
		if recovered {
			t.rec.came(m.c, t.state)
			continue
		}
		status := m.masterStatus(id, v.id, t.state, mesos.REASON_AGENT_REREGISTERED, text)
		status.ExecutorID = &mesos.ExecutorID{Value: t.executorID}
		t.addLast(status)
		delivered := m.sendUpdate(f, status)
		t.rec.note(m.c, Transition{State: t.state, Source: "SOURCE_MASTER", Reason: "REASON_AGENT_REREGISTERED", Message: text, Delivered: delivered})
	}
	// Executors without tasks are known to the agent too.
	for _, af := range v.agent.sortedFrameworks() {
		f := m.frameworks[af.id]
		if f == nil && m.wasRemoved(af.id) {
			id := af.id
			m.toAgent(v, func(a *agent) { a.shutdownFramework(id) })
		}
		if f == nil {
			continue
		}
		for _, e := range af.sortedExecutors() {
			if e.command || e.state == executorTerminated || f.executors[v.id][e.id] != nil {
				continue
			}
			resources := newBag(e.info.Resources)
			f.addExecutor(v.id, e.info, resources)
			m.alloc.readmit(f, v, resources)
		}
	}
}

// wasRemoved says whether the id is in the table of completed frameworks.
func (m *master) wasRemoved(id string) bool {
	return slices.ContainsFunc(m.completed, func(f *framework) bool { return f.id == id })
}

func sortedViewTasks(v *agentView) []*task {
	tasks := map[string]*task{}
	for t := range v.tasks {
		tasks[t.framework.id+"/"+t.id()] = t
	}
	return sortedTasks(tasks)
}

// reconnect takes back an agent that the master has not given up: what only one side knows is settled.
func (m *master) reconnect(v *agentView) {
	if v.stopReregist != nil {
		v.stopReregist()
		v.stopReregist = nil
	}
	if v.stopPing != nil {
		v.stopPing()
		v.stopPing = nil
	}
	v.connected = true
	v.reregistered = m.now()
	m.alloc.update(v)
	reported := map[streamKey]bool{}
	for _, r := range v.agent.report() {
		reported[streamKey{r.framework.id, r.info.TaskID.Value}] = true
	}
	for _, f := range m.sortedFrameworks() {
		known := v.agent.frameworks[f.id]
		for id := range f.executors[v.id] {
			if known == nil || known.executors[id] == nil || known.executors[id].state == executorTerminated {
				m.removeExecutor(f, v.id, id)
			}
		}
	}
	m.welcome(v)
	for _, t := range sortedViewTasks(v) {
		if terminal(t.state) || reported[streamKey{t.framework.id, t.id()}] {
			continue
		}
		framework, id, info := t.framework.id, t.id(), t.framework.info
		m.toAgent(v, func(a *agent) { a.reconcileTask(framework, id, info) })
	}
	for _, f := range v.agent.sortedFrameworks() {
		if m.frameworks[f.id] == nil {
			id := f.id
			m.toAgent(v, func(a *agent) { a.shutdownFramework(id) })
		}
	}
	for _, f := range m.sortedFrameworks() {
		if f.connected {
			id, info := f.id, f.info
			m.toAgent(v, func(a *agent) { a.updateFramework(id, info) })
		}
	}
	kills := v.pendingKills
	v.pendingKills = nil
	for _, k := range kills {
		m.toAgent(v, func(a *agent) { a.kill(k) })
	}
}
