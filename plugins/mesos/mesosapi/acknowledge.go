// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// MaxAcknowledge is the most calls of one Acknowledge: some 400 kB. Where much goes on, the answers to a batch are waited for
// longer than it takes to write and to handle it, so it is large.
const MaxAcknowledge = 1024

// Acknowledge sends calls of type ACKNOWLEDGE, at most MaxAcknowledge, and returns how many the master has taken, and the
// first error if it is not all of them. There are two of them for each task, and nobody waits for a single one: so they go
// one behind the other on a connection of their own without waiting for answers in between, as the calls of Mesos' own
// scheduler library do (src/scheduler/scheduler.cpp). A master handles and answers what comes on one connection in order
// (libprocess, HttpProxy). A connection that ends is replaced, and what was not answered on it is sent again: a second
// acknowledgement of one update means nothing to an agent. One goroutine at a time sends, others wait for it.
func (s *Stream) Acknowledge(ctx context.Context, calls []*scheduler.Call) (taken int, err error) {
	if len(calls) > MaxAcknowledge {
		return 0, &CallError{Type: scheduler.Call_ACKNOWLEDGE, Err: fmt.Errorf("%w: %d acknowledgements at once, want at most %d", ErrInvalidCall, len(calls), MaxAcknowledge)}
	}
	for _, call := range calls {
		if call.GetType() != scheduler.Call_ACKNOWLEDGE {
			return 0, &CallError{Type: call.GetType(), Err: fmt.Errorf("%w: Acknowledge takes calls of type ACKNOWLEDGE", ErrInvalidCall)}
		}
	}
	p := &s.acks
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(calls) > 0 && s.ctx.Err() != nil {
		return 0, &CallError{Type: scheduler.Call_ACKNOWLEDGE, Master: s.Master(), Err: asNotSubscribed(context.Cause(s.ctx))}
	}
	limit := s.client.cfg.CallTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded))
	defer cancel()
	for len(calls) > 0 {
		fresh := p.conn == nil
		answered, ok, refused, broken := p.exchange(ctx, s, calls)
		taken, calls = taken+ok, calls[answered:]
		if err == nil {
			err = refused
		}
		if broken == nil {
			break
		}
		p.close()
		// A connection that was idle, or has brought an answer, says nothing about the next one.
		ended := ctx.Err() != nil || s.ctx.Err() != nil || errors.Is(broken, errNotSent)
		if !ended && (!fresh || answered > 0) {
			continue
		}
		if err == nil {
			err = &CallError{Type: scheduler.Call_ACKNOWLEDGE, Master: s.Master(), Ambiguous: !errors.Is(broken, errNotSent), Err: s.whyBroken(ctx, broken)}
		}
		if ended {
			break
		}
		calls = calls[1:] // this one ends connections; those behind it may do better
	}
	return taken, err
}

// whyBroken returns why a connection for calls ended: the end of the stream, that of the calls' context, or what was found.
func (s *Stream) whyBroken(ctx context.Context, found error) error {
	switch {
	case s.ctx.Err() != nil:
		return asNotSubscribed(context.Cause(s.ctx))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return found
}

// errNotSent says that nothing was written, and why nothing would be next time either.
var errNotSent = errors.New("not sent")

// ackPipe is the connection of a stream for acknowledgements.
type ackPipe struct {
	mu    sync.Mutex
	conn  net.Conn
	used  time.Time
	limit io.LimitedReader // of conn, so that a header has an end
	in    *bufio.Reader
	out   []byte
	end   func() bool // of the watch over the stream's end
}

// close gives the connection up.
func (p *ackPipe) close() {
	if p.conn != nil {
		p.end()
		_ = p.conn.Close()
		p.conn = nil
	}
}

// exchange writes all calls and reads an answer for each. It returns how many were answered and how many of these taken, the
// first refusal, and what ended the connection before all were answered.
func (p *ackPipe) exchange(ctx context.Context, s *Stream, calls []*scheduler.Call) (answered, taken int, refused, broken error) {
	if p.conn != nil && time.Since(p.used) > idleTimeout {
		p.close()
	}
	cred, err := p.write(s, calls)
	if err != nil {
		return 0, 0, nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	if p.conn == nil {
		if err := p.dial(ctx, s); err != nil {
			return 0, 0, nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
	}
	conn := p.conn
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	// The answers are read meanwhile: a master that cannot write them may stop to read.
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = conn.Write(p.out) // if it fails, not all are answered
	}()
	defer func() {
		if broken != nil {
			_ = conn.Close()
		}
		<-written
	}()
	for range calls {
		status, last, err := p.answer(s, cred)
		if err != nil {
			return answered, taken, refused, err
		}
		answered++
		if status == nil {
			taken++
		} else if refused == nil {
			refused = &CallError{Type: scheduler.Call_ACKNOWLEDGE, Master: s.Master(), Ambiguous: ambiguousStatus(status.Code), Err: status}
		}
		if last {
			p.close()
			if answered < len(calls) {
				return answered, taken, refused, io.EOF
			}
		}
	}
	p.used = time.Now()
	return answered, taken, refused, nil
}

// write fills the buffer with the requests of all calls. The credential is read once for them.
func (p *ackPipe) write(s *Stream, calls []*scheduler.Call) (Credential, error) {
	req, cred, err := s.client.request(s.ctx, s.master, nil, s.trusted)
	if err != nil {
		return cred, err
	}
	head := []byte("POST " + apiPath + " HTTP/1.1\r\nHost: " + s.master.host + "\r\n" + streamIDHeader + ": " + s.id + "\r\n")
	for key, values := range req.Header {
		head = append(head, key+": "+values[0]+"\r\n"...)
	}
	head = append(head, "Content-Length: "...)
	p.out = p.out[:0]
	for _, call := range calls {
		body, err := encode(call, false)
		if err != nil {
			return cred, err
		}
		p.out = append(p.out, head...)
		p.out = strconv.AppendInt(p.out, int64(len(body)), 10)
		p.out = append(p.out, "\r\n\r\n"...)
		p.out = append(p.out, body...)
	}
	return cred, nil
}

// dial opens the connection. It is closed when the stream ends, whoever uses it.
func (p *ackPipe) dial(ctx context.Context, s *Stream) error {
	ctx, cancel := context.WithTimeout(ctx, s.client.cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	dialer := &net.Dialer{}
	var conn net.Conn
	var err error
	if s.master.scheme == "https" {
		conn, err = (&tls.Dialer{NetDialer: dialer, Config: s.client.cfg.TLS}).DialContext(ctx, "tcp", s.master.host)
	} else {
		conn, err = dialer.DialContext(ctx, "tcp", s.master.host)
	}
	if err != nil {
		return err
	}
	p.conn, p.end = conn, context.AfterFunc(s.ctx, func() { _ = conn.Close() })
	p.limit.R = conn
	p.in = bufio.NewReader(&p.limit)
	return nil
}

// answer reads one answer: nil for success. last says that no other will follow on the connection.
func (p *ackPipe) answer(s *Stream, cred Credential) (status *StatusError, last bool, err error) {
	for {
		p.limit.N = maxHeader
		resp, err := http.ReadResponse(p.in, nil)
		if err != nil {
			return nil, false, err
		}
		if resp.StatusCode/100 == 1 {
			continue
		}
		p.limit.N = 2 * maxBody
		text, whole := readBody(resp.Body)
		last = resp.Close || !whole // the rest of a body would be taken for the next answer
		if resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusOK {
			return nil, last, nil
		}
		return s.client.refusal(scheduler.Call_ACKNOWLEDGE, resp.StatusCode, text, cred, s.trusted), last, nil
	}
}
