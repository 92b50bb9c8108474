// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesosexec "github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
)

// described are the scenarios of the reference that no recording shows: they need several masters, a fault in the master,
// a kind of hardware, or a race that could not be provoked on the recorded cluster.
var described = []struct {
	name string
	run  func(t *testing.T)
}{
	{"C6 a standby master redirects every request to the leader", describedRedirect},
	{"C7 no leader, and a leader that is still recovering", describedNoLeader},
	{"C19 a removed id is accepted by the next leader", describedRemovedIDAfterFailOver},
	{"C20 a silent master keeps the connection open", describedSilence},
	{"C22 one OFFERS record of more than 10 MiB in 16 KiB chunks", describedHugeRecord},
	{"C23 records split at any byte are the same records", describedChunks},
	{"C1 to O3 in protobuf both ways", describedProtobuf},
	{"E1 in protobuf both ways", describedProtobufExecutor},
	{"O28 GPU agents are offered to GPU frameworks only", describedGPUs},
	{"O23 offers of an agent that became unreachable are void", describedUnreachableOffers},
	{"A1 an agent that does not come back after its link broke", describedNoReregistration},
	{"A8 a task that reaches an agent after the drain", describedLateLaunchOnDraining},
	{"1.4 user and checkpoint cannot be changed, the principal must not", describedResubscribeChanges},
	{"3.2 weights and hierarchical roles in DRF", describedFairness},
	{"4.9 revocable resources", describedRevocable},
}

// TestConformanceDescribed runs the scenarios that are written from the reference's text.
func TestConformanceDescribed(t *testing.T) {
	for _, d := range described {
		t.Run(d.name, func(t *testing.T) {
			describedTally.all.Add(1)
			d.run(t)
			if !t.Failed() {
				describedTally.passed.Add(1)
			}
		})
	}
}

// plainClient follows no redirects.
var plainClient = &http.Client{Transport: oneShot.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func request(t *testing.T, method, url string, body []byte, header http.Header) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		r.Header[k] = v
	}
	response, err := plainClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

func describedRedirect(t *testing.T) {
	c := startCluster(t, Options{Masters: 2, Agents: syntheticAgents(1), Timing: fastTiming()})
	leader, standby := c.URLs()[0], c.URLs()[1]
	for _, method := range []string{"GET", "POST", "PUT"} {
		for _, path := range []string{"/api/v1/scheduler", "/master/api/v1/scheduler"} {
			response, text := request(t, method, "http://"+standby+path, []byte("garbage"), nil)
			want := "//" + leader + "/master/api/v1/scheduler"
			if response.StatusCode != http.StatusTemporaryRedirect || response.Header.Get("Location") != want || text != "" {
				t.Errorf("%s %s: %s, Location %q, body %q; want 307 to %s", method, path, response.Status, response.Header.Get("Location"), text, want)
			}
		}
	}
	f := subscribe(t, leader, frameworkInfo("kubernetes"), nil)
	status, _ := post(standby, "/api/v1/scheduler", f.stream, obj{"type": "REVIVE", "framework_id": id(f.id)})
	// Go's client repeats a 307 by itself, so the call arrives at the leader.
	if status != http.StatusAccepted {
		t.Errorf("a redirected REVIVE: %d", status)
	}
	one := 1
	if err := c.FailOver(FailOverOptions{To: &one, KeepOld: true}); err != nil {
		t.Fatal(err)
	}
	for f.next("") != nil {
	}
	if response, _ := request(t, "POST", "http://"+leader+"/api/v1/scheduler", nil, nil); response.Header.Get("Location") != "//"+standby+"/master/api/v1/scheduler" {
		t.Errorf("the old leader: %s %v", response.Status, response.Header)
	}
	info := frameworkInfo("kubernetes")
	info["id"] = id(f.id)
	if again := subscribe(t, standby, info, nil); again.id != f.id {
		t.Errorf("the new leader gave the id %s, want %s", again.id, f.id)
	}
}

