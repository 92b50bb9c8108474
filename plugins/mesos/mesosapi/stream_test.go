// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestNextReadsARecordedStream(t *testing.T) {
	recorded, err := os.ReadFile("testdata/stream.recordio")
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 7, 100, len(recorded)} {
		m := newFakeMaster(t, nil)
		m.subscribe = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", mediaType)
			w.Header().Set(streamIDHeader, "s")
			for rest := recorded; len(rest) > 0; {
				n := min(size, len(rest))
				_, _ = w.Write(rest[:n])
				_ = http.NewResponseController(w).Flush()
				rest = rest[n:]
			}
		}
		s, err := newClient(t, Config{Masters: []string{m.host()}}).Subscribe(t.Context(), subscribeCall())
		if err != nil {
			t.Fatal(err)
		}
		var got []scheduler.Event_Type
		for range 5 {
			ev, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev.Type)
		}
		if diff := cmp.Diff([]scheduler.Event_Type{scheduler.Event_SUBSCRIBED, scheduler.Event_HEARTBEAT, scheduler.Event_OFFERS,
			scheduler.Event_HEARTBEAT, scheduler.Event_HEARTBEAT}, got); diff != "" {
			t.Errorf("Events in chunks of %d (-want,+got):\n%s", size, diff)
		}
		if _, err := s.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("At the end: %v, want %v", err, io.EOF)
		}
	}
}

// A refused subscription is a stream with one ERROR. What is not an event stream ends it with an error of its kind.
func TestNextOfWhatAMasterSendsFirst(t *testing.T) {
	refusal := eventFrame(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "Framework has been removed"}})
	for name, tt := range map[string]struct {
		stream   string
		want     []scheduler.Event_Type
		wantKind error
		maxFrame int
	}{
		"subscribed":            {string(subscribedFrame(15)), []scheduler.Event_Type{scheduler.Event_SUBSCRIBED}, io.EOF, 0},
		"refusal":               {string(refusal), []scheduler.Event_Type{scheduler.Event_ERROR}, io.EOF, 0},
		"nothing":               {"", nil, io.EOF, 0},
		"half a frame":          {string(subscribedFrame(15)[:5]), nil, io.ErrUnexpectedEOF, 0},
		"heartbeat":             {string(heartbeatFrame()), nil, ErrProtocol, 0},
		"no RecordIO":           {"<html>", nil, ErrFrame, 0},
		"no event":              {"3\nabc", nil, ErrProtocol, 0},
		"too large":             {string(subscribedFrame(15)), nil, ErrFrame, 10},
		"type 99 later":         {string(subscribedFrame(15)) + "2\n\x08\x63", []scheduler.Event_Type{scheduler.Event_SUBSCRIBED, 99}, io.EOF, 0},
		"broken event later":    {string(subscribedFrame(15)) + "2\n\x08\x04", []scheduler.Event_Type{scheduler.Event_SUBSCRIBED}, ErrProtocol, 0},
		"broken frame later":    {string(subscribedFrame(15)) + "x", []scheduler.Event_Type{scheduler.Event_SUBSCRIBED}, ErrFrame, 0},
		"heartbeat of NaN":      {string(subscribedFrame(math.NaN())), []scheduler.Event_Type{scheduler.Event_SUBSCRIBED}, io.EOF, 0},
		"events after an ERROR": {string(refusal) + string(heartbeatFrame()), []scheduler.Event_Type{scheduler.Event_ERROR}, ErrProtocol, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFakeMaster(t, nil)
			m.subscribe = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", mediaType)
				w.Header().Set(streamIDHeader, "s")
				_, _ = io.WriteString(w, tt.stream)
			}
			s, err := newClient(t, Config{Masters: []string{m.host()}, MaxFrame: tt.maxFrame}).Subscribe(t.Context(), subscribeCall())
			if err != nil {
				t.Fatal(err)
			}
			var got []scheduler.Event_Type
			for {
				ev, err := s.Next()
				if err == nil {
					got = append(got, ev.Type)
					continue
				}
				if !errors.Is(err, tt.wantKind) || !strings.Contains(err.Error(), m.URL) {
					t.Errorf("At the end: %v, want kind %v and the master", err, tt.wantKind)
				}
				if _, again := s.Next(); again != err {
					t.Errorf("After the end: %v, want the same error", again)
				}
				break
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Events (-want,+got):\n%s", diff)
			}
			if err := s.Call(t.Context(), reviveCall()); !errors.Is(err, ErrNotSubscribed) || Ambiguous(err) {
				t.Errorf("Call after the end: %v, want kind %v", err, ErrNotSubscribed)
			}
			if got := len(m.requests()); got != 1 {
				t.Errorf("%d requests, want 1", got)
			}
		})
	}
}

