// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesosagent "github.com/mesos/mesos-go/api/v1/lib/agent"
	mesosmaster "github.com/mesos/mesos-go/api/v1/lib/master"
	mesosquota "github.com/mesos/mesos-go/api/v1/lib/quota"
)

// serveOperator is the master's operator API.
func (c *Cluster) serveOperator(w http.ResponseWriter, r *http.Request) {
	c.busy.enter()
	left := false
	leave := func() {
		if !left {
			left = true
			c.busy.leave()
		}
	}
	defer leave()
	call := &mesosmaster.Call{}
	hasType, herr := readCall(r, call)
	if herr == nil {
		herr = validateOperatorCall(call, hasType)
	}
	media := ""
	if herr == nil {
		if media = acceptedMedia(r); media == "" {
			herr = notAcceptable()
		}
	}
	if herr != nil {
		herr.write(w)
		return
	}
	if call.Type == mesosmaster.Call_SUBSCRIBE {
		stream := newEventStream("", media, &c.busy)
		if !c.do(func() { c.m.watch(stream) }) {
			return
		}
		defer c.busy.open()()
		leave()
		stream.serve(w, r)
		c.do(func() { c.m.unwatch(stream) })
		return
	}
	var response *mesosmaster.Response
	c.do(func() { response, herr = c.m.operate(call) })
	switch {
	case herr != nil:
		herr.write(w)
	case response == nil:
		w.Header()["Content-Type"] = nil
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	default:
		writeAnswer(w, media, response)
	}
}

func writeAnswer(w http.ResponseWriter, media string, m any) {
	body := encode(media, m)
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body)
}

func validateOperatorCall(call *mesosmaster.Call, hasType bool) *httpError {
	absent := func(name string) *httpError {
		return refuse(http.StatusBadRequest, "Failed to validate master::Call: Expecting '%s' to be present", name)
	}
	if !hasType {
		return absent("type")
	}
	needs := []struct {
		kind mesosmaster.Call_Type
		name string
		has  bool
	}{
		{mesosmaster.Call_TEARDOWN, "teardown", call.Teardown != nil},
		{mesosmaster.Call_MARK_AGENT_GONE, "mark_agent_gone", call.MarkAgentGone != nil},
		{mesosmaster.Call_DRAIN_AGENT, "drain_agent", call.DrainAgent != nil},
		{mesosmaster.Call_DEACTIVATE_AGENT, "deactivate_agent", call.DeactivateAgent != nil},
		{mesosmaster.Call_REACTIVATE_AGENT, "reactivate_agent", call.ReactivateAgent != nil},
		{mesosmaster.Call_UPDATE_QUOTA, "update_quota", call.UpdateQuota != nil},
		{mesosmaster.Call_UPDATE_WEIGHTS, "update_weights", call.UpdateWeights != nil},
		{mesosmaster.Call_UPDATE_MAINTENANCE_SCHEDULE, "update_maintenance_schedule", call.UpdateMaintenanceSchedule != nil},
		{mesosmaster.Call_START_MAINTENANCE, "start_maintenance", call.StartMaintenance != nil},
		{mesosmaster.Call_STOP_MAINTENANCE, "stop_maintenance", call.StopMaintenance != nil},
		{mesosmaster.Call_RESERVE_RESOURCES, "reserve_resources", call.ReserveResources != nil},
		{mesosmaster.Call_UNRESERVE_RESOURCES, "unreserve_resources", call.UnreserveResources != nil},
	}
	for _, n := range needs {
		if call.Type == n.kind && !n.has {
			return absent(n.name)
		}
	}
	return nil
}

