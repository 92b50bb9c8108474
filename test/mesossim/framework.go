// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"slices"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// A framework is the master's record of a framework.
type framework struct {
	m    *master
	id   string
	info *mesos.FrameworkInfo // never changed in place
	caps map[mesos.FrameworkInfo_Capability_Type]bool

	principal                    string // the authenticated one
	stream                       *eventStream
	connected, active, recovered bool
	registered, reregistered     time.Time
	unregistered                 time.Time
	subscribes                   int

	roles       []string
	suppressed  map[string]bool
	constraints *offerConstraints

	tasks       map[string]*task
	unreachable []*task                             // oldest first
	completed   []*task                             // oldest first
	executors   map[string]map[string]*executorView // by agent id, executor id
	offers      map[string]*offer
	inverse     map[string]*inverseOffer
	used        map[string]bag // allocated resources by role
	share       map[string]*share

	filters        map[string]map[string][]refusal // by role, agent id
	inverseFilters map[string]time.Time            // by agent id

	stopFailover  func()
	stopHeartbeat func()
}

// An executorView is the master's record of an executor.
type executorView struct {
	info      *mesos.ExecutorInfo
	resources bag
}

func newFramework(m *master, id string, info *mesos.FrameworkInfo) *framework {
	f := &framework{m: m, id: id, suppressed: map[string]bool{}, tasks: map[string]*task{}, executors: map[string]map[string]*executorView{},
		offers: map[string]*offer{}, inverse: map[string]*inverseOffer{}, used: map[string]bag{}, share: map[string]*share{},
		filters: map[string]map[string][]refusal{}, inverseFilters: map[string]time.Time{}}
	f.setInfo(info)
	return f
}

func (f *framework) setInfo(info *mesos.FrameworkInfo) {
	copied := *info
	copied.ID = &mesos.FrameworkID{Value: f.id}
	f.info = &copied
	f.caps = capabilitiesOf(info)
	f.roles = rolesOf(info)
}

func capabilitiesOf(info *mesos.FrameworkInfo) map[mesos.FrameworkInfo_Capability_Type]bool {
	caps := map[mesos.FrameworkInfo_Capability_Type]bool{}
	for i := range info.Capabilities {
		caps[info.Capabilities[i].Type] = true
	}
	return caps
}

func rolesOf(info *mesos.FrameworkInfo) []string {
	if capabilitiesOf(info)[mesos.FrameworkInfo_Capability_MULTI_ROLE] {
		return info.Roles
	}
	if info.Role != nil {
		return []string{*info.Role}
	}
	return []string{"*"}
}

func (f *framework) has(c mesos.FrameworkInfo_Capability_Type) bool { return f.caps[c] }

func (f *framework) partitionAware() bool {
	return f.has(mesos.FrameworkInfo_Capability_PARTITION_AWARE)
}

func (f *framework) checkpoints() bool { return f.info.GetCheckpoint() }

// lost returns s if the framework is partition-aware, else TASK_LOST.
func (f *framework) lost(s mesos.TaskState) mesos.TaskState {
	if f.partitionAware() {
		return s
	}
	return mesos.TASK_LOST
}

func (f *framework) send(e *scheduler.Event) bool {
	if !f.connected || f.stream == nil {
		return false
	}
	f.stream.send(e)
	return true
}

func (f *framework) stopTimers() {
	if f.stopFailover != nil {
		f.stopFailover()
		f.stopFailover = nil
	}
	if f.stopHeartbeat != nil {
		f.stopHeartbeat()
		f.stopHeartbeat = nil
	}
}

// subscribe handles SUBSCRIBE after the answer 200 was decided. It returns the text of the ERROR event that ends the
// stream, or "".
func (m *master) subscribe(stream *eventStream, principal string, call *scheduler.Call_Subscribe, constraints *offerConstraints) string {
	info := call.FrameworkInfo
	if text := m.validateFrameworkInfo(info); text != "" {
		return text
	}
	if text := validateSuppressed(call.SuppressedRoles, rolesOf(info)); text != "" {
		return text
	}
	if text := constraints.validate(rolesOf(info)); text != "" {
		return text
	}
	id := info.GetID().GetValue()
	if id != "" && m.wasRemoved(id) {
		return "Framework has been removed"
	}
	f := m.frameworks[id]
	if id == "" || f == nil {
		if id == "" {
			id = m.nextFrameworkID()
		}
		f = newFramework(m, id, info)
		f.registered = m.now()
		f.reregistered = f.registered
		m.frameworks[id] = f
		m.connect(f, stream, principal, call.SuppressedRoles, constraints)
		m.alloc.addFramework(f)
		m.notifyFrameworkAdded(f)
		return ""
	}
	if text := changedPrincipal(f.info, info); text != "" && !f.recovered {
		return text
	}
	merged := *info
	if !f.recovered { // user and checkpoint cannot be changed; the old values win silently
		merged.User, merged.Checkpoint = f.info.User, f.info.Checkpoint
	}
	wasActive := f.active
	f.stopTimers()
	if f.connected {
		f.send(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "Framework failed over"}})
		f.stream.end()
	}
	oldRoles := f.roles
	f.recovered = false
	f.setInfo(&merged)
	f.reregistered = m.now()
	for _, o := range sortedOffers(f.offers) { // the new stream is told nothing of these
		m.removeOffer(o, offerLost)
		m.alloc.recover(f, o.agent, o.resources, nil)
	}
	for _, o := range f.inverse {
		m.removeInverseOffer(o, false)
	}
	m.connect(f, stream, principal, call.SuppressedRoles, constraints)
	m.alloc.rolesChanged(f, oldRoles)
	if !wasActive {
		m.alloc.request(nil)
	}
	m.tellFrameworkUpdated(f)
	m.notifyFrameworkUpdated(f)
	return ""
}

