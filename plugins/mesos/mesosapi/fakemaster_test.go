// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// A seen is one request as a fake master saw it.
type seen struct {
	kind   scheduler.Call_Type
	header http.Header
	host   string
}

// A fakeMaster answers calls by functions that a test sets. It leads unless subscribe says otherwise.
type fakeMaster struct {
	*httptest.Server
	// subscribe answers SUBSCRIBE, call all others; nil means the answer of a good leader.
	subscribe, call http.HandlerFunc

	mu   sync.Mutex
	seen []seen
}

func newFakeMaster(t *testing.T, tlsConfig *tls.Config) *fakeMaster {
	t.Helper()
	f := &fakeMaster{}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	if tlsConfig != nil {
		f.TLS = tlsConfig
		f.StartTLS()
	} else {
		f.Start()
	}
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func (f *fakeMaster) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	call := &scheduler.Call{}
	if err := call.Unmarshal(body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.seen = append(f.seen, seen{kind: call.Type, header: r.Header.Clone(), host: r.Host})
	f.mu.Unlock()
	switch {
	case call.Type == scheduler.Call_SUBSCRIBE && f.subscribe != nil:
		f.subscribe(w, r)
	case call.Type == scheduler.Call_SUBSCRIBE:
		streamOf("stream-1", subscribedFrame(15))(w, r)
	case f.call != nil:
		f.call(w, r)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (f *fakeMaster) requests() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]seen(nil), f.seen...)
}

func (f *fakeMaster) host() string {
	_, host, _ := strings.Cut(f.URL, "://")
	return host
}

// streamOf answers with an event stream of the given bytes and keeps it open until the client leaves.
func streamOf(id string, chunks ...[]byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set(streamIDHeader, id)
		w.WriteHeader(http.StatusOK)
		for _, chunk := range chunks {
			_, _ = w.Write(chunk)
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func answer(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// redirectTo answers as a standby of Mesos does: without a scheme, with the long path.
func redirectTo(host string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "//"+host+"/master/api/v1/scheduler")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

func frame(data []byte) []byte { return append(fmt.Appendf(nil, "%d\n", len(data)), data...) }

func eventFrame(ev *scheduler.Event) []byte {
	data, err := ev.Marshal()
	if err != nil {
		panic(err)
	}
	return frame(data)
}

func subscribedFrame(heartbeat float64) []byte {
	return eventFrame(&scheduler.Event{Type: scheduler.Event_SUBSCRIBED, Subscribed: &scheduler.Event_Subscribed{
		FrameworkID: &mesos.FrameworkID{Value: "f"}, HeartbeatIntervalSeconds: &heartbeat}})
}

func heartbeatFrame() []byte {
	return eventFrame(&scheduler.Event{Type: scheduler.Event_HEARTBEAT})
}

func subscribeCall() *scheduler.Call {
	return &scheduler.Call{Type: scheduler.Call_SUBSCRIBE, Subscribe: &scheduler.Call_Subscribe{
		FrameworkInfo: &mesos.FrameworkInfo{User: "root", Name: "test"}}}
}

func reviveCall() *scheduler.Call {
	return &scheduler.Call{Type: scheduler.Call_REVIVE, FrameworkID: &mesos.FrameworkID{Value: "f"}}
}

// newClient returns a client that is closed at the end of the test.
func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// subscribed returns an open stream whose SUBSCRIBED was read.
func subscribed(t *testing.T, cfg Config) *Stream {
	t.Helper()
	s, err := newClient(t, cfg).Subscribe(t.Context(), subscribeCall())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ev, err := s.Next()
	if err != nil || ev.Type != scheduler.Event_SUBSCRIBED {
		t.Fatalf("First event = %v, %v", ev, err)
	}
	return s
}

// within fails the test when f does not return in good time.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("It hangs")
	}
}

// deadAddress returns an address on which nobody listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