// operate handles every call but SUBSCRIBE. No response and no error is 200 without a body.
func (m *master) operate(call *mesosmaster.Call) (*mesosmaster.Response, *httpError) {
	switch call.Type {
	case mesosmaster.Call_GET_HEALTH:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_HEALTH, GetHealth: &mesosmaster.Response_GetHealth{Healthy: true}}, nil
	case mesosmaster.Call_GET_VERSION:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_VERSION, GetVersion: &mesosmaster.Response_GetVersion{VersionInfo: versionInfo()}}, nil
	case mesosmaster.Call_GET_FLAGS:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_FLAGS, GetFlags: &mesosmaster.Response_GetFlags{Flags: m.flags()}}, nil
	case mesosmaster.Call_GET_METRICS:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_METRICS, GetMetrics: &mesosmaster.Response_GetMetrics{Metrics: m.metrics()}}, nil
	case mesosmaster.Call_GET_MASTER:
		at := seconds(m.started)
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_MASTER, GetMaster: &mesosmaster.Response_GetMaster{MasterInfo: m.info(), StartTime: &at, ElectedTime: &at}}, nil
	case mesosmaster.Call_GET_STATE:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_STATE, GetState: m.getState()}, nil
	case mesosmaster.Call_GET_AGENTS:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_AGENTS, GetAgents: m.getAgents()}, nil
	case mesosmaster.Call_GET_FRAMEWORKS:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_FRAMEWORKS, GetFrameworks: m.getFrameworks()}, nil
	case mesosmaster.Call_GET_EXECUTORS:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_EXECUTORS, GetExecutors: m.getExecutors()}, nil
	case mesosmaster.Call_GET_TASKS:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_TASKS, GetTasks: m.getTasks()}, nil
	case mesosmaster.Call_GET_ROLES:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_ROLES, GetRoles: m.getRoles()}, nil
	case mesosmaster.Call_GET_OPERATIONS:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_OPERATIONS, GetOperations: &mesosmaster.Response_GetOperations{}}, nil
	case mesosmaster.Call_GET_WEIGHTS:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_WEIGHTS, GetWeights: m.getWeights()}, nil
	case mesosmaster.Call_UPDATE_WEIGHTS:
		return nil, m.updateWeights(call.UpdateWeights)
	case mesosmaster.Call_GET_QUOTA:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_QUOTA, GetQuota: &mesosmaster.Response_GetQuota{Status: m.getQuota()}}, nil
	case mesosmaster.Call_UPDATE_QUOTA:
		return nil, m.updateQuota(call.UpdateQuota)
	case mesosmaster.Call_GET_MAINTENANCE_STATUS:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_MAINTENANCE_STATUS, GetMaintenanceStatus: &mesosmaster.Response_GetMaintenanceStatus{Status: m.maintenanceStatus()}}, nil
	case mesosmaster.Call_GET_MAINTENANCE_SCHEDULE:
		return &mesosmaster.Response{Type: mesosmaster.Response_GET_MAINTENANCE_SCHEDULE, GetMaintenanceSchedule: &mesosmaster.Response_GetMaintenanceSchedule{Schedule: m.registry.schedule.schedule}}, nil
	case mesosmaster.Call_UPDATE_MAINTENANCE_SCHEDULE:
		m.updateSchedule(call.UpdateMaintenanceSchedule.Schedule)
		return nil, nil
	case mesosmaster.Call_START_MAINTENANCE:
		if text := m.setDown(call.StartMaintenance.Machines, true); text != "" {
			return nil, refuse(http.StatusBadRequest, "%s", text)
		}
		return nil, nil
	case mesosmaster.Call_STOP_MAINTENANCE:
		if text := m.setDown(call.StopMaintenance.Machines, false); text != "" {
			return nil, refuse(http.StatusBadRequest, "%s", text)
		}
		return nil, nil
	case mesosmaster.Call_TEARDOWN:
		f := m.frameworks[call.Teardown.FrameworkID.Value]
		if f == nil {
			return nil, refuse(http.StatusBadRequest, "No framework found with specified ID")
		}
		m.removeFramework(f)
		return nil, nil
	case mesosmaster.Call_MARK_AGENT_GONE:
		return nil, m.operateGone(call.MarkAgentGone.AgentID.Value)
	case mesosmaster.Call_DRAIN_AGENT:
		return nil, m.operateDrain(call.DrainAgent)
	case mesosmaster.Call_DEACTIVATE_AGENT:
		v := m.agents[call.DeactivateAgent.AgentID.Value]
		if v == nil {
			return nil, refuse(http.StatusBadRequest, "Unknown agent")
		}
		m.registry.deactivated[v.id], v.deactivated = true, true
		m.alloc.update(v)
		m.rescindAll(v)
		m.rescindInverse(v)
		return nil, nil
	case mesosmaster.Call_REACTIVATE_AGENT:
		return nil, m.operateReactivate(call.ReactivateAgent.AgentID.Value)
	}
	return nil, refuse(http.StatusNotImplemented, "")
}