func (m *master) nextFrameworkID() string {
	id := m.id + "-" + pad4(m.nextFramework)
	m.nextFramework++
	return id
}

// connect binds the stream and sends what every good stream begins with.
func (m *master) connect(f *framework, stream *eventStream, principal string, suppressed []string, constraints *offerConstraints) {
	f.stream, f.connected, f.active, f.principal = stream, true, true, principal
	f.subscribes++
	f.constraints = constraints
	m.setSuppressed(f, suppressed)
	interval := m.c.timing.Heartbeat
	f.send(&scheduler.Event{Type: scheduler.Event_SUBSCRIBED, Subscribed: &scheduler.Event_Subscribed{
		FrameworkID: &mesos.FrameworkID{Value: f.id}, HeartbeatIntervalSeconds: proto.Float64(interval.Seconds()), MasterInfo: m.info()}})
	var beat func()
	beat = func() {
		f.send(&scheduler.Event{Type: scheduler.Event_HEARTBEAT})
		f.stopHeartbeat = m.c.after(interval, beat)
	}
	beat()
	m.c.records.subscribed(f)
}

// setSuppressed replaces the suppressed roles; un-suppressing clears the role's filters.
func (m *master) setSuppressed(f *framework, roles []string) {
	for role := range f.suppressed {
		if !slices.Contains(roles, role) {
			delete(f.suppressed, role)
			delete(f.filters, role)
		}
	}
	for _, role := range roles {
		f.suppressed[role] = true
	}
}

// disconnected handles the end of a stream on the client's side.
func (m *master) disconnected(stream *eventStream) {
	if m.ended {
		return
	}
	for _, f := range m.frameworks {
		if f.stream == stream && f.connected {
			m.deactivate(f)
			f.connected, f.stream = false, nil
			f.stopTimers()
			timeout := failoverTimeout(f.info)
			if timeout <= 0 {
				m.removeFramework(f)
				return
			}
			f.stopFailover = m.c.after(timeout, func() { m.removeFramework(f) })
			return
		}
	}
}

// deactivate takes back all offers and clears the filters.
func (m *master) deactivate(f *framework) {
	f.active = false
	for _, o := range sortedOffers(f.offers) {
		m.removeOffer(o, offerLost)
		m.alloc.recover(f, o.agent, o.resources, nil)
	}
	for _, o := range f.inverse {
		m.removeInverseOffer(o, false)
	}
	clear(f.filters)
	clear(f.inverseFilters)
}

// removeFramework ends a framework for good: nobody is told of its tasks.
func (m *master) removeFramework(f *framework) {
	if m.frameworks[f.id] != f {
		return
	}
	m.deactivate(f)
	f.stopTimers()
	f.stream.end()
	f.connected, f.stream = false, nil
	f.unregistered = m.now()
	for _, v := range m.sortedAgents() {
		m.toAgent(v, func(a *agent) { a.shutdownFramework(f.id) })
	}
	for _, t := range sortedTasks(f.tasks) {
		if !terminal(t.state) {
			t.state = mesos.TASK_KILLED
			t.rec.note(m.c, Transition{State: mesos.TASK_KILLED, Source: "SOURCE_MASTER", Reason: "REASON_FRAMEWORK_REMOVED"})
			m.recoverTask(t)
		}
		m.removeTask(t)
	}
	for agentID, executors := range f.executors {
		for id := range executors {
			m.removeExecutor(f, agentID, id)
		}
	}
	delete(m.frameworks, f.id)
	m.completed = append(m.completed, f)
	if len(m.completed) > maxCompletedFramework {
		m.completed = m.completed[1:]
	}
	m.c.records.frameworkRemoved(f)
	m.notifyFrameworkRemoved(f)
	for _, v := range m.sortedAgents() {
		m.checkDrained(v)
	}
}

func failoverTimeout(info *mesos.FrameworkInfo) time.Duration {
	return time.Duration(info.GetFailoverTimeout() * float64(time.Second))
}

// tellFrameworkUpdated is UpdateFrameworkMessage to all agents: they send every pending update again at once.
func (m *master) tellFrameworkUpdated(f *framework) {
	for _, v := range m.sortedAgents() {
		m.toAgent(v, func(a *agent) { a.updateFramework(f.id, f.info) })
	}
}
