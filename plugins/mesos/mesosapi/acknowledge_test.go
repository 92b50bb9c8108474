// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"
)

// acksOf returns acknowledgements of tasks 0 to n-1.
func acksOf(n int) []*scheduler.Call {
	out := make([]*scheduler.Call, n)
	for i := range out {
		out[i] = calls.Acknowledge("agent", fmt.Sprint(i), []byte("0123456789abcdef"))
		out[i].FrameworkID = &mesos.FrameworkID{Value: "f"}
	}
	return out
}

// taskOf reads one request and returns the task that it acknowledges.
func taskOf(r *bufio.Reader) (string, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return "", err
	}
	call := &scheduler.Call{}
	if err := call.Unmarshal(body); err != nil {
		return "", err
	}
	return call.GetAcknowledge().GetTaskID().Value, nil
}

const (
	taken202 = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
	theEnd   = "\x00" // after an answer: the connection ends with it
)

// A pipelining master answers every request as a test says, and notes what came on which connection.
type pipelining struct {
	mu    sync.Mutex
	tasks [][]string // by connection
}

func (p *pipelining) treat(answer func(task string, conn int) string) func(net.Conn) {
	return func(c net.Conn) {
		p.mu.Lock()
		conn := len(p.tasks)
		p.tasks = append(p.tasks, nil)
		p.mu.Unlock()
		for r := bufio.NewReader(c); ; {
			task, err := taskOf(r)
			if err != nil {
				return
			}
			p.mu.Lock()
			p.tasks[conn] = append(p.tasks[conn], task)
			p.mu.Unlock()
			text, ends := strings.CutSuffix(answer(task, conn), theEnd)
			_, err = io.WriteString(c, text)
			if ends {
				_ = c.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, r)
			}
			if ends || err != nil {
				_ = c.Close()
				return
			}
		}
	}
}

func (p *pipelining) seen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, tasks := range p.tasks {
		all = append(all, strings.Join(tasks, ","))
	}
	return strings.Join(all, " ")
}

// Acknowledgements say what other calls say.
func TestAcknowledgeSendsWhatCallSends(t *testing.T) {
	m := newFakeMaster(t, nil)
	s := subscribed(t, Config{Masters: []string{m.host()}, Credential: secret})
	if err := s.Call(t.Context(), acksOf(1)[0]); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Acknowledge(t.Context(), acksOf(3)); n != 3 || err != nil {
		t.Fatalf("Acknowledge = %d, %v", n, err)
	}
	requests := m.requests()[1:]
	if len(requests) != 4 {
		t.Fatalf("%d requests, want 4", len(requests))
	}
	want := requests[0]
	for _, got := range requests[1:] {
		if got.kind != scheduler.Call_ACKNOWLEDGE || got.host != want.host {
			t.Errorf("%s for %s", got.kind, got.host)
		}
		if diff := cmp.Diff(want.header, got.header); diff != "" {
			t.Errorf("Header (-Call,+Acknowledge):\n%s", diff)
		}
	}
}

