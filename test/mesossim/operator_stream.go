// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesosmaster "github.com/mesos/mesos-go/api/v1/lib/master"
)

// maxWatchers is the number of operator streams; one more closes the oldest.
const maxWatchers = 1000

// A watcher is one operator event stream.
type watcher struct {
	stream *eventStream
	stop   func()
}

func (w *watcher) close() {
	w.stop()
	w.stream.end()
}

func (m *master) watch(stream *eventStream) {
	w := &watcher{stream: stream}
	interval := m.c.timing.Heartbeat
	stream.send(&mesosmaster.Event{Type: mesosmaster.Event_SUBSCRIBED, Subscribed: &mesosmaster.Event_Subscribed{
		GetState: m.getState(), HeartbeatIntervalSeconds: proto.Float64(interval.Seconds())}})
	var beat func()
	beat = func() {
		stream.send(&mesosmaster.Event{Type: mesosmaster.Event_HEARTBEAT})
		w.stop = m.c.after(interval, beat)
	}
	beat()
	m.watchers = append(m.watchers, w)
	if len(m.watchers) > maxWatchers {
		m.watchers[0].close()
		m.watchers = m.watchers[1:]
	}
}

func (m *master) unwatch(stream *eventStream) {
	for i, w := range m.watchers {
		if w.stream == stream {
			w.close()
			m.watchers = append(m.watchers[:i:i], m.watchers[i+1:]...)
			return
		}
	}
}

func (m *master) notify(make func() *mesosmaster.Event) {
	if len(m.watchers) == 0 {
		return
	}
	event := make()
	for _, w := range m.watchers {
		w.stream.send(event)
	}
}

func (m *master) notifyTaskAdded(t *task) {
	m.notify(func() *mesosmaster.Event {
		return &mesosmaster.Event{Type: mesosmaster.Event_TASK_ADDED, TaskAdded: &mesosmaster.Event_TaskAdded{Task: taskMessage(t)}}
	})
}

func (m *master) notifyTaskUpdated(t *task, status *mesos.TaskStatus) {
	m.notify(func() *mesosmaster.Event {
		return &mesosmaster.Event{Type: mesosmaster.Event_TASK_UPDATED, TaskUpdated: &mesosmaster.Event_TaskUpdated{
			FrameworkID: mesos.FrameworkID{Value: t.framework.id}, Status: *status, State: t.state.Enum()}}
	})
}

// eventFramework is a framework as the stream's events show it: with an end, which is 0 while there is none.
func (m *master) eventFramework(f *framework) mesosmaster.Response_GetFrameworks_Framework {
	out := m.frameworkMessage(f)
	out.Offers, out.InverseOffers, out.AllocatedResources, out.OfferedResources = nil, nil, nil, nil
	if out.UnregisteredTime == nil {
		out.UnregisteredTime = timeInfo(time.Unix(0, 0))
	}
	return out
}

func (m *master) notifyFrameworkAdded(f *framework) {
	m.notify(func() *mesosmaster.Event {
		return &mesosmaster.Event{Type: mesosmaster.Event_FRAMEWORK_ADDED, FrameworkAdded: &mesosmaster.Event_FrameworkAdded{Framework: m.eventFramework(f)}}
	})
}

func (m *master) notifyFrameworkUpdated(f *framework) {
	m.notify(func() *mesosmaster.Event {
		return &mesosmaster.Event{Type: mesosmaster.Event_FRAMEWORK_UPDATED, FrameworkUpdated: &mesosmaster.Event_FrameworkUpdated{Framework: m.eventFramework(f)}}
	})
}

func (m *master) notifyFrameworkRemoved(f *framework) {
	m.notify(func() *mesosmaster.Event {
		return &mesosmaster.Event{Type: mesosmaster.Event_FRAMEWORK_REMOVED, FrameworkRemoved: &mesosmaster.Event_FrameworkRemoved{FrameworkInfo: *f.info}}
	})
}

func (m *master) notifyAgentAdded(v *agentView) {
	m.notify(func() *mesosmaster.Event {
		return &mesosmaster.Event{Type: mesosmaster.Event_AGENT_ADDED, AgentAdded: &mesosmaster.Event_AgentAdded{Agent: m.agentMessage(v)}}
	})
}

func (m *master) notifyAgentRemoved(id string) {
	m.notify(func() *mesosmaster.Event {
		return &mesosmaster.Event{Type: mesosmaster.Event_AGENT_REMOVED, AgentRemoved: &mesosmaster.Event_AgentRemoved{AgentID: mesos.AgentID{Value: id}}}
	})
}