func describedNoLeader(t *testing.T) {
	clock := NewTestClock(time.Unix(1e9, 0))
	c := startCluster(t, Options{Masters: 2, Clock: clock})
	if err := c.FailOver(FailOverOptions{Vacancy: 10 * time.Second, Recovery: 5 * time.Second}); err != nil {
		t.Fatal(err)
	}
	want := func(url string, status int, text string) {
		t.Helper()
		response, body := request(t, "POST", "http://"+url+"/api/v1/scheduler", nil, http.Header{"Content-Type": {mediaJSON}})
		if response.StatusCode != status || body != text {
			t.Errorf("%s: %d %q, want %d %q", url, response.StatusCode, body, status, text)
		}
	}
	urls := c.URLs()
	want(urls[0], 503, "No leader elected")
	want(urls[1], 503, "No leader elected")
	clock.Advance(10 * time.Second)
	want(urls[1], 503, "Master has not finished recovery")
	want(urls[0], 307, "")
	clock.Advance(5 * time.Second)
	want(urls[1], 400, "Failed to parse body into JSON: syntax error at line 1 near: ")
}

func describedRemovedIDAfterFailOver(t *testing.T) {
	c := startCluster(t, Options{Timing: fastTiming()})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	f.call("TEARDOWN", nil)
	info := frameworkInfo("kubernetes")
	info["id"] = id(f.id)
	refused := subscribe(t, c.URL(), info, nil)
	if event := refused.next(""); event["type"] != "ERROR" || event["error"].(obj)["message"] != "Framework has been removed" {
		t.Errorf("the removed id: %v", event)
	}
	if event := refused.next(""); event != nil {
		t.Errorf("after the ERROR: %v", event)
	}
	if err := c.FailOver(FailOverOptions{}); err != nil {
		t.Fatal(err)
	}
	if again := subscribe(t, c.URL(), info, nil); again.id != f.id {
		t.Errorf("the next leader: id %q", again.id)
	}
}

func describedSilence(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(1), Timing: Timing{AllocationInterval: 10 * time.Millisecond, Heartbeat: 10 * time.Millisecond}})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	f.offers()
	f.next("HEARTBEAT")
	c.Faults().Silence(f.id, true)
	for drained := false; !drained; { // what was on its way
		select {
		case <-f.events:
		case <-time.After(50 * time.Millisecond):
			drained = true
		}
	}
	if n := c.Faults().RescindAll(""); n == 0 {
		t.Fatal("no offer to rescind")
	}
	select {
	case event, ok := <-f.events:
		t.Errorf("a silent master sent %v (open: %t)", event, ok)
	case <-time.After(100 * time.Millisecond):
	}
	f.call("REVIVE", nil) // calls are still answered
	c.Faults().Silence(f.id, false)
	f.next("HEARTBEAT")
}

func describedHugeRecord(t *testing.T) {
	const count = 4000
	agents := syntheticAgents(count)
	for i := range agents {
		agents[i].Attributes = "note:" + strings.Repeat("x", 2000)
	}
	c := startCluster(t, Options{Agents: agents, Timing: Timing{AllocationInterval: time.Hour}})
	c.Faults().ChunkStreams(16 << 10)
	response := rawSubscribe(t, c.URL(), mediaJSON)
	frames := mesosapi.NewFrameReader(response.Body, 0)
	for {
		frame, err := frames.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(frame[:40], []byte("OFFERS")) {
			continue
		}
		if len(frame) < 10<<20 {
			t.Errorf("the record has %d bytes", len(frame))
		}
		if n := bytes.Count(frame, []byte(`"hostname":"agent-`)); n < count {
			t.Errorf("%d offers", n)
		}
		return
	}
}

