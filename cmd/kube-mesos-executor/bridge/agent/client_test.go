// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	c := NewClient(Config{Endpoint: strings.TrimPrefix(s.URL, "http://"), FrameworkID: "f", ExecutorID: "e", Token: "secret"})
	t.Cleanup(func() {
		c.Close()
		s.Close()
	})
	return c
}

func TestErrorsAreToldApart(t *testing.T) {
	tests := []struct {
		code             int
		body             string
		unknown, invalid bool
	}{
		{400, "Framework cannot be found", true, false},
		{400, "Executor cannot be found", true, false},
		{400, "Failed to validate Executor::Call: Not a valid UUID", false, true},
		{403, "Executor is not subscribed", false, false},
		{404, "404 Not Found.", false, false},
		{503, "Agent has not finished recovery", false, false},
		{503, "Executor cannot be found", false, false},
		{307, "", false, false},
		{200, "", false, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.code, " ", tt.body), func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Authorization"); got != "Bearer secret" {
					t.Errorf("Authorization is %q", got)
				}
				w.Header().Set("Location", "http://elsewhere.invalid/")
				w.WriteHeader(tt.code)
				io.WriteString(w, tt.body)
			})
			err := c.Update(t.Context(), mesos.TaskStatus{State: mesos.TASK_RUNNING.Enum()})
			if err == nil {
				t.Fatal("No error")
			}
			if Unknown(err) != tt.unknown || Invalid(err) != tt.invalid {
				t.Errorf("%v: unknown %v, invalid %v", err, Unknown(err), Invalid(err))
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	var call executor.Call
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if err := call.Unmarshal(b); err != nil || r.URL.Path != "/api/v1/executor" || r.Method != http.MethodPost {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		w.WriteHeader(http.StatusAccepted)
	})
	if err := c.Update(t.Context(), mesos.TaskStatus{TaskID: mesos.TaskID{Value: "t"}, State: mesos.TASK_RUNNING.Enum()}); err != nil {
		t.Fatal(err)
	}
	if call.FrameworkID.Value != "f" || call.ExecutorID.Value != "e" || call.Type != executor.Call_UPDATE || call.Update.Status.TaskID.Value != "t" {
		t.Errorf("Unexpected call %v", call)
	}
}

func TestStream(t *testing.T) {
	frame := func(e *executor.Event) string {
		b, err := e.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d\n%s", len(b), b)
	}
	shutdown := frame(&executor.Event{Type: executor.Event_SHUTDOWN})
	heartbeat := frame(&executor.Event{Type: executor.Event_HEARTBEAT})
	unknown := frame(&executor.Event{Type: executor.Event_Type(4711)})
	tests := []struct {
		name   string
		body   string
		events int
	}{
		{name: "events", body: shutdown + heartbeat + shutdown, events: 3},
		{name: "an unknown type", body: unknown + shutdown, events: 2},
		{name: "nothing", body: ""},
		{name: "cut", body: shutdown + shutdown[:2], events: 1},
		{name: "garbage for a length", body: shutdown + "x\n", events: 1},
		{name: "an enormous frame", body: "9999999999\n"},
		{name: "garbage for an event", body: shutdown + "3\n\xff\xff\xff", events: 1},
		{name: "a negative length inside", body: "12\n\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-protobuf")
				io.WriteString(w, tt.body)
			})
			s, err := c.Subscribe(t.Context(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			n := 0
			for {
				if _, err := s.Next(); err != nil {
					break
				}
				n++
			}
			if n != tt.events {
				t.Errorf("%d events, want %d", n, tt.events)
			}
		})
	}
}

func TestSubscribeRefusesOtherContent(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>")
	})
	if _, err := c.Subscribe(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "text/html") {
		t.Errorf("Unexpected error %v", err)
	}
}

func TestIdentity(t *testing.T) {
	for body, want := range map[string]string{
		`{"type":"GET_AGENT","get_agent":{"agent_info":{"hostname":"h","id":{"value":"S1"}}}}`: "S1",
		`{}`:  "",
		`{{}`: "",
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) })
		got, err := c.Identity(t.Context())
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v", body, got, err)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	c := NewClient(Config{Endpoint: "192.0.2.1:5051", Socket: socket})
	if err := c.Update(t.Context(), mesos.TaskStatus{State: mesos.TASK_RUNNING.Enum()}); err != nil {
		t.Error(err)
	}
	c.Close()
	_ = s.Shutdown(context.WithoutCancel(t.Context()))
	<-done
}
