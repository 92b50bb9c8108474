// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// The texts are those of a real master.
func TestCallAnswers(t *testing.T) {
	const stale = "The stream ID 'a' included in this request didn't match the stream ID currently associated with framework ID f"
	for name, tt := range map[string]struct {
		code      int
		body      string
		kind      scheduler.Call_Type
		want      error // nil: no kind
		ok        bool
		ambiguous bool
	}{
		"accepted":                      {202, "", scheduler.Call_REVIVE, nil, true, false},
		"done":                          {200, "", scheduler.Call_UPDATE_FRAMEWORK, nil, true, false},
		"not subscribed":                {403, "Framework is not subscribed", scheduler.Call_REVIVE, ErrNotSubscribed, false, false},
		"subscribed by the old driver":  {403, "Framework is not connected via HTTP", scheduler.Call_UPDATE_FRAMEWORK, ErrNotSubscribed, false, false},
		"not allowed":                   {403, "Not authorized to use roles", scheduler.Call_UPDATE_FRAMEWORK, ErrForbidden, false, false},
		"claims without a value":        {403, "The request's authenticated principal contains claims, but no value string", scheduler.Call_REVIVE, ErrForbidden, false, false},
		"unknown framework":             {400, "Framework cannot be found", scheduler.Call_REVIVE, ErrUnknownFramework, false, false},
		"old stream":                    {400, stale, scheduler.Call_ACCEPT, ErrStaleStream, false, false},
		"no stream":                     {400, "All non-subscribe calls should include the 'Mesos-Stream-Id' header", scheduler.Call_ACCEPT, ErrStaleStream, false, false},
		"bad call":                      {400, "Failed to validate scheduler::Call: Expecting 'accept' to be present", scheduler.Call_ACCEPT, nil, false, false},
		"unauthorized":                  {401, "401 Unauthorized.", scheduler.Call_REVIVE, ErrUnauthorized, false, false},
		"not found":                     {404, "404 Not Found.", scheduler.Call_REVIVE, ErrNoLeader, false, false},
		"another leads":                 {307, "", scheduler.Call_REVIVE, ErrNoLeader, false, false},
		"no leader":                     {503, "No leader elected", scheduler.Call_REVIVE, ErrNoLeader, false, false},
		"unsupported":                   {501, "", scheduler.Call_REVIVE, nil, false, false},
		"moved":                         {301, "", scheduler.Call_REVIVE, nil, false, false},
		"too many":                      {429, "", scheduler.Call_REVIVE, nil, false, false},
		"server error":                  {500, "oops", scheduler.Call_ACCEPT, nil, false, true},
		"gateway, upstream cut":         {502, "", scheduler.Call_ACCEPT, nil, false, true},
		"gateway, upstream silent":      {504, "", scheduler.Call_ACCEPT, nil, false, true},
		"an answer that is no master's": {204, "", scheduler.Call_ACCEPT, nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFakeMaster(t, nil)
			other := newFakeMaster(t, nil)
			m.call = func(w http.ResponseWriter, r *http.Request) {
				if tt.code/100 == 3 {
					w.Header().Set("Location", "//"+other.host()+"/master/api/v1/scheduler")
				}
				answer(tt.code, tt.body)(w, r)
			}
			s := subscribed(t, Config{Masters: []string{m.host()}, Credential: secret})
			err := s.Call(t.Context(), &scheduler.Call{Type: tt.kind, FrameworkID: &mesos.FrameworkID{Value: "f"}})
			if Ambiguous(err) != tt.ambiguous {
				t.Errorf("Ambiguous(%v) = %v, want %v", err, !tt.ambiguous, tt.ambiguous)
			}
			if len(other.requests()) != 0 {
				t.Error("A redirect was followed")
			}
			if tt.ok {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var status *StatusError
			var call *CallError
			if !errors.As(err, &status) || status.Code != tt.code || status.Body != tt.body || !errors.As(err, &call) || call.Type != tt.kind || call.Master != m.URL {
				t.Fatalf("Call = %#v, want a status %d with %q", err, tt.code, tt.body)
			}
			for _, kind := range []error{ErrNotSubscribed, ErrStaleStream, ErrUnknownFramework, ErrUnauthorized, ErrForbidden, ErrNoLeader, ErrSilent, ErrFrame, ErrProtocol, ErrInvalidCall} {
				if errors.Is(err, kind) != (kind == tt.want) {
					t.Errorf("%v is of kind %v: %v", err, kind, errors.Is(err, kind))
				}
			}
			if tt.want == ErrUnauthorized && !strings.Contains(err.Error(), `principal "me"`) {
				t.Errorf("%v does not name the principal", err)
			}
		})
	}
}

