// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// A Stream is one subscription: the events of a master, and calls to it. Next is for one goroutine at a time, the other
// methods for any number.
type Stream struct {
	client  *Client
	master  master
	id      string
	trusted bool

	// ctx ends when the stream does, with the reason as its cause.
	ctx    context.Context
	cancel context.CancelCauseFunc
	body   io.Closer
	close  sync.Once

	acks ackPipe

	watch  *watchdog
	frames *FrameReader
	err    error // what Next returns from now on
}

func newStream(c *Client, m master, ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response, trusted bool) (*Stream, error) {
	if err := checkStream(resp); err != nil {
		return nil, err
	}
	s := &Stream{client: c, master: m, id: resp.Header.Get(streamIDHeader), trusted: trusted, ctx: ctx, cancel: cancel, body: resp.Body}
	s.watch = newWatchdog(resp.Body, c.cfg.Clock, c.cfg.MissedHeartbeats, cancel)
	s.frames = NewFrameReader(s.watch, c.cfg.MaxFrame)
	return s, nil
}

// Master returns the address of the master, scheme://host:port.
func (s *Stream) Master() string { return s.master.String() }

// ID returns the stream id that the master gave.
func (s *Stream) ID() string { return s.id }

// Next blocks until the next event and returns it. Events of type ERROR are events; the end of the stream follows them.
// The first event is SUBSCRIBED or ERROR. After an error the stream is of no use and every Next returns that error: of
// kind ErrSilent when nothing came for too long, ErrFrame or ErrProtocol when what came makes no sense, io.EOF or
// io.ErrUnexpectedEOF when the master ended the stream, ErrNotSubscribed after Close, the cause of the context when it
// ended, else that of the connection. Calls in flight end with the stream.
func (s *Stream) Next() (*scheduler.Event, error) {
	if s.err != nil {
		return nil, s.err
	}
	ev, err := s.next()
	if err != nil {
		if cause := context.Cause(s.ctx); cause != nil {
			err = cause
		}
		s.err = fmt.Errorf("event stream of %s: %w", s.master, err)
		s.end(s.err)
		return nil, s.err
	}
	return ev, nil
}

func (s *Stream) next() (*scheduler.Event, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	stop := s.watch.event()
	frame, err := s.frames.ReadFrame()
	stop()
	if err != nil {
		return nil, err
	}
	ev, err := DecodeEvent(frame)
	if err != nil {
		return nil, err
	}
	if s.watch.opening {
		switch ev.Type {
		case scheduler.Event_SUBSCRIBED:
			s.watch.subscribed(ev.Subscribed.GetHeartbeatIntervalSeconds())
		case scheduler.Event_ERROR:
		default:
			return nil, fmt.Errorf("%w: the first event is %s, want SUBSCRIBED or ERROR", ErrProtocol, ev.Type)
		}
	}
	return ev, nil
}

var errClosed = fmt.Errorf("%w: the stream was closed on this side", ErrNotSubscribed)

// Close ends the stream and the calls in flight on it. The master sees the framework as disconnected and waits for it
// for the failover timeout. Close may be called many times.
func (s *Stream) Close() { s.end(errClosed) }

func (s *Stream) end(cause error) {
	s.close.Do(func() {
		s.cancel(cause)
		_ = s.body.Close()
	})
}

// Call sends any call but SUBSCRIBE to the master of the stream, with the stream's id, and returns when it was
// answered: nil for 200 and 202. 202 says that the master looked at the call and passed it on, not that it succeeded.
// Calls run in parallel, each on a connection of its own; one that is sent after another was answered is also handled
// after it. Errors are *CallError; Ambiguous tells whether the master may have processed the call. Nothing is repeated.
func (s *Stream) Call(ctx context.Context, call *scheduler.Call) error {
	body, err := encode(call, false)
	if err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return &CallError{Type: call.Type, Master: s.Master(), Err: asNotSubscribed(context.Cause(s.ctx))}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(asNotSubscribed(context.Cause(s.ctx))) })()
	return s.client.call(ctx, s, call.Type, body)
}

// asNotSubscribed gives the end of a stream the kind that a call on it would meet at the master.
func asNotSubscribed(cause error) error {
	if errors.Is(cause, ErrNotSubscribed) {
		return cause
	}
	return fmt.Errorf("%w: the event stream ended: %w", ErrNotSubscribed, cause)
}
