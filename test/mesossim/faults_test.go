// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"encoding/json"
	"net"
	"net/http"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
)

// eventually waits for a condition of the cluster, with a limit.
func eventually(t *testing.T, c *Cluster, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := contextWithLimit(t)
	defer cancel()
	if err := c.Wait(ctx, condition); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func running(t *testing.T, c *Cluster, f *testFramework, tasks ...string) obj {
	t.Helper()
	offer := f.offers()[0]
	f.launch(offer, executorInfo("x", "true"), tasks...)
	for range 2 * len(tasks) {
		f.ack(f.update())
	}
	return offer
}

func TestFaultStreamIsCutAtAnyByte(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(1), Timing: fastTiming()})
	for n := int64(0); n < 700; n += 23 {
		c.Faults().CutNextStream(n)
		response := rawSubscribe(t, c.URL(), mediaJSON)
		frames := mesosapi.NewFrameReader(response.Body, 0)
		var err error
		for err == nil {
			_, err = frames.ReadFrame()
		}
		_ = response.Body.Close()
		if err.Error() != "unexpected EOF" {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	eventually(t, c, "the frameworks without failover timeout", func() bool {
		for _, f := range c.Frameworks() {
			if f.Connected {
				return false
			}
		}
		return true
	})
}

func TestFaultCalls(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(1), Timing: fastTiming()})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	offer := f.offers()[0]
	accept := func(task string, offer obj) int {
		status, _ := post(c.URL(), "/api/v1/scheduler", f.stream, obj{"type": "ACCEPT", "framework_id": id(f.id), "accept": obj{"offer_ids": []any{offer["id"]},
			"filters": obj{"refuse_seconds": 0}, "operations": []obj{{"type": "LAUNCH", "launch": obj{"task_infos": []obj{{"name": task, "task_id": id(task),
				"agent_id": offer["agent_id"], "resources": scalars(0.1, 32), "executor": executorInfo("x", "true")}}}}}}})
		return status
	}
	c.Faults().Call(CallFault{Call: "ACCEPT", LoseCall: true})
	if status := accept("lost", offer); status != 0 {
		t.Errorf("an ACCEPT that is lost was answered %d", status)
	}
	if _, known := c.Task("lost"); known {
		t.Error("the lost ACCEPT was handled")
	}
	c.Faults().Call(CallFault{Call: "ACCEPT", LoseAnswer: true})
	if status := accept("mute", offer); status != 0 {
		t.Errorf("an ACCEPT whose answer is lost was answered %d", status)
	}
	eventually(t, c, "the ACCEPT whose answer was lost", func() bool {
		task, _ := c.Task("mute")
		return task.State == mesos.TASK_RUNNING || task.State == mesos.TASK_STARTING
	})
	// A late ACCEPT: a RECONCILE that was sent later is answered before it.
	offer = f.offers()[0]
	c.Faults().Call(CallFault{Call: "ACCEPT", Delay: 100 * time.Millisecond})
	done := make(chan int)
	go func() { done <- accept("late", offer) }()
	eventually(t, c, "the delayed ACCEPT", func() bool { return c.delayedCalls() == 1 })
	f.call("RECONCILE", obj{"tasks": []obj{{"task_id": id("late"), "agent_id": offer["agent_id"]}}})
	for {
		if status := f.update(); value(status["task_id"]) == "late" {
			if status["state"] != "TASK_GONE" {
				t.Errorf("RECONCILE before the late ACCEPT: %v", status)
			}
			break
		}
	}
	if status := <-done; status != http.StatusAccepted {
		t.Errorf("the late ACCEPT: %d", status)
	}
	eventually(t, c, "the late task", func() bool { task, ok := c.Task("late"); return ok && task.Live() })
}

func TestFaultUpdates(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(1), Timing: fastTiming()})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	ask := func() { f.call("RECONCILE", obj{"tasks": []obj{{"task_id": id("t")}}}) }
	c.Faults().Update(UpdateFault{Lose: true})
	ask()
	c.Faults().Update(UpdateFault{Double: true})
	ask()
	f.update()
	f.update()
	c.Faults().Update(UpdateFault{Delay: 50 * time.Millisecond})
	before := time.Now()
	ask()
	f.update()
	if took := time.Since(before); took < 50*time.Millisecond {
		t.Errorf("the delayed update took %v", took)
	}
	select {
	case event := <-f.events:
		if event["type"] == "UPDATE" {
			t.Errorf("one more update: %v", event)
		}
	default:
	}
}

func TestFaultLaunchLostUntilTheAgentIsBack(t *testing.T) {
	timing := fastTiming()
	timing.RegistrationBackoff = time.Millisecond
	c := startCluster(t, Options{Agents: syntheticAgents(1), Timing: timing})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	c.Faults().LoseLaunches("agent-1", 1)
	offer := f.offers()[0]
	f.launch(offer, executorInfo("x", "true"), "t1")
	f.call("RECONCILE", obj{"tasks": []obj{{"task_id": id("t1"), "agent_id": offer["agent_id"]}}})
	if status := f.update(); status["state"] != "TASK_STAGING" {
		t.Errorf("lost launch: %v", status)
	}
	c.Agent("agent-1").Disconnect()
	status := f.update()
	if status["state"] != "TASK_DROPPED" || status["reason"] != "REASON_RECONCILIATION" || status["message"] != "Reconciliation: task unknown to the agent" {
		t.Errorf("after the agent registered again: %v", status)
	}
}