// A call of type UNKNOWN aborts the master, whoever sends it. It never leaves this process.
func TestC25_CallOfTypeUnknownIsNeverSent(t *testing.T) {
	m := newFakeMaster(t, nil)
	s := subscribed(t, Config{Masters: []string{m.host()}})
	for _, call := range []*scheduler.Call{nil, {}, {Type: scheduler.Call_UNKNOWN, FrameworkID: &mesos.FrameworkID{Value: "f"}}, {Type: 99}, {Type: -1}, subscribeCall()} {
		if err := s.Call(t.Context(), call); !errors.Is(err, ErrInvalidCall) || Ambiguous(err) {
			t.Errorf("Call(%v) = %v, want kind %v", call, err, ErrInvalidCall)
		}
	}
	if got := m.requests(); len(got) != 1 {
		t.Errorf("%d requests, want SUBSCRIBE only", len(got))
	}
}

// A rawMaster takes the subscription as a fake master does and treats the connection of every call as a test says.
func rawMaster(t *testing.T, treat func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.Map
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		conns.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
		wg.Wait()
	})
	var first atomic.Bool
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(c, true)
			wg.Go(func() {
				if first.CompareAndSwap(false, true) {
					r := bufio.NewReader(c)
					if _, err := http.ReadRequest(r); err == nil {
						f := subscribedFrame(15)
						_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nMesos-Stream-Id: s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", mediaType, len(f), f)
					}
					return
				}
				treat(c)
			})
		}
	})
	return l.Addr().String()
}