func TestAcknowledge(t *testing.T) {
	const stale = "The stream ID 'a' included in this request didn't match the stream ID currently associated with framework ID f"
	for name, tt := range map[string]struct {
		answer func(task string, conn int) string
		taken  int    // of 4
		seen   string // tasks by connection; "" if that is the network's business
		want   error  // kind
		unsure bool
	}{
		"all are taken on one connection": {func(string, int) string { return taken202 }, 4, "0,1,2,3", nil, false},
		"200 with a body": {func(string, int) string {
			return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
		}, 4, "0,1,2,3", nil, false},
		"interim answers": {func(string, int) string { return "HTTP/1.1 100 Continue\r\n\r\n" + taken202 }, 4, "0,1,2,3", nil, false},
		"one is refused": {func(task string, _ int) string {
			if task == "1" {
				return fmt.Sprintf("HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s", len(stale), stale)
			}
			return taken202
		}, 3, "0,1,2,3", ErrStaleStream, false},
		"another master leads": {func(string, int) string {
			return "HTTP/1.1 307 Temporary Redirect\r\nLocation: //127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
		}, 0, "0,1,2,3", ErrNoLeader, false},
		"not authenticated": {func(string, int) string { return "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n" }, 0, "0,1,2,3", ErrUnauthorized, false},
		"told to close": {func(string, int) string {
			return "HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" + theEnd
		}, 4, "0 1 2 3", nil, false},
		"closed after each answer":    {func(string, int) string { return taken202 + theEnd }, 4, "0 1 2 3", nil, false},
		"bodies end with connections": {func(string, int) string { return "HTTP/1.1 202 Accepted\r\n\r\nhi" + theEnd }, 4, "0 1 2 3", nil, false},
		"a body that is not read": {func(string, int) string {
			return "HTTP/1.1 202 Accepted\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 1000000)
		}, 4, "", nil, false},
		"the first connection is none": {func(_ string, conn int) string { return map[bool]string{true: theEnd, false: taken202}[conn == 0] }, 3, "0 1,2,3", io.ErrUnexpectedEOF, true},
		"one ends every connection":    {func(task string, _ int) string { return map[bool]string{true: theEnd, false: taken202}[task == "1"] }, 3, "0,1 1 2,3", io.ErrUnexpectedEOF, true},
		"all end their connections":    {func(string, int) string { return theEnd }, 0, "0 1 2 3", io.ErrUnexpectedEOF, true},
		"half an answer":               {func(string, int) string { return taken202[:12] + theEnd }, 0, "0 1 2 3", io.ErrUnexpectedEOF, true},
		"no HTTP":                      {func(string, int) string { return "hello\r\n\r\n" }, 0, "", nil, true},
		"a header without end":         {func(string, int) string { return "HTTP/1.1 202 Accepted\r\n" + strings.Repeat("X: y\r\n", maxHeader) }, 0, "", nil, true},
		"no answer in time":            {func(string, int) string { return "" }, 0, "", context.DeadlineExceeded, true},
	} {
		t.Run(name, func(t *testing.T) {
			var p pipelining
			limit := 20 * time.Second
			if tt.want == context.DeadlineExceeded {
				limit = 100 * time.Millisecond
			}
			s := subscribed(t, Config{Masters: []string{rawMaster(t, p.treat(tt.answer))}, CallTimeout: limit, Credential: secret})
			within(t, func() {
				n, err := s.Acknowledge(t.Context(), acksOf(4))
				if n != tt.taken || tt.want != nil && !errors.Is(err, tt.want) || (n == 4) != (err == nil) || Ambiguous(err) != tt.unsure {
					t.Errorf("Acknowledge = %d, %v (ambiguous %v), want %d, %v (%v)", n, err, Ambiguous(err), tt.taken, tt.want, tt.unsure)
				}
			})
			if got := p.seen(); tt.seen != "" && got != tt.seen {
				t.Errorf("The master saw %q, want %q", got, tt.seen)
			}
		})
	}
}

// However slow a master is, and however often connections end, all is over after the time of one call.
func TestAcknowledgeHasOneTimeOut(t *testing.T) {
	var p pipelining
	s := subscribed(t, Config{Masters: []string{rawMaster(t, p.treat(func(string, int) string {
		time.Sleep(20 * time.Millisecond) // a slow peer
		return taken202 + theEnd
	}))}, CallTimeout: 200 * time.Millisecond})
	within(t, func() {
		if n, err := s.Acknowledge(t.Context(), acksOf(MaxAcknowledge)); n > 10 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acknowledge = %d, %v", n, err)
		}
	})
}

// A master that handles one request after the other reads no more of them while nobody takes its answers.
func TestAcknowledgeTakesAnswersWhileItWrites(t *testing.T) {
	s := subscribed(t, Config{CallTimeout: 20 * time.Second, Masters: []string{rawMaster(t, func(c net.Conn) {
		const length = 2*maxBody - 1
		for r := bufio.NewReader(c); ; {
			if _, err := taskOf(r); err != nil {
				return
			}
			if _, err := fmt.Fprintf(c, "HTTP/1.1 202 Accepted\r\nContent-Length: %d\r\n\r\n%s", length, strings.Repeat("x", length)); err != nil {
				return
			}
		}
	})}})
	long := acksOf(MaxAcknowledge)
	for _, call := range long { // together more than any connection buffers
		call.Acknowledge.TaskID.Value = strings.Repeat("x", 16<<10)
	}
	within(t, func() {
		if n, err := s.Acknowledge(t.Context(), long); n != len(long) || err != nil {
			t.Errorf("Acknowledge = %d, %v", n, err)
		}
	})
}

