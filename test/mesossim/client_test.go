// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
)

// oneShot takes a new connection for each request: a master that was restarted breaks the idle ones.
var oneShot = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// obj is JSON.
type obj = map[string]any

// testFramework is a small JSON client of the scheduler API.
type testFramework struct {
	t       *testing.T
	url     string
	id      string
	stream  string
	body    io.Closer
	events  chan obj
	backlog []obj
	cancel  context.CancelFunc
}

func id(v string) obj { return obj{"value": v} }

func frameworkInfo(roles ...string) obj {
	return obj{"user": "root", "name": "test", "checkpoint": true, "failover_timeout": 60.0, "roles": roles,
		"capabilities": []obj{{"type": "MULTI_ROLE"}, {"type": "RESERVATION_REFINEMENT"}, {"type": "PARTITION_AWARE"}, {"type": "TASK_KILLING_STATE"}}}
}

// subscribe opens a stream and waits for SUBSCRIBED.
func subscribe(t *testing.T, url string, info obj, more obj) *testFramework {
	t.Helper()
	f := &testFramework{t: t, url: url, events: make(chan obj, 1000)}
	call := obj{"type": "SUBSCRIBE", "subscribe": obj{"framework_info": info}}
	if v, ok := info["id"]; ok {
		call["framework_id"] = v
	}
	for k, v := range more {
		call["subscribe"].(obj)[k] = v
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.cancel = cancel
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+url+"/api/v1/scheduler", bytes.NewReader(mustJSON(call)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := oneShot.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("SUBSCRIBE: %s %s", resp.Status, b)
	}
	f.stream, f.body = resp.Header.Get("Mesos-Stream-Id"), resp.Body
	go func() {
		defer close(f.events)
		frames := mesosapi.NewFrameReader(resp.Body, 0)
		for {
			frame, err := frames.ReadFrame()
			if err != nil {
				return
			}
			var event obj
			if json.Unmarshal(frame, &event) == nil {
				f.events <- event
			}
		}
	}()
	t.Cleanup(cancel)
	event := f.next("")
	if event["type"] == "SUBSCRIBED" {
		f.id = event["subscribed"].(obj)["framework_id"].(obj)["value"].(string)
	} else {
		f.backlog = append(f.backlog, event)
	}
	return f
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// next returns the next event of the kind, skipping others; "" takes any but HEARTBEAT. nil is the end of the stream.
func (f *testFramework) next(kind string) obj {
	f.t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		var event obj
		var ok bool
		if len(f.backlog) > 0 {
			event, f.backlog, ok = f.backlog[0], f.backlog[1:], true
		} else {
			select {
			case event, ok = <-f.events:
			case <-timeout:
				f.t.Fatalf("no event %s", kind)
			}
		}
		if !ok {
			return nil
		}
		if kind == "" && event["type"] != "HEARTBEAT" || event["type"] == kind {
			return event
		}
	}
}

// offers returns the offers of the next OFFERS.
func (f *testFramework) offers() []obj {
	f.t.Helper()
	event := f.next("OFFERS")
	if event == nil {
		f.t.Fatal("the stream ended")
	}
	var out []obj
	for _, o := range event["offers"].(obj)["offers"].([]any) {
		out = append(out, o.(obj))
	}
	return out
}

// update returns the status of the next UPDATE.
func (f *testFramework) update() obj {
	f.t.Helper()
	event := f.next("UPDATE")
	if event == nil {
		f.t.Fatal("the stream ended")
	}
	return event["update"].(obj)["status"].(obj)
}

func post(url, path, stream string, call any) (int, string) {
	req, err := http.NewRequest(http.MethodPost, "http://"+url+path, bytes.NewReader(mustJSON(call)))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if stream != "" {
		req.Header.Set("Mesos-Stream-Id", stream)
	}
	resp, err := oneShot.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// call sends a call and demands 2xx.
func (f *testFramework) call(kind string, body any) {
	f.t.Helper()
	call := obj{"type": kind, "framework_id": id(f.id)}
	if body != nil {
		call[strings.ToLower(kind)] = body
	}
	if status, text := post(f.url, "/api/v1/scheduler", f.stream, call); status/100 != 2 {
		f.t.Fatalf("%s: %d %s", kind, status, text)
	}
}

func (f *testFramework) ack(status obj) {
	f.t.Helper()
	f.call("ACKNOWLEDGE", obj{"agent_id": status["agent_id"], "task_id": status["task_id"], "uuid": status["uuid"]})
}

func value(o any) string { return o.(obj)["value"].(string) }

func scalars(cpus, mem float64) []obj {
	return []obj{{"name": "cpus", "type": "SCALAR", "scalar": obj{"value": cpus}}, {"name": "mem", "type": "SCALAR", "scalar": obj{"value": mem}}}
}

func executorInfo(name, command string) obj {
	return obj{"type": "CUSTOM", "executor_id": id(name), "name": name, "command": obj{"shell": true, "value": command}, "resources": scalars(0.1, 32)}
}

// launch accepts the offer with one task for each id.
func (f *testFramework) launch(offer obj, executor obj, ids ...string) {
	f.t.Helper()
	var tasks []obj
	for _, name := range ids {
		tasks = append(tasks, obj{"name": name, "task_id": id(name), "agent_id": offer["agent_id"], "resources": scalars(0.1, 32), "executor": executor})
	}
	f.accept([]any{offer["id"]}, tasks)
}

func (f *testFramework) accept(offers []any, tasks []obj) {
	f.t.Helper()
	f.call("ACCEPT", obj{"offer_ids": offers, "filters": obj{"refuse_seconds": 0},
		"operations": []obj{{"type": "LAUNCH", "launch": obj{"task_infos": tasks}}}})
}

func startCluster(t *testing.T, options Options) *Cluster {
	t.Helper()
	if options.WorkDir == "" {
		options.WorkDir = t.TempDir()
	}
	c, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func fastTiming() Timing { return Timing{AllocationInterval: 20 * time.Millisecond} }

func syntheticAgents(n int) []AgentOptions {
	out := make([]AgentOptions, n)
	for i := range out {
		out[i] = AgentOptions{Name: fmt.Sprintf("agent-%d", i+1), Synthetic: &Script{}}
	}
	return out
}

// contextWithLimit ends a wait that would otherwise end with the test binary.
func contextWithLimit(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), 20*time.Second)
}
