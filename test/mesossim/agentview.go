// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"sort"
	"strconv"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesosalloc "github.com/mesos/mesos-go/api/v1/lib/allocator"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// An agentView is the master's record of a registered agent.
type agentView struct {
	m      *master
	id     string
	serial int
	info   mesos.AgentInfo
	agent  *agent

	registered, reregistered time.Time
	connected                bool
	deactivated              bool
	draining                 *drain
	total, free              bag // free has no allocation
	hasGPUs                  bool
	plain                    bool // nothing reserved, revocable or shared

	tasks        map[*task]struct{}
	offers       map[string]*offer
	inverse      map[string]*inverseOffer
	pendingKills []killTask

	inverseAnswers map[string]mesosalloc.InverseOfferStatus // by framework id

	missed       int
	answered     bool // the last ping
	stopPing     func()
	stopReregist func()
}

func (v *agentView) addTask(t *task)    { v.tasks[t] = struct{}{} }
func (v *agentView) removeTask(t *task) { delete(v.tasks, t) }

func (v *agentView) ip() string {
	ip, _ := splitEndpoint(v.agent.endpoint)
	return ip
}

func (v *agentView) url() *mesos.URL {
	ip, port := splitEndpoint(v.agent.endpoint)
	return agentURL(v.info.Hostname, ip, port)
}

func (v *agentView) offerable() bool { return v.connected && !v.deactivated && v.draining == nil }

func (v *agentView) classify() {
	v.hasGPUs, v.plain = false, true
	for i := range v.total {
		r := &v.total[i]
		v.hasGPUs = v.hasGPUs || r.key.name == "gpus"
		v.plain = v.plain && r.key.reservations == "" && !r.key.revocable && !r.key.shared
	}
}

func (v *agentView) stopTimers() {
	if v.stopPing != nil {
		v.stopPing()
		v.stopPing = nil
	}
	if v.stopReregist != nil {
		v.stopReregist()
		v.stopReregist = nil
	}
}

func (m *master) sortedAgents() []*agentView {
	out := make([]*agentView, 0, len(m.agents))
	for _, v := range m.agents {
		out = append(out, v)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].serial < out[j].serial })
	return out
}

// toAgent sends a message to an agent process. It is lost if the link is down, and waits while the process is stopped.
func (m *master) toAgent(v *agentView, f func(*agent)) {
	a, id := v.agent, v.id
	a.deliver(func() {
		if a.id == id {
			f(a)
		}
	})
}

// ping starts the health checks of an agent. A process that is cut off answers none; one that is stopped answers what
// has come meanwhile when it goes on.
func (m *master) ping(v *agentView) {
	var beat func()
	v.answered = true
	beat = func() {
		if m.agents[v.id] != v {
			return
		}
		if v.answered {
			v.missed = 0
		} else if v.missed++; v.missed >= m.c.timing.MaxPingTimeouts {
			m.markUnreachable(v, "health check timed out")
			return
		}
		v.answered = v.agent.answersPing(v.id)
		v.stopPing = m.c.after(m.c.timing.PingTimeout, beat)
	}
	v.stopPing = m.c.after(m.c.timing.PingTimeout, beat)
}

// agentDisconnected handles the break of the TCP link.
func (m *master) agentDisconnected(v *agentView) {
	if m.agents[v.id] != v || !v.connected {
		return
	}
	v.connected = false
	m.alloc.update(v)
	m.rescindAll(v)
	m.rescindInverse(v)
	for _, f := range m.sortedFrameworks() {
		if f.checkpoints() {
			continue
		}
		for _, t := range v.tasksOf(f) {
			wasTerminal := terminal(t.state)
			if wasTerminal {
				m.removeTask(t)
				continue
			}
			m.makeUpdate(t, mesos.TASK_LOST, mesos.REASON_AGENT_DISCONNECTED, "Agent "+v.info.Hostname+" disconnected", nil)
			m.recoverTask(t)
			m.removeTask(t)
		}
		for id := range f.executors[v.id] {
			m.removeExecutor(f, v.id, id)
		}
	}
	v.stopReregist = m.c.after(m.c.timing.AgentReregister, func() {
		if m.agents[v.id] == v && !v.connected {
			m.markUnreachable(v, "agent did not reregister within "+durationText(m.c.timing.AgentReregister)+" after disconnecting")
		}
	})
}

func (v *agentView) tasksOf(f *framework) []*task {
	var out []*task
	for t := range v.tasks {
		if t.framework == f {
			out = append(out, t)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].serial < out[j].serial })
	return out
}

func (m *master) sortedFrameworks() []*framework {
	out := make([]*framework, 0, len(m.frameworks))
	for _, f := range m.frameworks {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].id < out[j].id })
	return out
}