func rawSubscribe(t *testing.T, url, accept string) *http.Response {
	t.Helper()
	body := mustJSON(obj{"type": "SUBSCRIBE", "subscribe": obj{"framework_info": frameworkInfo("kubernetes")}})
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+url+"/api/v1/scheduler", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", mediaJSON)
	r.Header.Set("Accept", accept)
	response, err := oneShot.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func describedChunks(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 1000} {
		c := startCluster(t, Options{Agents: syntheticAgents(2), Timing: fastTiming()})
		c.Faults().ChunkStreams(n)
		f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
		if offers := f.offers(); len(offers) != 2 {
			t.Errorf("chunks of %d: %d offers", n, len(offers))
		}
		c.Close()
	}
}

func describedProtobuf(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(3), Timing: fastTiming()})
	if took, err := scale(t.Context(), c, 30, 5); err != nil {
		t.Fatalf("after %v: %v", took, err)
	}
	call, err := (&scheduler.Call{Type: scheduler.Call_REVIVE}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	response, text := request(t, "POST", "http://"+c.URL()+"/api/v1/scheduler", call, http.Header{"Content-Type": {mediaProtobuf}})
	if response.StatusCode != 400 || text != "Failed to validate scheduler::Call: Expecting 'framework_id' to be present" {
		t.Errorf("REVIVE without an id: %d %q", response.StatusCode, text)
	}
	response, text = request(t, "POST", "http://"+c.URL()+"/api/v1/scheduler", nil, http.Header{"Content-Type": {mediaProtobuf}})
	if response.StatusCode != 400 || text != "Failed to validate scheduler::Call: Expecting 'type' to be present" {
		t.Errorf("an empty call: %d %q", response.StatusCode, text)
	}
	stream := rawSubscribe(t, c.URL(), mediaProtobuf)
	frame, err := mesosapi.NewFrameReader(stream.Body, 0).ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	event := &scheduler.Event{}
	if err := event.Unmarshal(frame); err != nil || event.Type != scheduler.Event_SUBSCRIBED || event.Subscribed.GetHeartbeatIntervalSeconds() != 15 {
		t.Errorf("first event %v, %v", event, err)
	}
}

