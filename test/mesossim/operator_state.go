// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"sort"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesosmaster "github.com/mesos/mesos-go/api/v1/lib/master"
)

const (
	masterCapabilityAgentDraining = mesos.MasterInfo_Capability_AGENT_DRAINING
	// masterCapabilityQuotaV2 is newer than the generated types.
	masterCapabilityQuotaV2 = mesos.MasterInfo_Capability_Type(3)
)

func init() {
	// The printed name of QUOTA_V2.
	mesos.MasterInfo_Capability_Type_name[3] = "QUOTA_V2"
}

func (m *master) getState() *mesosmaster.Response_GetState {
	return &mesosmaster.Response_GetState{GetTasks: m.getTasks(), GetExecutors: m.getExecutors(), GetFrameworks: m.getFrameworks(), GetAgents: m.getAgents()}
}

func (m *master) getAgents() *mesosmaster.Response_GetAgents {
	out := &mesosmaster.Response_GetAgents{Agents: []mesosmaster.Response_GetAgents_Agent{}, RecoveredAgents: []mesos.AgentInfo{}}
	for _, v := range m.sortedAgents() {
		out.Agents = append(out.Agents, m.agentMessage(v))
	}
	for _, id := range sortedKeys(m.recovered) {
		info := m.registry.agents[id]
		out.RecoveredAgents = append(out.RecoveredAgents, info)
	}
	return out
}

var agentCapabilities = []mesos.AgentInfo_Capability{
	{Type: mesos.AgentInfo_Capability_MULTI_ROLE}, {Type: mesos.AgentInfo_Capability_HIERARCHICAL_ROLE}, {Type: mesos.AgentInfo_Capability_RESERVATION_REFINEMENT},
	{Type: mesos.AgentInfo_Capability_RESOURCE_PROVIDER}, {Type: mesos.AgentInfo_Capability_RESIZE_VOLUME}, {Type: mesos.AgentInfo_Capability_AGENT_OPERATION_FEEDBACK},
	{Type: mesos.AgentInfo_Capability_AGENT_DRAINING}, {Type: mesos.AgentInfo_Capability_TASK_RESOURCE_LIMITS},
}

func (m *master) agentMessage(v *agentView) mesosmaster.Response_GetAgents_Agent {
	out := mesosmaster.Response_GetAgents_Agent{
		AgentInfo: v.info, Active: v.connected && !v.deactivated, Deactivated: proto.Bool(v.deactivated), Version: mesosVersion,
		PID: proto.String("slave(1)@" + v.agent.endpoint), RegisteredTime: timeInfo(v.registered),
		TotalResources: preRefinement(v.total.toProto()), AllocatedResources: preRefinement(m.allocatedOn(v).toProto()),
		OfferedResources: preRefinement(m.offeredOn(v).toProto()), Capabilities: agentCapabilities,
	}
	if !v.reregistered.IsZero() {
		out.ReregisteredTime = timeInfo(v.reregistered)
	}
	if d := v.draining; d != nil {
		info := &mesos.DrainInfo{State: mesos.DrainState_DRAINING}
		if d.done {
			info.State = mesos.DrainState_DRAINED
		}
		if d.grace != nil {
			info.Config.MaxGracePeriod = &mesos.DurationInfo{Nanoseconds: int64(*d.grace)}
		}
		if d.markGone {
			info.Config.MarkGone = proto.Bool(true)
		}
		out.DrainInfo = info
		out.EstimatedDrainStartTime = timeInfo(d.began)
	}
	return out
}

// allocatedOn sums what live tasks and executors hold on an agent.
func (m *master) allocatedOn(v *agentView) bag {
	var b bag
	for _, t := range sortedViewTasks(v) {
		if !terminal(t.state) {
			b = b.plus(t.resources)
		}
	}
	for _, f := range m.sortedFrameworks() {
		for _, id := range sortedKeys(f.executors[v.id]) {
			b = b.plus(f.executors[v.id][id].resources)
		}
	}
	return b
}

func (m *master) offeredOn(v *agentView) bag {
	var b bag
	for _, o := range sortedOffers(v.offers) {
		b = b.plus(o.resources)
	}
	return b.inOfferOrder()
}

func (m *master) getFrameworks() *mesosmaster.Response_GetFrameworks {
	out := &mesosmaster.Response_GetFrameworks{Frameworks: []mesosmaster.Response_GetFrameworks_Framework{}, CompletedFrameworks: []mesosmaster.Response_GetFrameworks_Framework{}}
	for _, f := range m.sortedFrameworks() {
		out.Frameworks = append(out.Frameworks, m.frameworkMessage(f))
	}
	for _, f := range m.completed {
		out.CompletedFrameworks = append(out.CompletedFrameworks, m.frameworkMessage(f))
	}
	return out
}