func (m *master) operateGone(id string) *httpError {
	if _, ok := m.registry.gone[id]; ok {
		return nil
	}
	if v := m.agents[id]; v != nil {
		m.markGone(v)
		return nil
	}
	if _, ok := m.registry.unreachable[id]; ok || m.recovered[id] {
		delete(m.registry.unreachable, id)
		delete(m.recovered, id)
		delete(m.registry.agents, id)
		m.registry.gone[id] = m.now()
		return nil
	}
	return refuse(http.StatusNotFound, "Agent '%s' not found", id)
}

func (m *master) operateDrain(call *mesosmaster.Call_DrainAgent) *httpError {
	v := m.agents[call.AgentID.Value]
	if v == nil {
		return refuse(http.StatusBadRequest, "Unknown agent")
	}
	if m.registry.schedule.unavailability(v.info.Hostname, v.ip()) != nil {
		return refuse(http.StatusBadRequest, "Agent '%s' is part of a maintenance schedule under which it may be drained", v.id)
	}
	d := &drain{markGone: call.GetMarkGone()}
	if g := call.MaxGracePeriod; g != nil {
		grace := time.Duration(g.Seconds)*time.Second + time.Duration(g.Nanos)
		d.grace = &grace
	}
	m.startDrain(v, d)
	return nil
}

func (m *master) operateReactivate(id string) *httpError {
	v := m.agents[id]
	switch {
	case v == nil:
		return refuse(http.StatusBadRequest, "Unknown agent")
	case !v.deactivated:
		return refuse(http.StatusBadRequest, "Agent is not deactivated")
	case v.draining != nil && !v.draining.done:
		return refuse(http.StatusBadRequest, "Agent is still in the DRAINING state")
	}
	delete(m.registry.deactivated, id)
	delete(m.registry.draining, id)
	v.deactivated, v.draining = false, nil
	m.toAgent(v, func(a *agent) { a.draining = nil })
	m.alloc.update(v)
	return nil
}

func (m *master) updateQuota(call *mesosmaster.Call_UpdateQuota) *httpError {
	for i := range call.QuotaConfigs {
		if text := validateRole(call.QuotaConfigs[i].Role); text != "" || call.QuotaConfigs[i].Role == "*" {
			return refuse(http.StatusBadRequest, "Invalid QuotaConfig: Invalid 'QuotaConfig.role': %s", text)
		}
	}
	for i := range call.QuotaConfigs {
		config := &call.QuotaConfigs[i]
		q := &quota{limits: map[string]int64{}, guarantees: map[string]int64{}}
		for name, v := range config.Limits {
			q.limits[name] = toMilli(v.Value)
		}
		for name, v := range config.Guarantees {
			q.guarantees[name] = toMilli(v.Value)
		}
		m.registry.quota[config.Role] = q
		m.enforceQuota(config.Role)
	}
	return nil
}

func (m *master) getQuota() mesosquota.QuotaStatus {
	var out mesosquota.QuotaStatus
	for _, role := range sortedKeys(m.registry.quota) {
		q := m.registry.quota[role]
		config := mesosquota.QuotaConfig{Role: role}
		for _, pair := range []struct {
			from map[string]int64
			to   *map[string]mesos.Value_Scalar
		}{{q.limits, &config.Limits}, {q.guarantees, &config.Guarantees}} {
			for name, v := range pair.from {
				if *pair.to == nil {
					*pair.to = map[string]mesos.Value_Scalar{}
				}
				(*pair.to)[name] = mesos.Value_Scalar{Value: float64(v) / 1000}
			}
		}
		out.Infos = append(out.Infos, mesosquota.QuotaInfo{Role: proto.String(role)})
		out.Configs = append(out.Configs, config)
	}
	return out
}

func (m *master) updateWeights(call *mesosmaster.Call_UpdateWeights) *httpError {
	for i := range call.WeightInfos {
		if call.WeightInfos[i].Weight <= 0 {
			return refuse(http.StatusBadRequest, "Failed to validate update weights request JSON: Invalid weight '%s': Weights must be positive", cxxFloat(call.WeightInfos[i].Weight))
		}
	}
	for i := range call.WeightInfos {
		m.registry.weights[call.WeightInfos[i].GetRole()] = call.WeightInfos[i].Weight
	}
	return nil
}

