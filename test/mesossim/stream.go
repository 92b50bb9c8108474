// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"net/http"
	"sync"
	"time"
)

// activity counts what is under way, so that a test with its own clock can tell when nothing is.
type activity struct {
	mu       sync.Mutex
	handlers int    // requests being answered, event streams not counted
	streams  int    // open event streams
	written  uint64 // records and ends of streams that were written to clients
	pending  int    // records that wait to be written
}

func (a *activity) enter() {
	a.mu.Lock()
	a.handlers++
	a.mu.Unlock()
}

// open counts an event stream while it is served, and what its end brings about.
func (a *activity) open() (closed func()) {
	a.mu.Lock()
	a.streams++
	a.mu.Unlock()
	return func() {
		a.mu.Lock()
		a.streams--
		a.mu.Unlock()
	}
}

func (a *activity) leave() {
	a.mu.Lock()
	a.handlers--
	a.mu.Unlock()
}

// An eventStream is one subscription. Events are queued under the cluster's lock and encoded and written by the
// goroutine of the subscribing request, so a slow reader stops nobody.
type eventStream struct {
	id       string
	media    string
	activity *activity

	mu     sync.Mutex
	queue  []any
	ended  bool
	notify chan struct{}

	// faults
	silent   bool
	cutAfter int64 // bytes that may still be written; <0: no limit
	chunk    int   // if > 0, everything is written in pieces of so many bytes
}

func newEventStream(id, media string, a *activity) *eventStream {
	return &eventStream{id: id, media: media, activity: a, notify: make(chan struct{}, 1), cutAfter: -1}
}

func (s *eventStream) send(event any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.silent {
		return
	}
	s.queue = append(s.queue, event)
	s.activity.mu.Lock()
	s.activity.pending++
	s.activity.mu.Unlock()
	s.wake()
}

// end closes the stream after everything sent so far.
func (s *eventStream) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		s.wake()
	}
}

// setSilent makes the stream swallow everything while its connection stays open.
func (s *eventStream) setSilent(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

// cut breaks the connection once n more bytes of its body were written, wherever in a record that is.
func (s *eventStream) cut(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutAfter = n
	s.wake()
}

func (s *eventStream) setChunk(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunk = n
}

func (s *eventStream) wake() {
	select {
	case s.notify <- struct{}{}:
	default:
	}
}

func (s *eventStream) take() (events []any, ended bool, cutAfter int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, s.queue = s.queue, nil
	return events, s.ended, s.cutAfter
}

// serve writes the stream until it ends or the client goes away. A cut stream is aborted in the middle of its chunk.
func (s *eventStream) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", s.media)
	if s.id != "" {
		w.Header().Set(streamHeader, s.id)
	}
	w.WriteHeader(http.StatusOK)
	flusher := http.NewResponseController(w)
	_ = flusher.Flush()
	defer s.drop()
	var buf []byte
	for {
		events, ended, cutAfter := s.take()
		buf = buf[:0]
		s.mu.Lock()
		chunked := s.chunk > 0
		s.mu.Unlock()
		for _, event := range events {
			buf = appendRecord(buf, s.media, event)
			if len(buf) > 1<<20 && cutAfter < 0 && !chunked {
				if _, err := w.Write(buf); err != nil {
					s.discount(len(events))
					return
				}
				buf = buf[:0]
			}
		}
		aborted := false
		if cutAfter >= 0 {
			if int64(len(buf)) >= cutAfter {
				buf, aborted = buf[:cutAfter], true
			}
			s.mu.Lock()
			s.cutAfter -= int64(len(buf))
			s.mu.Unlock()
		}
		if len(buf) > 0 {
			// A peer that does not read must not hold the goroutine for ever.
			_ = flusher.SetWriteDeadline(time.Now().Add(time.Minute))
			if err := s.write(w, flusher, buf); err != nil {
				s.discount(len(events))
				return
			}
		}
		s.count(len(events))
		if aborted {
			panic(http.ErrAbortHandler)
		}
		if ended {
			s.mu.Lock()
			more := len(s.queue) > 0
			s.mu.Unlock()
			if !more {
				return
			}
			continue
		}
		select {
		case <-s.notify:
		case <-r.Context().Done():
			return
		}
	}
}

// write writes b, in pieces if the stream has been told so. Borders of pieces mean nothing to a reader.
func (s *eventStream) write(w http.ResponseWriter, flusher *http.ResponseController, b []byte) error {
	s.mu.Lock()
	chunk := s.chunk
	s.mu.Unlock()
	if chunk <= 0 {
		chunk = len(b)
	}
	for len(b) > 0 {
		n := min(chunk, len(b))
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		_ = flusher.Flush()
		b = b[n:]
	}
	return nil
}

func (s *eventStream) count(n int) {
	s.activity.mu.Lock()
	s.activity.written += uint64(n)
	s.activity.pending -= n
	s.activity.mu.Unlock()
}

func (s *eventStream) discount(n int) {
	s.activity.mu.Lock()
	s.activity.pending -= n
	s.activity.mu.Unlock()
}

// drop forgets what was queued after the connection went away.
func (s *eventStream) drop() {
	s.mu.Lock()
	n := len(s.queue)
	s.queue, s.ended = nil, true
	s.mu.Unlock()
	s.discount(n)
}
