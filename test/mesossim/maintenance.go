// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"sort"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesosalloc "github.com/mesos/mesos-go/api/v1/lib/allocator"
	mesosmaint "github.com/mesos/mesos-go/api/v1/lib/maintenance"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

type machine struct{ hostname, ip string }

func machineOf(id *mesos.MachineID) machine { return machine{id.GetHostname(), id.GetIP()} }

// maintenance is the schedule and which machines are down.
type maintenance struct {
	schedule mesosmaint.Schedule
	windows  map[machine]mesos.Unavailability
	isDown   map[machine]bool
}

func newMaintenance() *maintenance {
	return &maintenance{windows: map[machine]mesos.Unavailability{}, isDown: map[machine]bool{}}
}

func (s *maintenance) down(hostname, ip string) bool {
	return s.isDown[machine{hostname, ip}] || s.isDown[machine{hostname, ""}] || s.isDown[machine{"", ip}]
}

// unavailability returns the window of a machine, nil if there is none.
func (s *maintenance) unavailability(hostname, ip string) *mesos.Unavailability {
	if len(s.windows) == 0 {
		return nil
	}
	for _, key := range []machine{{hostname, ip}, {hostname, ""}, {"", ip}} {
		if u, ok := s.windows[key]; ok {
			return &u
		}
	}
	return nil
}

// updateSchedule is UPDATE_MAINTENANCE_SCHEDULE: offers of the agents concerned are rescinded and made again.
func (m *master) updateSchedule(schedule mesosmaint.Schedule) {
	s := m.registry.schedule
	s.schedule, s.windows = schedule, map[machine]mesos.Unavailability{}
	for i := range schedule.Windows {
		w := &schedule.Windows[i]
		for j := range w.MachineIDs {
			s.windows[machineOf(&w.MachineIDs[j])] = w.Unavailability
		}
	}
	for _, v := range m.sortedAgents() {
		m.rescindAll(v)
		m.rescindInverse(v)
		m.c.post(func() { m.alloc.run(m.alloc.candidates(map[*agentView]struct{}{v: {}})) })
	}
}

// setDown is START_MAINTENANCE or STOP_MAINTENANCE. It returns a text if a machine is not in the state for it.
func (m *master) setDown(ids []mesos.MachineID, down bool) string {
	s := m.registry.schedule
	for i := range ids {
		key := machineOf(&ids[i])
		if _, ok := s.windows[key]; !ok {
			return "Machine '" + machineText(key) + "' is not part of a maintenance schedule"
		}
		if down && s.isDown[key] {
			return "Machine '" + machineText(key) + "' is not in DRAINING mode and cannot be brought down"
		}
		if !down && !s.isDown[key] {
			return "Machine '" + machineText(key) + "' is not in DOWN mode and cannot be brought up"
		}
	}
	for i := range ids {
		key := machineOf(&ids[i])
		if !down {
			delete(s.isDown, key)
			delete(s.windows, key)
			continue
		}
		s.isDown[key] = true
		for _, v := range m.sortedAgents() {
			if s.down(v.info.Hostname, v.ip()) {
				m.toAgent(v, func(a *agent) {
					a.shutdownAll()
					a.registered = false
				})
				m.removeOrderly(v, "Operator initiated 'Machine DOWN'")
			}
		}
	}
	return ""
}

func machineText(k machine) string {
	return `{"hostname":"` + k.hostname + `","ip":"` + k.ip + `"}`
}

// An inverseOffer asks a framework to give up its resources on an agent.
type inverseOffer struct {
	id        string
	serial    int
	framework *framework
	agent     *agentView
}