func (m *master) getWeights() *mesosmaster.Response_GetWeights {
	out := &mesosmaster.Response_GetWeights{}
	for _, role := range sortedKeys(m.registry.weights) {
		out.WeightInfos = append(out.WeightInfos, mesos.WeightInfo{Role: proto.String(role), Weight: m.registry.weights[role]})
	}
	if out.WeightInfos == nil {
		return nil
	}
	return out
}

func versionInfo() mesos.VersionInfo {
	return mesos.VersionInfo{Version: mesosVersion, BuildDate: proto.String("2024-08-23 18:59:00 UTC"), BuildTime: proto.Float64(1724439540),
		BuildUser: proto.String("root"), GitSHA: proto.String("c1b42f79d157aa900be5cbb0c1023f1479962aa7")}
}

// serveOperator is the part of an agent's operator API that a scheduler's user may ask.
func (a *agent) serveOperator(w http.ResponseWriter, r *http.Request) {
	a.c.busy.enter()
	defer a.c.busy.leave()
	call := &mesosagent.Call{}
	hasType, herr := readCall(r, call)
	media := acceptedMedia(r)
	switch {
	case herr != nil:
	case !hasType:
		herr = refuse(http.StatusBadRequest, "Failed to validate agent::Call: Expecting 'type' to be present")
	case media == "":
		herr = notAcceptable()
	}
	var response *mesosagent.Response
	if herr == nil {
		switch call.Type {
		case mesosagent.Call_GET_HEALTH:
			response = &mesosagent.Response{Type: mesosagent.Response_GET_HEALTH, GetHealth: &mesosagent.Response_GetHealth{Healthy: true}}
		case mesosagent.Call_GET_VERSION:
			response = &mesosagent.Response{Type: mesosagent.Response_GET_VERSION, GetVersion: &mesosagent.Response_GetVersion{VersionInfo: versionInfo()}}
		case mesosagent.Call_GET_CONTAINERS:
			a.c.do(func() { response = a.getContainers() })
		default:
			herr = refuse(http.StatusNotImplemented, "")
		}
	}
	if herr != nil || response == nil {
		if herr == nil {
			herr = refuse(http.StatusServiceUnavailable, "Agent has not finished recovery")
		}
		herr.write(w)
		return
	}
	writeAnswer(w, media, response)
}

func (a *agent) getContainers() *mesosagent.Response {
	out := &mesosagent.Response_GetContainers{}
	for _, f := range a.sortedFrameworks() {
		for _, e := range f.sortedExecutors() {
			if e.state == executorTerminated {
				continue
			}
			status := &mesos.ContainerStatus{ContainerID: &mesos.ContainerID{Value: e.container}}
			if e.process != nil {
				pid := uint32(e.process.Pid())
				status.ExecutorPID = &pid
			}
			resources := newBag(e.info.Resources)
			for _, t := range e.launched {
				resources = resources.plus(newBag(t.info.Resources))
			}
			cpus, mem := float64(resources.scalar("cpus"))/1000, uint64(resources.scalar("mem")/1000)<<20
			out.Containers = append(out.Containers, mesosagent.Response_GetContainers_Container{
				FrameworkID: &mesos.FrameworkID{Value: f.id}, ExecutorID: &mesos.ExecutorID{Value: e.id}, ExecutorName: proto.String(e.info.GetName()),
				ContainerID: mesos.ContainerID{Value: e.container}, ContainerStatus: status,
				ResourceStatistics: &mesos.ResourceStatistics{Timestamp: seconds(a.c.now()), CPUsSoftLimit: &cpus, MemLimitBytes: &mem, MemSoftLimitBytes: &mem,
					CPUsUserTimeSecs: proto.Float64(0), CPUsSystemTimeSecs: proto.Float64(0), MemRSSBytes: proto.Uint64(0)}})
		}
	}
	return &mesosagent.Response{Type: mesosagent.Response_GET_CONTAINERS, GetContainers: out}
}