func describedProtobufExecutor(t *testing.T) {
	c := startCluster(t, Options{Agents: []AgentOptions{{Name: "agent-1"}}, Timing: fastTiming()})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	offer := f.offers()[0]
	f.launch(offer, executorInfo("x", "sleep 1000"), "t1")
	if err := c.Wait(t.Context(), func() bool { return len(c.Executors()) == 1 && c.Executors()[0].Pid > 0 }); err != nil {
		t.Fatal(err)
	}
	endpoint := c.Agents()[0].Endpoint
	send := func(call *mesosexec.Call) *http.Response {
		call.FrameworkID, call.ExecutorID = mesos.FrameworkID{Value: f.id}, mesos.ExecutorID{Value: "x"}
		body, err := call.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+endpoint+"/api/v1/executor", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", mediaProtobuf)
		r.Header.Set("Accept", mediaProtobuf)
		response, err := oneShot.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	response := send(&mesosexec.Call{Type: mesosexec.Call_SUBSCRIBE, Subscribe: &mesosexec.Call_Subscribe{}})
	frames := mesosapi.NewFrameReader(response.Body, 0)
	next := func() *mesosexec.Event {
		frame, err := frames.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		event := &mesosexec.Event{}
		if err := event.Unmarshal(frame); err != nil {
			t.Fatal(err)
		}
		return event
	}
	for _, kind := range []mesosexec.Event_Type{mesosexec.Event_SUBSCRIBED, mesosexec.Event_LAUNCH} {
		if event := next(); event.Type != kind {
			t.Fatalf("event %v, want %v", event, kind)
		}
	}
	fresh := uuid.New()
	if response := send(&mesosexec.Call{Type: mesosexec.Call_UPDATE, Update: &mesosexec.Call_Update{Status: mesos.TaskStatus{TaskID: mesos.TaskID{Value: "t1"},
		State: mesos.TASK_RUNNING.Enum(), Source: mesos.SOURCE_EXECUTOR.Enum(), UUID: fresh[:]}}}); response.StatusCode != 202 {
		t.Errorf("UPDATE: %s", response.Status)
	}
	if event := next(); event.Type != mesosexec.Event_ACKNOWLEDGED || !bytes.Equal(event.Acknowledged.UUID, fresh[:]) {
		t.Errorf("event %v, want ACKNOWLEDGED", event)
	}
	if status := f.update(); status["state"] != "TASK_RUNNING" || status["executor_id"] != nil {
		t.Errorf("the framework's update: %v", status)
	}
}

func describedGPUs(t *testing.T) {
	agents := syntheticAgents(1)
	agents[0].Resources = "cpus:4;mem:4096;gpus:2"
	c := startCluster(t, Options{Agents: agents, Timing: fastTiming()})
	plain := subscribe(t, c.URL(), frameworkInfo("a"), nil)
	runs := c.Counters().Allocations
	if err := c.Wait(t.Context(), func() bool { return c.Counters().Allocations > runs+3 }); err != nil {
		t.Fatal(err)
	}
	if n := c.Counters().OffersMade; n != 0 {
		t.Errorf("%d offers to a framework without GPU_RESOURCES", n)
	}
	plain.call("TEARDOWN", nil)
	info := frameworkInfo("b")
	info["capabilities"] = append(info["capabilities"].([]obj), obj{"type": "GPU_RESOURCES"})
	if offers := subscribe(t, c.URL(), info, nil).offers(); len(offers) != 1 || !strings.Contains(string(mustJSON(offers)), `"gpus"`) {
		t.Errorf("offers to a GPU framework: %s", short(offers))
	}
}

func describedUnreachableOffers(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(1), Timing: Timing{AllocationInterval: time.Hour, PingTimeout: 10 * time.Millisecond, MaxPingTimeouts: 2}})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	offer := f.offers()[0]
	c.Agent("agent-1").Cut()
	if event := f.next("RESCIND"); value(event["rescind"].(obj)["offer_id"]) != value(offer["id"]) {
		t.Errorf("RESCIND %v", event)
	}
	if event := f.next("FAILURE"); event["failure"].(obj)["executor_id"] != nil {
		t.Errorf("FAILURE %v", event)
	}
	f.launch(offer, executorInfo("x", "true"), "t1")
	status := f.update()
	want := fmt.Sprintf("Task launched with invalid offers: Offer %s is no longer valid", value(offer["id"]))
	if status["state"] != "TASK_DROPPED" || status["reason"] != "REASON_INVALID_OFFERS" || status["message"] != want || status["uuid"] != nil {
		t.Errorf("update %v", status)
	}
}

func describedNoReregistration(t *testing.T) {
	clock := NewTestClock(time.Unix(1e9, 0))
	c := startCluster(t, Options{Agents: syntheticAgents(1), Clock: clock, Timing: Timing{MaxPingTimeouts: 1000}})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	offer := f.offers()[0]
	f.launch(offer, executorInfo("x", "true"), "t1")
	f.ack(f.update())
	f.ack(f.update())
	c.Agent("agent-1").Kill()
	clock.Advance(9 * time.Minute)
	f.call("RECONCILE", obj{"tasks": []obj{{"task_id": id("t1"), "agent_id": offer["agent_id"]}}})
	if status := f.update(); status["state"] != "TASK_RUNNING" {
		t.Errorf("before the time-out: %v", status)
	}
	clock.Advance(time.Minute)
	status := f.update()
	if status["state"] != "TASK_UNREACHABLE" || status["message"] != "agent did not reregister within 10mins after disconnecting" || status["unreachable_time"] == nil {
		t.Errorf("after the time-out: %v", status)
	}
	f.next("FAILURE")
}

func describedLateLaunchOnDraining(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(1), Timing: fastTiming()})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	offer := f.offers()[0]
	// The agent has the drain before the launch: on the wire the two overtook each other.
	c.do(func() { c.byName["agent-1"].drain(&drain{}) })
	f.launch(offer, executorInfo("x", "true"), "t1")
	status := f.update()
	if status["state"] != "TASK_DROPPED" || status["source"] != "SOURCE_AGENT" || status["reason"] != "REASON_AGENT_DRAINING" ||
		status["message"] != "Task was received while agent was already draining" || status["uuid"] == nil {
		t.Errorf("update %v", status)
	}
}