// inverseRun sends inverse offers: one is outstanding for a framework and an agent at a time.
func (m *master) inverseRun() {
	if len(m.registry.schedule.windows) == 0 {
		return
	}
	now := m.now()
	for _, f := range m.sortedFrameworks() {
		if !f.connected || !f.active {
			continue
		}
		var out []mesos.InverseOffer
		for _, v := range m.sortedAgents() {
			window := m.registry.schedule.unavailability(v.info.Hostname, v.ip())
			if window == nil || !m.uses(f, v) || f.inverseOn(v) {
				continue
			}
			if until, ok := f.inverseFilters[v.id]; ok && !now.After(until) {
				continue
			}
			o := &inverseOffer{serial: m.nextOffer, id: m.nextOfferID(), framework: f, agent: v}
			m.inverse[o.id], f.inverse[o.id], v.inverse[o.id] = o, o, o
			out = append(out, mesos.InverseOffer{OfferID: mesos.OfferID{Value: o.id}, URL: v.url(), FrameworkID: mesos.FrameworkID{Value: f.id},
				AgentID: &mesos.AgentID{Value: v.id}, Unavailability: *window})
		}
		if len(out) > 0 {
			f.send(&scheduler.Event{Type: scheduler.Event_INVERSE_OFFERS, InverseOffers: &scheduler.Event_InverseOffers{InverseOffers: out}})
		}
	}
}

// uses says whether the framework has tasks or executors on the agent.
func (m *master) uses(f *framework, v *agentView) bool {
	if len(f.executors[v.id]) > 0 {
		return true
	}
	for t := range v.tasks {
		if t.framework == f && !terminal(t.state) {
			return true
		}
	}
	return false
}

func (f *framework) inverseOn(v *agentView) bool {
	for _, o := range f.inverse {
		if o.agent == v {
			return true
		}
	}
	return false
}

func (m *master) removeInverseOffer(o *inverseOffer, tell bool) {
	delete(m.inverse, o.id)
	delete(o.framework.inverse, o.id)
	delete(o.agent.inverse, o.id)
	if tell {
		o.framework.send(&scheduler.Event{Type: scheduler.Event_RESCIND_INVERSE_OFFER,
			RescindInverseOffer: &scheduler.Event_RescindInverseOffer{InverseOfferID: mesos.OfferID{Value: o.id}}})
	}
}

func (m *master) rescindInverse(v *agentView) {
	offers := make([]*inverseOffer, 0, len(v.inverse))
	for _, o := range v.inverse {
		offers = append(offers, o)
	}
	sort.Slice(offers, func(i, j int) bool { return offers[i].serial < offers[j].serial })
	for _, o := range offers {
		m.removeInverseOffer(o, true)
	}
}

// answerInverse records the answer to inverse offers. Ids that are not known are skipped.
func (m *master) answerInverse(f *framework, ids []mesos.OfferID, filters *mesos.Filters, accepted bool) {
	for i := range ids {
		o := m.inverse[ids[i].Value]
		if o == nil || o.framework != f {
			continue
		}
		status := mesosalloc.InverseOfferStatus_DECLINE
		if accepted {
			status = mesosalloc.InverseOfferStatus_ACCEPT
		}
		if o.agent.inverseAnswers == nil {
			o.agent.inverseAnswers = map[string]mesosalloc.InverseOfferStatus{}
		}
		o.agent.inverseAnswers[f.id] = mesosalloc.InverseOfferStatus{Status: status.Enum(), FrameworkID: mesos.FrameworkID{Value: f.id}, Timestamp: *timeInfo(m.now())}
		d := refuseDuration(orDefault(filters))
		f.inverseFilters[o.agent.id] = m.now().Add(max(d, time.Duration(0)))
		m.removeInverseOffer(o, false)
	}
}

// maintenanceStatus is the answer to GET_MAINTENANCE_STATUS.
func (m *master) maintenanceStatus() mesosmaint.ClusterStatus {
	s := m.registry.schedule
	var out mesosmaint.ClusterStatus
	keys := make([]machine, 0, len(s.windows))
	for k := range s.windows {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i].hostname+keys[i].ip < keys[j].hostname+keys[j].ip })
	for _, k := range keys {
		host, ip := k.hostname, k.ip
		id := mesos.MachineID{Hostname: &host, IP: &ip}
		if s.isDown[k] {
			out.DownMachines = append(out.DownMachines, id)
			continue
		}
		d := mesosmaint.ClusterStatus_DrainingMachine{ID: id}
		for _, v := range m.sortedAgents() {
			if v.info.Hostname == host && (ip == "" || v.ip() == ip) {
				for _, f := range sortedKeys(v.inverseAnswers) {
					d.Statuses = append(d.Statuses, v.inverseAnswers[f])
				}
			}
		}
		out.DrainingMachines = append(out.DrainingMachines, d)
	}
	return out
}