// What was closed while it was idle costs no acknowledgement.
func TestAcknowledgeAfterTheConnectionWasClosed(t *testing.T) {
	var p pipelining
	s := subscribed(t, Config{Masters: []string{rawMaster(t, p.treat(func(task string, conn int) string {
		return taken202 + map[bool]string{true: theEnd}[task == "1"]
	}))}})
	for range 3 {
		if n, err := s.Acknowledge(t.Context(), acksOf(2)); n != 2 || err != nil {
			t.Fatalf("Acknowledge = %d, %v", n, err)
		}
	}
	s.acks.used = time.Now().Add(-idleTimeout - time.Second)
	if n, err := s.Acknowledge(t.Context(), acksOf(1)); n != 1 || err != nil {
		t.Fatalf("Acknowledge = %d, %v", n, err)
	}
	if got := p.seen(); got != "0,1 0,1 0,1 0" {
		t.Errorf("The master saw %q", got)
	}
}

func TestAcknowledgeOverTLSWithACredentialThatIsReadAgain(t *testing.T) {
	m := newFakeMaster(t, &tls.Config{})
	pool := x509.NewCertPool()
	pool.AddCert(m.Certificate())
	var reads atomic.Int64
	broken := errors.New("broken")
	s := subscribed(t, Config{Masters: []string{m.URL}, TLS: &tls.Config{RootCAs: pool, ServerName: "example.com"}, Credential: func() (Credential, error) {
		n := reads.Add(1)
		if n == 4 {
			return Credential{}, broken
		}
		return Credential{Bearer: fmt.Sprint("token-", n)}, nil
	}})
	for range 2 {
		if n, err := s.Acknowledge(t.Context(), acksOf(2)); n != 2 || err != nil {
			t.Fatalf("Acknowledge = %d, %v", n, err)
		}
	}
	if n, err := s.Acknowledge(t.Context(), acksOf(2)); n != 0 || !errors.Is(err, broken) || !errors.Is(err, ErrUnauthorized) || Ambiguous(err) {
		t.Errorf("Acknowledge without a credential = %d, %v (ambiguous %v)", n, err, Ambiguous(err))
	}
	var got []string
	for _, r := range m.requests() {
		got = append(got, r.header.Get("Authorization"))
	}
	if want := []string{"Bearer token-1", "Bearer token-2", "Bearer token-2", "Bearer token-3", "Bearer token-3"}; !slices.Equal(got, want) {
		t.Errorf("The master saw %q, want %q", got, want)
	}
	stranger := subscribed(t, Config{Masters: []string{m.URL}, TLS: &tls.Config{RootCAs: pool, ServerName: "example.com"}})
	stranger.client.cfg.TLS = nil // as if the authority had gone: a new connection is verified
	if n, err := stranger.Acknowledge(t.Context(), acksOf(1)); n != 0 || err == nil || Ambiguous(err) {
		t.Errorf("Acknowledge to a master without a trusted certificate = %d, %v", n, err)
	}
}

// The credential is for configured masters only.
func TestAcknowledgeKeepsTheCredentialFromStrangers(t *testing.T) {
	stranger, standby := newFakeMaster(t, nil), newFakeMaster(t, nil)
	standby.subscribe = redirectTo(stranger.host())
	s := subscribed(t, Config{Masters: []string{standby.host()}, Credential: secret})
	if n, err := s.Acknowledge(t.Context(), acksOf(2)); n != 2 || err != nil {
		t.Fatalf("Acknowledge = %d, %v", n, err)
	}
	if got := authorized(stranger); slices.Contains(got, true) || len(got) != 3 {
		t.Errorf("The stranger saw credentials: %v", got)
	}
}