func readRequest(c net.Conn) {
	if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

func TestAmbiguous(t *testing.T) {
	for name, tt := range map[string]struct {
		treat func(net.Conn)
		want  bool
	}{
		"closed before the answer": {func(c net.Conn) { readRequest(c); _ = c.Close() }, true},
		"reset before the answer":  {func(c net.Conn) { readRequest(c); _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }, true},
		"no answer in time":        {readRequest, true},
		"half of an answer":        {func(c net.Conn) { readRequest(c); _, _ = io.WriteString(c, "HTTP/1.1 20"); _ = c.Close() }, true},
		"not HTTP":                 {func(c net.Conn) { readRequest(c); _, _ = io.WriteString(c, "hello\r\n\r\n") }, true},
		"a header without end": {func(c net.Conn) {
			readRequest(c)
			for {
				if _, err := io.WriteString(c, "HTTP/1.1 202 Accepted\r\n"+strings.Repeat("x", 1<<10)); err != nil {
					return
				}
			}
		}, true},
		"202, then the body never comes": {func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 202 Accepted\r\nContent-Length: 9\r\n\r\n")
		}, false},
		"503 with a body without end": {func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\n\r\n")
			for {
				if _, err := c.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := subscribed(t, Config{Masters: []string{rawMaster(t, tt.treat)}, CallTimeout: 200 * time.Millisecond})
			within(t, func() {
				err := s.Call(t.Context(), reviveCall())
				if Ambiguous(err) != tt.want || (err == nil) != strings.HasPrefix(name, "202") {
					t.Errorf("Call = %v, ambiguous %v, want %v", err, Ambiguous(err), tt.want)
				}
			})
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		m := newFakeMaster(t, nil)
		s := subscribed(t, Config{Masters: []string{m.host()}})
		s.master = master{"http", deadAddress(t)}
		if err := s.Call(t.Context(), reviveCall()); err == nil || Ambiguous(err) {
			t.Errorf("Call = %v, ambiguous %v", err, Ambiguous(err))
		}
	})
	t.Run("the context has ended", func(t *testing.T) {
		m := newFakeMaster(t, nil)
		s := subscribed(t, Config{Masters: []string{m.host()}})
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		if err := s.Call(ctx, reviveCall()); !errors.Is(err, why) || Ambiguous(err) {
			t.Errorf("Call = %v, ambiguous %v", err, Ambiguous(err))
		}
	})
	t.Run("the context ends during the call", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := subscribed(t, Config{Masters: []string{rawMaster(t, func(c net.Conn) { readRequest(c); cancel() })}})
		if err := s.Call(ctx, reviveCall()); !errors.Is(err, context.Canceled) || !Ambiguous(err) {
			t.Errorf("Call = %v, ambiguous %v", err, Ambiguous(err))
		}
	})
	t.Run("the time-out is one", func(t *testing.T) {
		s := subscribed(t, Config{Masters: []string{rawMaster(t, readRequest)}, CallTimeout: 20 * time.Millisecond})
		if err := s.Call(t.Context(), reviveCall()); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "20ms") {
			t.Errorf("Call = %v", err)
		}
	})
	t.Run("errors of others", func(t *testing.T) {
		if Ambiguous(nil) || !Ambiguous(errors.New("anything")) || !Ambiguous(fmt.Errorf("x: %w", &CallError{Ambiguous: true})) || Ambiguous(fmt.Errorf("x: %w", &CallError{})) {
			t.Error("Ambiguous is wrong")
		}
	})
}

func TestCallsShareConnections(t *testing.T) {
	m := newFakeMaster(t, nil)
	from := map[string]int{}
	m.call = func(w http.ResponseWriter, r *http.Request) {
		from[r.RemoteAddr]++
		w.WriteHeader(http.StatusAccepted)
	}
	s := subscribed(t, Config{Masters: []string{m.host()}})
	for range 50 {
		if err := s.Call(t.Context(), reviveCall()); err != nil {
			t.Fatal(err)
		}
	}
	if len(from) != 1 {
		t.Errorf("50 calls in turn came over %d connections, want 1", len(from))
	}
}

// A master that was restarted has closed the idle connections. That costs at most one call, and that one is ambiguous
// only if it was written.
func TestCallAfterIdleConnectionsWereClosed(t *testing.T) {
	m := newFakeMaster(t, nil)
	s := subscribed(t, Config{Masters: []string{m.host()}})
	for range 20 {
		if err := s.Call(t.Context(), reviveCall()); err != nil && !Ambiguous(err) {
			t.Fatal(err)
		}
		m.CloseClientConnections()
	}
}

// Calls run in parallel: none waits for the answer of another.
func TestCallsRunInParallel(t *testing.T) {
	const calls = 64
	m := newFakeMaster(t, nil)
	var here sync.WaitGroup
	here.Add(calls)
	m.call = func(w http.ResponseWriter, _ *http.Request) {
		here.Done()
		here.Wait()
		w.WriteHeader(http.StatusAccepted)
	}
	s := subscribed(t, Config{Masters: []string{m.host()}})
	within(t, func() {
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				if err := s.Call(t.Context(), reviveCall()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

func BenchmarkCall(b *testing.B) {
	call := &scheduler.Call{Type: scheduler.Call_ACCEPT, FrameworkID: &mesos.FrameworkID{Value: "f"}, Accept: &scheduler.Call_Accept{}}
	for range 100 {
		call.Accept.OfferIDs = append(call.Accept.OfferIDs, mesos.OfferID{Value: "9f48d831-63e7-4556-86ab-463a69389e4d-O1"})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encode(call, false); err != nil {
			b.Fatal(err)
		}
	}
}
