// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"net/http"
	"strings"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesosexec "github.com/mesos/mesos-go/api/v1/lib/executor"
)

// executorAPI is the listener of one agent process.
type executorAPI struct {
	a          *agent
	generation int
}

func (api *executorAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := api.a
	if err := readBody(r); err != nil {
		panic(http.ErrAbortHandler)
	}
	path := strings.TrimPrefix(r.URL.Path, "/slave(1)")
	state, alive := a.waitAwake(r, api.generation)
	switch {
	case !alive:
		panic(http.ErrAbortHandler)
	case state == nodeStarting:
		writeNotFound(w)
	case path == "/api/v1/executor":
		a.serveExecutor(w, r, api.generation, state)
	case path == "/api/v1" || strings.HasPrefix(path, "/api/v1/"):
		a.serveOperator(w, r)
	default:
		writeNotFound(w)
	}
}

// waitAwake holds a request while the process is stopped.
func (a *agent) waitAwake(r *http.Request, generation int) (state nodeState, alive bool) {
	for {
		a.c.mu.Lock()
		changed := a.c.watch()
		stopped := a.stopped
		state, alive = a.state, a.running && a.generation == generation && !a.c.closed
		a.c.mu.Unlock()
		if !alive || !stopped {
			return state, alive
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return state, false
		}
	}
}

func (a *agent) serveExecutor(w http.ResponseWriter, r *http.Request, generation int, state nodeState) {
	a.c.busy.enter()
	left := false
	leave := func() {
		if !left {
			left = true
			a.c.busy.leave()
		}
	}
	defer leave()
	call := &mesosexec.Call{}
	hasType, herr := readCall(r, call)
	if herr == nil && state == nodeRecovering {
		herr = refuse(http.StatusServiceUnavailable, "Agent has not finished recovery")
	}
	if herr == nil {
		herr = validateExecutorCall(call, hasType)
	}
	media := ""
	if herr == nil && call.Type == mesosexec.Call_SUBSCRIBE {
		if media = acceptedMedia(r); media == "" {
			herr = notAcceptable()
		}
	}
	if herr != nil {
		herr.write(w)
		return
	}
	if call.Type == mesosexec.Call_SUBSCRIBE {
		stream := newEventStream("", media, &a.c.busy)
		a.c.do(func() { herr = a.subscribe(call, stream, generation) })
		if herr != nil {
			herr.write(w)
			return
		}
		defer a.c.busy.open()()
		leave()
		stream.serve(w, r)
		a.c.do(func() {
			if e := a.executorOf(call); e != nil && e.conn == stream {
				e.conn = nil // the executor counts as running all the same
			}
		})
		return
	}
	a.c.do(func() { herr = a.executorCall(call, generation) })
	if herr != nil {
		herr.write(w)
		return
	}
	writeAccepted(w)
}

func validateExecutorCall(call *mesosexec.Call, hasType bool) *httpError {
	bad := func(format string, args ...any) *httpError {
		return refuse(http.StatusBadRequest, "Failed to validate Executor::Call: "+format, args...)
	}
	if !hasType {
		return bad("Expecting 'type' to be present")
	}
	switch call.Type {
	case mesosexec.Call_SUBSCRIBE:
		if call.Subscribe == nil {
			return bad("Expecting 'subscribe' to be present")
		}
	case mesosexec.Call_UPDATE:
		if call.Update == nil {
			return bad("Expecting 'update' to be present")
		}
		status := &call.Update.Status
		if status.UUID == nil {
			return bad("Expecting 'uuid' to be present")
		}
		if len(status.UUID) != 16 {
			return bad("Not a valid UUID")
		}
		if status.ExecutorID != nil && status.ExecutorID.Value != call.ExecutorID.Value {
			return bad("ExecutorID in Call: %s does not match ExecutorID in TaskStatus: %s", call.ExecutorID.Value, status.ExecutorID.Value)
		}
		if status.Source == nil || *status.Source != mesos.SOURCE_EXECUTOR {
			return bad("Received Call from executor %s of framework %s with invalid source, expecting 'SOURCE_EXECUTOR'", call.ExecutorID.Value, call.FrameworkID.Value)
		}
		if status.GetState() == mesos.TASK_STAGING {
			return bad("Received TASK_STAGING from executor %s of framework %s which is not allowed", call.ExecutorID.Value, call.FrameworkID.Value)
		}
	case mesosexec.Call_MESSAGE:
		if call.Message == nil {
			return bad("Expecting 'message' to be present")
		}
	}
	return nil
}

func (a *agent) executorOf(call *mesosexec.Call) *executor {
	if f := a.frameworks[call.FrameworkID.Value]; f != nil {
		return f.executors[call.ExecutorID.Value]
	}
	return nil
}

func (a *agent) lookUp(call *mesosexec.Call) (*executor, *httpError) {
	f := a.frameworks[call.FrameworkID.Value]
	if f == nil {
		return nil, refuse(http.StatusBadRequest, "Framework cannot be found")
	}
	e := f.executors[call.ExecutorID.Value]
	if e == nil || e.state == executorTerminated {
		return nil, refuse(http.StatusBadRequest, "Executor cannot be found")
	}
	return e, nil
}