func describedResubscribeChanges(t *testing.T) {
	c := startCluster(t, Options{Timing: fastTiming()})
	info := frameworkInfo("kubernetes")
	info["principal"] = "p1"
	f := subscribe(t, c.URL(), info, nil)
	info["id"], info["user"], info["checkpoint"], info["name"] = id(f.id), "nobody", false, "renamed"
	again := subscribe(t, c.URL(), info, nil)
	if again.id != f.id {
		t.Fatalf("id %q", again.id)
	}
	if got := c.Frameworks()[0].Info; got.User != "root" || !got.GetCheckpoint() || got.Name != "renamed" {
		t.Errorf("user %s, checkpoint %t, name %s", got.User, got.GetCheckpoint(), got.Name)
	}
	if event := f.next("ERROR"); event["error"].(obj)["message"] != "Framework failed over" {
		t.Errorf("the evicted stream: %v", event)
	}
	info["principal"] = "p2"
	refused := subscribe(t, c.URL(), info, nil)
	if event := refused.next(""); event["error"].(obj)["message"] != "Changing framework's principal is not allowed." {
		t.Errorf("another principal: %v", event)
	}
}

func describedFairness(t *testing.T) {
	agents := syntheticAgents(8)
	for i := range agents {
		agents[i].Resources = "cpus:1;mem:1024"
	}
	clock := NewTestClock(time.Unix(1e9, 0))
	c := startCluster(t, Options{Agents: agents, Clock: clock, Weights: map[string]float64{"eng": 3}})
	// Both sit there suppressed, so that one run serves both.
	suppressed := func(role string) obj { return obj{"suppressed_roles": []string{role}} }
	dev := subscribe(t, c.URL(), frameworkInfo("eng/dev"), suppressed("eng/dev"))
	ops := subscribe(t, c.URL(), frameworkInfo("ops"), suppressed("ops"))
	c.do(func() {
		for _, f := range c.m.frameworks {
			clear(f.suppressed)
		}
	})
	clock.Advance(time.Second)
	if n, m := len(dev.offers()), len(ops.offers()); n != 6 || m != 2 {
		t.Errorf("eng/dev of weight 3 got %d of 8 agents, ops %d; want 6 and 2", n, m)
	}
}

func describedRevocable(t *testing.T) {
	agents := syntheticAgents(1)
	agents[0].Resources = "cpus:2;mem:1024;cpus{REV}:4"
	c := startCluster(t, Options{Agents: agents, Timing: fastTiming()})
	plain := subscribe(t, c.URL(), frameworkInfo("a"), nil)
	if text := string(mustJSON(plain.offers())); strings.Contains(text, "revocable") {
		t.Errorf("offer without REVOCABLE_RESOURCES: %s", text)
	}
	plain.call("TEARDOWN", nil)
	info := frameworkInfo("b")
	info["capabilities"] = append(info["capabilities"].([]obj), obj{"type": "REVOCABLE_RESOURCES"})
	f := subscribe(t, c.URL(), info, nil)
	offer := f.offers()[0]
	if text := string(mustJSON(offer)); !strings.Contains(text, `"revocable"`) {
		t.Fatalf("offer with REVOCABLE_RESOURCES: %s", text)
	}
	mixed := append(scalars(1, 64), obj{"name": "cpus", "type": "SCALAR", "scalar": obj{"value": 1.0}, "revocable": obj{}})
	f.accept([]any{offer["id"]}, []obj{{"name": "t", "task_id": id("t"), "agent_id": offer["agent_id"], "resources": mixed, "command": obj{"value": "true"}}})
	if status := f.update(); status["message"] != "Task mixes revocable and non-revocable resources: Cannot use both revocable and non-revocable 'cpus' at the same time" {
		t.Errorf("update %v", status)
	}
}