func TestAcknowledgeEnds(t *testing.T) {
	silent := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	t.Run("with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		s := subscribed(t, Config{Masters: []string{rawMaster(t, func(c net.Conn) { readRequest(c); cancel(why) })}})
		within(t, func() {
			if n, err := s.Acknowledge(ctx, acksOf(2)); n != 0 || !errors.Is(err, why) {
				t.Errorf("Acknowledge = %d, %v", n, err)
			}
			if n, err := s.Acknowledge(ctx, acksOf(2)); n != 0 || !errors.Is(err, why) || Ambiguous(err) {
				t.Errorf("Acknowledge = %d, %v (ambiguous %v)", n, err, Ambiguous(err))
			}
		})
	})
	t.Run("with the stream", func(t *testing.T) {
		arrived := make(chan struct{})
		s := subscribed(t, Config{Masters: []string{rawMaster(t, func(c net.Conn) { readRequest(c); close(arrived); silent(c) })}})
		go func() {
			<-arrived
			s.Close()
		}()
		within(t, func() {
			for range 2 {
				if n, err := s.Acknowledge(t.Context(), acksOf(2)); n != 0 || !errors.Is(err, ErrNotSubscribed) {
					t.Errorf("Acknowledge = %d, %v", n, err)
				}
			}
		})
	})
	t.Run("when nobody listens", func(t *testing.T) {
		m := newFakeMaster(t, nil)
		s := subscribed(t, Config{Masters: []string{m.host()}})
		s.master = master{"http", deadAddress(t)}
		if n, err := s.Acknowledge(t.Context(), acksOf(2)); n != 0 || err == nil || Ambiguous(err) {
			t.Errorf("Acknowledge = %d, %v (ambiguous %v)", n, err, Ambiguous(err))
		}
	})
}

func TestAcknowledgeIsForAcknowledgements(t *testing.T) {
	m := newFakeMaster(t, nil)
	s := subscribed(t, Config{Masters: []string{m.host()}})
	for name, calls := range map[string][]*scheduler.Call{"too many": acksOf(MaxAcknowledge + 1), "another call": {reviveCall()}, "nil": {nil}} {
		if n, err := s.Acknowledge(t.Context(), calls); n != 0 || !errors.Is(err, ErrInvalidCall) || Ambiguous(err) {
			t.Errorf("%s: Acknowledge = %d, %v", name, n, err)
		}
	}
	if n, err := s.Acknowledge(t.Context(), nil); n != 0 || err != nil {
		t.Errorf("Acknowledge of nothing = %d, %v", n, err)
	}
	if n, err := s.Acknowledge(t.Context(), acksOf(MaxAcknowledge)); n != MaxAcknowledge || err != nil {
		t.Errorf("Acknowledge = %d, %v", n, err)
	}
	if got := len(m.requests()); got != 1+MaxAcknowledge {
		t.Errorf("%d requests", got)
	}
}

// BenchmarkAcknowledge compares acknowledgements one by one with many at once, at a peer that costs next to nothing. The CPU
// time is that of both sides.
func BenchmarkAcknowledge(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					if _, err := taskOf(r); err != nil {
						return
					}
					if _, err := io.WriteString(c, taken202); err != nil {
						return
					}
				}
			}()
		}
	}()
	client, err := New(Config{Masters: []string{l.Addr().String()}})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancelCause(b.Context())
	defer cancel(nil)
	s := &Stream{client: client, master: client.masters[0], id: "9f48d831-63e7-4556-86ab-463a69389e4d", ctx: ctx, cancel: cancel}
	run := func(name string, calls int, send func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			begun := cpuTime()
			for b.Loop() {
				if err := send(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime()-begun).Nanoseconds())/float64(b.N*calls), "cpu-ns/ack")
		})
	}
	one := acksOf(1)[0]
	run("one-by-one", 1, func() error { return s.Call(ctx, one) })
	for _, n := range []int{1, 4, 16, 64} {
		all := acksOf(n)
		run(fmt.Sprint("at-once-", n), n, func() error { _, err := s.Acknowledge(ctx, all); return err })
	}
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