// waitFor steps the clock only when the watchdog waits: two timers are one for the event and one for the byte.
func waitFor(t *testing.T, c *clocktesting.FakeClock, timers int) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for c.Waiters() != timers {
		if time.Now().After(deadline) {
			t.Fatalf("%d timers run, want %d", c.Waiters(), timers)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestC25_SilentMaster(t *testing.T) {
	for name, tt := range map[string]struct {
		chunks [][]byte
		cfg    Config
		events int
		steps  []time.Duration
	}{
		"nothing after SUBSCRIBED":           {[][]byte{subscribedFrame(15)}, Config{}, 1, []time.Duration{74 * time.Second, time.Second}},
		"nothing after a heartbeat":          {[][]byte{subscribedFrame(15), heartbeatFrame()}, Config{}, 2, []time.Duration{74 * time.Second, time.Second}},
		"the announced interval counts":      {[][]byte{subscribedFrame(2)}, Config{}, 1, []time.Duration{9 * time.Second, time.Second}},
		"the configured number counts":       {[][]byte{subscribedFrame(15)}, Config{MissedHeartbeats: 2}, 1, []time.Duration{29 * time.Second, time.Second}},
		"no interval":                        {[][]byte{subscribedFrame(0)}, Config{}, 1, []time.Duration{74 * time.Second, time.Second}},
		"negative interval":                  {[][]byte{subscribedFrame(-1)}, Config{}, 1, []time.Duration{74 * time.Second, time.Second}},
		"endless interval":                   {[][]byte{subscribedFrame(math.Inf(1))}, Config{}, 1, []time.Duration{5*maxHeartbeat - 1, 1}},
		"200 but no SUBSCRIBED":              {nil, Config{}, 0, []time.Duration{74 * time.Second, time.Second}},
		"half of SUBSCRIBED":                 {[][]byte{subscribedFrame(15)[:4]}, Config{}, 0, []time.Duration{74 * time.Second, time.Second}},
		"half of an event and then nothing":  {[][]byte{subscribedFrame(15), []byte("100\nxxx")}, Config{}, 1, []time.Duration{74 * time.Second, time.Second}},
		"half of a length and then nothing":  {[][]byte{subscribedFrame(15), []byte("10")}, Config{}, 1, []time.Duration{74 * time.Second, time.Second}},
		"an hour's silence in a single step": {[][]byte{subscribedFrame(15)}, Config{}, 1, []time.Duration{time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			fake := clocktesting.NewFakeClock(time.Now())
			m := newFakeMaster(t, nil)
			m.subscribe = streamOf("s", tt.chunks...)
			tt.cfg.Masters, tt.cfg.Clock = []string{m.host()}, fake
			s, err := newClient(t, tt.cfg).Subscribe(t.Context(), subscribeCall())
			if err != nil {
				t.Fatal(err)
			}
			for range tt.events {
				if _, err := s.Next(); err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan error, 1)
			go func() {
				_, err := s.Next()
				done <- err
			}()
			for i, step := range tt.steps {
				waitFor(t, fake, 2)
				select {
				case err := <-done:
					t.Fatalf("Before step %d: %v", i, err)
				default:
				}
				fake.Step(step)
			}
			within(t, func() {
				if err := <-done; !errors.Is(err, ErrSilent) {
					t.Errorf("Next = %v, want kind %v", err, ErrSilent)
				}
			})
			if fake.HasWaiters() {
				t.Error("A timer still runs")
			}
		})
	}
}

// Silence is time spent waiting: a consumer that comes late finds its stream alive.
func TestC25_SlowConsumerIsNoSilence(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Now())
	m := newFakeMaster(t, nil)
	m.subscribe = streamOf("s", subscribedFrame(15), heartbeatFrame(), heartbeatFrame())
	s := subscribed(t, Config{Masters: []string{m.host()}, Clock: fake})
	for range 2 {
		fake.Step(time.Hour)
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
	}
}

// A jumpingClock is a real clock whose wall time is off by an hour, now ahead, now behind.
type jumpingClock struct {
	clock.RealClock
	mu    sync.Mutex
	ahead bool
}

func (j *jumpingClock) Now() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ahead = !j.ahead
	if j.ahead {
		return time.Now().Add(time.Hour).Round(0)
	}
	return time.Now().Add(-time.Hour).Round(0)
}

