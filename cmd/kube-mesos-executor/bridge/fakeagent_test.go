// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
)

// fakeAgent is the executor API of a Mesos agent with one executor on it.
type fakeAgent struct {
	t      *testing.T
	server *httptest.Server

	mu         sync.Mutex
	refuse     func(call *executor.Call) (int, string) // answers a call in place of the agent
	stream     chan *executor.Event                    // events for the open stream; closed to end it
	subscribes []*executor.Call
	updates    []mesos.TaskStatus // in order of arrival, without repetitions
	seen       map[string]bool    // by uuid
	messages   []string
	resources  []mesos.Resource // of AgentInfo
	noAck      bool
	killing    bool
	token      string
	changed    chan struct{}
}

func newFakeAgent(t *testing.T) *fakeAgent {
	a := &fakeAgent{t: t, seen: map[string]bool{}, killing: true, changed: make(chan struct{})}
	a.server = httptest.NewServer(a)
	t.Cleanup(func() {
		a.disconnect()
		a.server.Close()
	})
	return a
}

func (a *fakeAgent) endpoint() string { return strings.TrimPrefix(a.server.URL, "http://") }

// wake tells waiting tests that something changed. The lock is held.
func (a *fakeAgent) wake() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *fakeAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.URL.Path == "/api/v1" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"type":"GET_AGENT","get_agent":{"agent_info":{"id":{"value":"agent-1"}}}}`)
		return
	}
	call := &executor.Call{}
	if err := call.Unmarshal(body); err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "Failed to parse body into Call protobuf", http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	if a.token != "" && r.Header.Get("Authorization") != "Bearer "+a.token {
		a.mu.Unlock()
		http.Error(w, "401 Unauthorized.", http.StatusUnauthorized)
		return
	}
	if a.refuse != nil {
		if code, text := a.refuse(call); code != 0 {
			if call.Type == executor.Call_SUBSCRIBE {
				a.subscribes = append(a.subscribes, call)
				a.wake()
			}
			a.mu.Unlock()
			http.Error(w, text, code)
			return
		}
	}
	switch call.Type {
	case executor.Call_SUBSCRIBE:
		a.subscribe(w, r, call)
	case executor.Call_UPDATE:
		if a.stream == nil {
			a.mu.Unlock()
			http.Error(w, "Executor is not subscribed", http.StatusForbidden)
			return
		}
		a.take(call.Update.Status)
		a.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	case executor.Call_MESSAGE:
		a.messages = append(a.messages, string(call.Message.Data))
		a.wake()
		a.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	default:
		a.mu.Unlock()
		w.WriteHeader(http.StatusNotImplemented)
	}
}

// take takes an update as an agent does: it counts once, and each arrival is acknowledged. The lock is held.
func (a *fakeAgent) take(status mesos.TaskStatus) {
	if status.GetSource() != mesos.SOURCE_EXECUTOR || len(status.UUID) != 16 || status.ExecutorID.GetValue() != "executor-1" || status.Timestamp == nil {
		a.t.Errorf("Bad update: %v", status)
	}
	if !a.seen[string(status.UUID)] {
		a.seen[string(status.UUID)] = true
		a.updates = append(a.updates, status)
	}
	if !a.noAck {
		a.put(&executor.Event{Type: executor.Event_ACKNOWLEDGED, Acknowledged: &executor.Event_Acknowledged{TaskID: status.TaskID, UUID: status.UUID}})
	}
	a.wake()
}

// put sends an event on the open stream. The lock is held.
func (a *fakeAgent) put(e *executor.Event) {
	select {
	case a.stream <- e:
	default:
		a.t.Error("The fake agent's stream is not read")
	}
}

func (a *fakeAgent) subscribe(w http.ResponseWriter, r *http.Request, call *executor.Call) {
	if a.stream != nil {
		close(a.stream)
	}
	stream := make(chan *executor.Event, 4096)
	a.stream = stream
	a.subscribes = append(a.subscribes, call)
	info := mesos.FrameworkInfo{User: "root", Name: "test"}
	if a.killing {
		info.Capabilities = []mesos.FrameworkInfo_Capability{{Type: mesos.FrameworkInfo_Capability_TASK_KILLING_STATE}}
	}
	a.put(&executor.Event{Type: executor.Event_SUBSCRIBED, Subscribed: &executor.Event_Subscribed{
		ExecutorInfo:  mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: "executor-1"}},
		FrameworkInfo: info,
		AgentInfo:     mesos.AgentInfo{Hostname: "node-1", Resources: a.resources},
	}})
	for _, u := range call.Subscribe.UnacknowledgedUpdates {
		a.take(u.Status)
	}
	a.wake()
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(http.StatusOK)
	for {
		select {
		case e, ok := <-stream:
			if !ok {
				return
			}
			b, err := e.Marshal()
			if err != nil {
				a.t.Error(err)
				return
			}
			fmt.Fprintf(w, "%d\n%s", len(b), b)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			a.mu.Lock()
			if a.stream == stream {
				a.stream = nil
			}
			a.wake()
			a.mu.Unlock()
			return
		}
	}
}

// disconnect ends the stream.
func (a *fakeAgent) disconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stream != nil {
		close(a.stream)
		a.stream = nil
	}
}

func (a *fakeAgent) send(e *executor.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stream == nil {
		a.t.Error("No stream to send on")
		return
	}
	a.put(e)
}

func (a *fakeAgent) launch(task mesos.TaskInfo) {
	a.send(&executor.Event{Type: executor.Event_LAUNCH, Launch: &executor.Event_Launch{Task: task}})
}

func (a *fakeAgent) kill(task string, grace time.Duration) {
	k := &executor.Event_Kill{TaskID: mesos.TaskID{Value: task}}
	if grace > 0 {
		k.KillPolicy = &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: int64(grace)}}
	}
	a.send(&executor.Event{Type: executor.Event_KILL, Kill: k})
}

func (a *fakeAgent) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// states returns the states that a task went through.
func (a *fakeAgent) states(task string) []mesos.TaskState {
	a.mu.Lock()
	defer a.mu.Unlock()
	var states []mesos.TaskState
	for _, u := range a.updates {
		if u.TaskID.Value == task {
			states = append(states, u.GetState())
		}
	}
	return states
}

func (a *fakeAgent) message(task string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := ""
	for _, u := range a.updates {
		if u.TaskID.Value == task {
			text = u.GetMessage()
		}
	}
	return text
}

// await waits until cond holds.
func (a *fakeAgent) await(what string, cond func() bool) {
	a.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		if cond() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			a.t.Fatalf("Waited in vain for %s", what)
		}
	}
}

func (a *fakeAgent) awaitStates(task string, want ...mesos.TaskState) {
	a.t.Helper()
	a.await(fmt.Sprintf("task %s to go through %v", task, want), func() bool {
		have := a.states(task)
		if len(have) >= len(want) && !slices.Equal(have, want) {
			a.t.Fatalf("Task %s went through %v, want %v", task, have, want)
		}
		return slices.Equal(have, want)
	})
}

func (a *fakeAgent) awaitSubscribed(times int) *executor.Call {
	a.t.Helper()
	var last *executor.Call
	a.await("a subscription", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.subscribes) >= times && a.stream != nil {
			last = a.subscribes[len(a.subscribes)-1]
		}
		return last != nil
	})
	return last
}