func TestFaultAgentReturnsWithinAndAfterItsTimeout(t *testing.T) {
	clock := NewTestClock(time.Unix(1e9, 0))
	c := startCluster(t, Options{Agents: syntheticAgents(2), Clock: clock})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	offer := running(t, c, f, "t1")
	name := offer["hostname"].(string)
	h := c.Agent(name)
	h.Stop()
	clock.Advance(60 * time.Second)
	h.Continue()
	clock.Advance(10 * time.Second)
	if task, _ := c.Task("t1"); task.State != mesos.TASK_RUNNING {
		t.Fatalf("within the timeout: %v", task.State)
	}
	h.Cut()
	clock.Advance(100 * time.Second)
	if status := f.update(); status["state"] != "TASK_UNREACHABLE" {
		t.Fatalf("after the timeout: %v", status)
	}
	h.Heal()
	clock.Advance(2 * time.Second)
	if status := f.update(); status["state"] != "TASK_RUNNING" || status["message"] != "Unreachable agent re-reregistered" {
		t.Errorf("back: %v", status)
	}
	old := h.ID()
	if err := h.Replace(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(5 * time.Second)
	if status := f.update(); status["state"] != "TASK_LOST" || status["message"] != "Agent "+name+" removed: a new agent registered at the same address" {
		t.Errorf("replaced: %v", status)
	}
	if h.ID() == old {
		t.Error("the replaced agent has its old id")
	}
}

func TestFaultExecutorCrashAndSlowAgent(t *testing.T) {
	c := startCluster(t, Options{Agents: []AgentOptions{{Name: "agent-1", Delay: 30 * time.Millisecond}}, Timing: fastTiming()})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	before := time.Now()
	f.launch(f.offers()[0], executorInfo("x", "sleep 1000"), "t1")
	eventually(t, c, "the executor", func() bool { e := c.Executors(); return len(e) == 1 && e[0].Pid > 0 })
	if took := time.Since(before); took < 30*time.Millisecond {
		t.Errorf("a slow agent started the executor after %v", took)
	}
	if !c.Agent("agent-1").SignalExecutor("x", syscall.SIGKILL) {
		t.Fatal("no executor")
	}
	failure := f.next("FAILURE")["failure"].(obj)
	if failure["status"] != 9.0 || value(failure["executor_id"]) != "x" {
		t.Errorf("FAILURE %v", failure)
	}
	if status := f.update(); status["state"] != "TASK_FAILED" || status["reason"] != "REASON_EXECUTOR_TERMINATED" {
		t.Errorf("update %v", status)
	}
}

func TestRivalTakesOffers(t *testing.T) {
	agents := syntheticAgents(1)
	agents[0].Resources = "cpus:4;mem:4096"
	c := startCluster(t, Options{Agents: agents, Timing: fastTiming()})
	r, err := c.StartRival(t.Context(), RivalOptions{Role: "other", CPUs: 1, Mem: 512})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "the rival's tasks", func() bool { return c.CountLive() == 4 && r.Live() == 4 })
	r.Stop()
	eventually(t, c, "the rival's end", func() bool { return c.CountLive() == 0 })
}

func TestControlEndpoint(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(1), Timing: fastTiming()})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		c.ServeControl(listener)
	}()
	url := listener.Addr().String()
	tests := []struct {
		name   string
		body   obj
		status int
		text   string
	}{
		{"kill", obj{"action": "kill-agent", "agent": "agent-1"}, 200, "{}"},
		{"no such agent", obj{"action": "kill-agent", "agent": "nobody"}, 400, `there is no agent "nobody"`},
		{"no such action", obj{"action": "explode"}, 400, `unknown action "explode"`},
		{"unknown field", obj{"action": "clear", "colour": "red"}, 400, "unknown field"},
		{"bad kind of fault", obj{"action": "call", "what": "shred"}, 400, "want loseCall, loseAnswer or delay"},
		{"a fault of calls", obj{"action": "call", "call": "ACCEPT", "what": "delay", "seconds": 0.1}, 200, "{}"},
		{"a fault of updates", obj{"action": "update", "what": "double"}, 200, "{}"},
		{"clear", obj{"action": "clear"}, 200, "{}"},
		{"no such offer", obj{"action": "rescind", "offer": "o"}, 400, `there is no offer "o"`},
		{"fail over", obj{"action": "fail-over"}, 200, "{}"},
	}
	for _, tt := range tests {
		status, text := post(url, "/fault", "", tt.body)
		if status != tt.status || !strings.Contains(text, tt.text) {
			t.Errorf("%s: %d %q, want %d %q", tt.name, status, text, tt.status, tt.text)
		}
	}
	if c.Agents()[0].Running {
		t.Error("the agent runs")
	}
	response, text := request(t, "GET", "http://"+url+"/state", nil, nil)
	if response.StatusCode != 200 || !strings.Contains(text, `"counters"`) {
		t.Errorf("state: %s %s", response.Status, text)
	}
	var counters Counters
	response, text = request(t, "GET", "http://"+url+"/counters", nil, nil)
	if err := json.Unmarshal([]byte(text), &counters); err != nil || response.StatusCode != 200 || !reflect.DeepEqual(counters, c.Counters()) {
		t.Errorf("counters: %s %s (%v)", response.Status, text, err)
	}
	c.Close()
	<-served
}