// executorCall is every call but SUBSCRIBE.
func (a *agent) executorCall(call *mesosexec.Call, generation int) *httpError {
	if a.generation != generation || !a.running {
		return refuse(http.StatusServiceUnavailable, "Agent has not finished recovery")
	}
	e, herr := a.lookUp(call)
	if herr != nil {
		return herr
	}
	if e.state == executorRegistering {
		return refuse(http.StatusForbidden, "Executor is not subscribed")
	}
	switch call.Type {
	case mesosexec.Call_UPDATE:
		a.update(e, &call.Update.Status)
	case mesosexec.Call_MESSAGE:
		framework, id, data := e.framework.id, e.id, call.Message.Data
		a.toMaster(func(m *master, v *agentView) { m.executorMessage(v, framework, id, data) })
	case mesosexec.Call_HEARTBEAT:
	default:
		return refuse(http.StatusNotImplemented, "")
	}
	return nil
}

// update takes a status of an executor. It is acknowledged to the executor when the agent has it, which says nothing
// of the framework. Updates of tasks that the agent does not know are passed on all the same, but not acknowledged.
func (a *agent) update(e *executor, in *mesos.TaskStatus) {
	if e.framework.terminating {
		return
	}
	id := in.TaskID.Value
	status := *in
	status.AgentID = &mesos.AgentID{Value: a.id}
	if status.Timestamp == nil {
		status.Timestamp = proto.Float64(seconds(a.c.now()))
	}
	if status.GetState() == mesos.TASK_UNREACHABLE || status.GetState() == mesos.TASK_UNKNOWN {
		// A real agent takes these states and its master aborts later. This one takes the call and ignores the state.
		e.acknowledge(id, in.UUID)
		return
	}
	if e.terminated[id] != nil {
		e.acknowledge(id, in.UUID)
		return
	}
	if e.launched[id] == nil && !e.isQueued(id) {
		a.forward(e.framework, &status, e)
		return
	}
	status.ContainerStatus = e.containerStatus(id)
	a.forward(e.framework, &status, e)
	e.acknowledge(id, in.UUID)
}

func (e *executor) isQueued(taskID string) bool {
	for _, q := range e.queue {
		for _, info := range q.tasks {
			if info.TaskID.Value == taskID {
				return true
			}
		}
	}
	return false
}

func (e *executor) acknowledge(taskID string, id []byte) {
	e.send(&mesosexec.Event{Type: mesosexec.Event_ACKNOWLEDGED, Acknowledged: &mesosexec.Event_Acknowledged{TaskID: mesos.TaskID{Value: taskID}, UUID: id}})
}

// subscribe handles SUBSCRIBE: it replaces an earlier connection, takes what the executor still has to tell, drops
// what the executor does not know, and then sends what is queued.
func (a *agent) subscribe(call *mesosexec.Call, stream *eventStream, generation int) *httpError {
	if a.generation != generation || !a.running {
		return refuse(http.StatusServiceUnavailable, "Agent has not finished recovery")
	}
	e, herr := a.lookUp(call)
	if herr != nil {
		return herr
	}
	e.conn.end()
	e.conn = stream
	if e.state == executorTerminating || e.framework.terminating || e.doom != nil {
		e.send(&mesosexec.Event{Type: mesosexec.Event_SHUTDOWN})
		stream.end()
		return nil
	}
	e.stopTimer()
	e.awaitBack = false
	e.state = executorRunning
	for i := range call.Subscribe.UnacknowledgedUpdates {
		a.update(e, &call.Subscribe.UnacknowledgedUpdates[i].Status)
	}
	known := map[string]bool{}
	for i := range call.Subscribe.UnacknowledgedTasks {
		known[call.Subscribe.UnacknowledgedTasks[i].TaskID.Value] = true
	}
	for _, t := range e.sortedLaunched() {
		if id := t.info.TaskID.Value; t.state == mesos.TASK_STAGING && !known[id] {
			a.forward(e.framework, a.madeStatus(id, e.id, e.framework.lost(mesos.TASK_DROPPED), mesos.REASON_AGENT_RESTARTED,
				"Task launched during agent restart"), e)
		}
	}
	if len(e.queue) == 0 && e.everLaunched == 0 {
		e.queue = nil
		a.shutdown(e)
		return nil
	}
	info := a.info
	info.ID = &mesos.AgentID{Value: a.id}
	e.send(&mesosexec.Event{Type: mesosexec.Event_SUBSCRIBED, Subscribed: &mesosexec.Event_Subscribed{
		ExecutorInfo: *e.info, FrameworkInfo: *e.framework.info, AgentInfo: info, ContainerID: &mesos.ContainerID{Value: e.container}}})
	queue := e.queue
	e.queue = nil
	for _, q := range queue {
		e.launch(q)
	}
	var beat func()
	beat = func() {
		if e.conn == stream {
			e.send(&mesosexec.Event{Type: mesosexec.Event_HEARTBEAT})
			a.after(executorHeartbeat, beat)
		}
	}
	a.after(executorHeartbeat, beat)
	return nil
}