func (m *master) frameworkMessage(f *framework) mesosmaster.Response_GetFrameworks_Framework {
	out := mesosmaster.Response_GetFrameworks_Framework{FrameworkInfo: *f.info, Active: f.active && f.connected, Connected: f.connected, Recovered: f.recovered}
	if !f.registered.IsZero() {
		out.RegisteredTime, out.ReregisteredTime = timeInfo(f.registered), timeInfo(f.reregistered)
	}
	if !f.unregistered.IsZero() {
		out.UnregisteredTime = timeInfo(f.unregistered)
	}
	var offered, held bag
	for _, o := range sortedOffers(f.offers) {
		out.Offers = append(out.Offers, m.offerMessage(o))
		offered = offered.plus(o.resources)
	}
	for _, t := range sortedTasks(f.tasks) {
		if !terminal(t.state) {
			held = held.plus(t.resources)
		}
	}
	for _, executors := range f.executors {
		for _, e := range executors {
			held = held.plus(e.resources)
		}
	}
	out.OfferedResources, out.AllocatedResources = preRefinement(offered.inOfferOrder().toProto()), preRefinement(held.toProto())
	return out
}

func (m *master) getExecutors() *mesosmaster.Response_GetExecutors {
	out := &mesosmaster.Response_GetExecutors{Executors: []mesosmaster.Response_GetExecutors_Executor{}}
	for _, f := range m.sortedFrameworks() {
		for _, agentID := range sortedKeys(f.executors) {
			for _, id := range sortedKeys(f.executors[agentID]) {
				out.Executors = append(out.Executors, mesosmaster.Response_GetExecutors_Executor{ExecutorInfo: *f.executors[agentID][id].info, AgentID: mesos.AgentID{Value: agentID}})
			}
		}
	}
	return out
}

func (m *master) getTasks() *mesosmaster.Response_GetTasks {
	out := &mesosmaster.Response_GetTasks{Tasks: []mesos.Task{}, UnreachableTasks: []mesos.Task{}, CompletedTasks: []mesos.Task{}}
	for _, f := range append(m.sortedFrameworks(), m.completed...) {
		for _, t := range sortedTasks(f.tasks) {
			out.Tasks = append(out.Tasks, taskMessage(t))
		}
		for _, t := range f.unreachable {
			out.UnreachableTasks = append(out.UnreachableTasks, taskMessage(t))
		}
		for _, t := range f.completed {
			out.CompletedTasks = append(out.CompletedTasks, taskMessage(t))
		}
	}
	return out
}

func taskMessage(t *task) mesos.Task {
	out := mesos.Task{
		Name: t.info.Name, TaskID: t.info.TaskID, FrameworkID: mesos.FrameworkID{Value: t.framework.id}, AgentID: mesos.AgentID{Value: t.agentID},
		State: t.state.Enum(), Resources: t.info.Resources, StatusUpdateState: t.statusState, StatusUpdateUUID: t.statusUUID, Labels: t.info.Labels,
		Discovery: t.info.Discovery, Container: t.info.Container, HealthCheck: t.info.HealthCheck, KillPolicy: t.info.KillPolicy,
	}
	if t.executorID != "" {
		out.ExecutorID = &mesos.ExecutorID{Value: t.executorID}
	}
	for _, s := range t.statuses {
		out.Statuses = append(out.Statuses, *s)
	}
	return out
}

func (m *master) getRoles() *mesosmaster.Response_GetRoles {
	out := &mesosmaster.Response_GetRoles{}
	roles := map[string]*mesos.Role{}
	role := func(name string) *mesos.Role {
		if roles[name] == nil {
			roles[name] = &mesos.Role{Name: name, Weight: m.alloc.weight(name)}
		}
		return roles[name]
	}
	for _, f := range m.sortedFrameworks() {
		for _, name := range f.roles {
			r := role(name)
			r.Frameworks = append(r.Frameworks, mesos.FrameworkID{Value: f.id})
		}
	}
	for name := range m.registry.quota {
		role(name)
	}
	for name, s := range m.alloc.roles {
		for resource, v := range s.scalars {
			if v > 0 {
				r := role(name)
				r.Resources = append(r.Resources, mesos.Resource{Name: resource, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: float64(v) / 1000}})
			}
		}
	}
	for _, name := range sortedKeys(roles) {
		rs := roles[name].Resources
		sort.Slice(rs, func(i, j int) bool { return rs[i].Name < rs[j].Name })
		out.Roles = append(out.Roles, *roles[name])
	}
	return out
}

// flags lists the master flags that matter to a scheduler.
func (m *master) flags() []mesos.Flag {
	flag := func(name, value string) mesos.Flag { return mesos.Flag{Name: name, Value: proto.String(value)} }
	t := &m.c.timing
	out := []mesos.Flag{flag("allocation_interval", durationText(t.AllocationInterval)), flag("agent_ping_timeout", durationText(t.PingTimeout)),
		flag("agent_reregister_timeout", durationText(t.AgentReregister)), flag("min_allocatable_resources", m.c.opts.MinAllocatable)}
	if t.OfferTimeout > 0 {
		out = append(out, flag("offer_timeout", durationText(t.OfferTimeout)))
	}
	return out
}

// metrics lists a few of the master's metrics.
func (m *master) metrics() []mesos.Metric {
	metric := func(name string, v float64) mesos.Metric { return mesos.Metric{Name: name, Value: proto.Float64(v)} }
	connected := 0
	for _, v := range m.agents {
		if v.connected {
			connected++
		}
	}
	return []mesos.Metric{metric("master/elected", 1), metric("master/uptime_secs", m.now().Sub(m.started).Round(time.Millisecond).Seconds()),
		metric("master/slaves_connected", float64(connected)), metric("master/outstanding_offers", float64(len(m.offers))),
		metric("master/frameworks_connected", float64(len(m.frameworks)))}
}