func TestC25_WallClockJumps(t *testing.T) {
	m := newFakeMaster(t, nil)
	m.subscribe = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set(streamIDHeader, "s")
		_, _ = w.Write(subscribedFrame(10))
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			_, _ = w.Write(heartbeatFrame())
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
			}
		}
	}
	s := subscribed(t, Config{Masters: []string{m.host()}, Clock: &jumpingClock{}})
	for range 20 {
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
	}
}

// The master accepts the connection and never answers, or does not even take the bytes.
func TestC25_NoAnswerToSubscribe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := newClient(t, Config{Masters: []string{l.Addr().String()}, DialTimeout: 20 * time.Millisecond, CallTimeout: 30 * time.Millisecond})
	within(t, func() {
		_, err := c.Subscribe(t.Context(), subscribeCall())
		if !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), "50ms") {
			t.Errorf("Subscribe = %v, want kind %v", err, ErrSilent)
		}
	})
}

// A peer that sends a byte now and then is never silent and still cannot hold an event, or the first one, for ever.
func TestC25_TricklingMaster(t *testing.T) {
	for name, opening := range map[string]bool{"first event": true, "later event": false} {
		t.Run(name, func(t *testing.T) {
			fake := clocktesting.NewFakeClock(time.Now())
			var cause error
			pipe, feed := io.Pipe()
			w := newWatchdog(iotest.OneByteReader(pipe), fake, 5, func(err error) {
				cause = err
				_ = feed.CloseWithError(err)
			})
			want := 75 * time.Second
			if !opening {
				w.subscribed(15)
				want = slowest * 75 * time.Second
			}
			stop := w.event()
			defer stop()
			go func() { _, _ = io.Copy(io.Discard, w) }()
			var passed time.Duration
			for cause == nil {
				waitFor(t, fake, 2)
				if _, err := feed.Write([]byte("x")); err != nil {
					break
				}
				fake.Step(time.Second)
				if passed += time.Second; passed > want {
					break
				}
			}
			if !errors.Is(cause, ErrSilent) || passed != want {
				t.Errorf("After %v: %v, want kind %v after %v", passed, cause, ErrSilent, want)
			}
			_ = feed.Close()
		})
	}
}

func TestClose(t *testing.T) {
	t.Run("while Next and calls wait", func(t *testing.T) {
		m := newFakeMaster(t, nil)
		arrived := make(chan struct{}, 10)
		m.call = func(_ http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-r.Context().Done()
		}
		s := subscribed(t, Config{Masters: []string{m.host()}})
		results := make(chan error, 4)
		go func() {
			_, err := s.Next()
			results <- err
		}()
		for range 3 {
			go func() { results <- s.Call(t.Context(), reviveCall()) }()
		}
		for range 3 {
			<-arrived
		}
		s.Close()
		s.Close()
		within(t, func() {
			for range 4 {
				if err := <-results; !errors.Is(err, ErrNotSubscribed) || !Ambiguous(err) {
					t.Errorf("%v, want kind %v, ambiguous", err, ErrNotSubscribed)
				}
			}
		})
		if err := s.Call(t.Context(), reviveCall()); !errors.Is(err, ErrNotSubscribed) || Ambiguous(err) {
			t.Errorf("Call after Close = %v, want kind %v, not ambiguous", err, ErrNotSubscribed)
		}
	})
	t.Run("by the context", func(t *testing.T) {
		m := newFakeMaster(t, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		s, err := newClient(t, Config{Masters: []string{m.host()}}).Subscribe(ctx, subscribeCall())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
		why := errors.New("why")
		cancel(why)
		within(t, func() {
			if _, err := s.Next(); !errors.Is(err, why) {
				t.Errorf("Next = %v, want %v", err, why)
			}
		})
		if err := s.Call(t.Context(), reviveCall()); !errors.Is(err, ErrNotSubscribed) || !errors.Is(err, why) {
			t.Errorf("Call = %v, want kind %v because of %v", err, ErrNotSubscribed, why)
		}
	})
}