// markUnreachable removes an agent that may come back: its tasks are unreachable, or lost for frameworks that are not
// partition-aware.
func (m *master) markUnreachable(v *agentView, text string) {
	now := m.now()
	m.registry.unreachable[v.id] = now
	delete(m.registry.agents, v.id)
	for _, f := range m.sortedFrameworks() {
		for _, t := range v.tasksOf(f) {
			if !terminal(t.state) {
				t.unreachable = timeInfo(now)
				m.makeUpdate(t, f.lost(mesos.TASK_UNREACHABLE), mesos.REASON_AGENT_REMOVED, text, t.unreachable)
				m.recoverTask(t)
			}
			delete(f.tasks, t.id())
			v.removeTask(t)
			t.rec.removed()
			f.unreachable = append(f.unreachable, t)
			if len(f.unreachable) > maxUnreachableTasks {
				f.unreachable = f.unreachable[1:]
			}
		}
	}
	m.dropAgent(v)
}

// removeAgent removes an agent for good, with the state and reason for partition-aware frameworks and for others.
func (m *master) removeAgent(v *agentView, aware, other mesos.TaskState, awareReason, otherReason mesos.TaskStatus_Reason, text string) {
	delete(m.registry.agents, v.id)
	for _, f := range m.sortedFrameworks() {
		for _, t := range v.tasksOf(f) {
			if !terminal(t.state) {
				state, reason := other, otherReason
				if f.partitionAware() {
					state, reason = aware, awareReason
				}
				m.makeUpdate(t, state, reason, text, nil)
				m.recoverTask(t)
			}
			m.removeTask(t)
		}
	}
	m.dropAgent(v)
}

// removeOrderly is removeAgent for an agent that unregistered, was replaced or whose machine is down.
func (m *master) removeOrderly(v *agentView, cause string) {
	m.removeAgent(v, mesos.TASK_LOST, mesos.TASK_LOST, mesos.REASON_AGENT_REMOVED, mesos.REASON_AGENT_REMOVED,
		"Agent "+v.info.Hostname+" removed: "+cause)
	m.notifyAgentRemoved(v.id)
}

// dropAgent takes back the offers and tells every framework.
func (m *master) dropAgent(v *agentView) {
	v.stopTimers()
	v.connected = false
	m.alloc.update(v)
	m.rescindAll(v)
	m.rescindInverse(v)
	for _, f := range m.frameworks {
		for id := range f.executors[v.id] {
			m.removeExecutor(f, v.id, id)
		}
	}
	delete(m.agents, v.id)
	if m.byEndpoint[v.agent.endpoint] == v {
		delete(m.byEndpoint, v.agent.endpoint)
	}
	m.alloc.removeAgent(v)
	m.tellFailure(v.id)
}

// tellFailure sends FAILURE{agent} to every connected framework.
func (m *master) tellFailure(agentID string) {
	for _, f := range m.sortedFrameworks() {
		f.send(&scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &mesos.AgentID{Value: agentID}}})
	}
}

// expireRecovered ends the wait for agents that did not come back after a change of the leader: the new master does
// not know their tasks, so frameworks hear of the agents only.
func (m *master) expireRecovered() {
	for _, id := range sortedKeys(m.recovered) {
		delete(m.recovered, id)
		delete(m.registry.agents, id)
		m.registry.unreachable[id] = m.now()
		m.tellFailure(id)
	}
}

// exitedExecutor handles an agent's word that an executor has ended.
func (m *master) exitedExecutor(v *agentView, frameworkID, executorID string, status int32, tell bool) {
	f := m.frameworks[frameworkID]
	if f == nil {
		return
	}
	m.removeExecutor(f, v.id, executorID)
	if tell {
		f.send(&scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{
			AgentID: &mesos.AgentID{Value: v.id}, ExecutorID: &mesos.ExecutorID{Value: executorID}, Status: &status}})
	}
}

// durationText prints a duration as stout does: "5secs", "1mins", "1.5secs".
func durationText(d time.Duration) string {
	units := []struct {
		size time.Duration
		name string
	}{{7 * 24 * time.Hour, "weeks"}, {24 * time.Hour, "days"}, {time.Hour, "hrs"}, {time.Minute, "mins"}, {time.Second, "secs"},
		{time.Millisecond, "ms"}, {time.Microsecond, "us"}}
	for _, u := range units {
		if d >= u.size {
			return strings.TrimSuffix(strconv.FormatFloat(float64(d)/float64(u.size), 'f', -1, 64), ".0") + u.name
		}
	}
	return strconv.FormatInt(int64(d), 10) + "ns"
}
