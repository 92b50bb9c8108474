// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// encode marshals a call, once for all attempts to send it. A call whose type is UNKNOWN, or not known here, is
// refused: from a subscribed framework it aborts the master (src/master/metrics.cpp, Check failed: call_types.contains).
func encode(call *scheduler.Call, subscribe bool) ([]byte, error) {
	if call == nil {
		return nil, &CallError{Err: fmt.Errorf("%w: it is nil", ErrInvalidCall)}
	}
	_, known := scheduler.Call_Type_name[int32(call.Type)]
	switch {
	case !known || call.Type == scheduler.Call_UNKNOWN:
		return nil, &CallError{Type: call.Type, Err: fmt.Errorf("%w: its type is %s (%d)", ErrInvalidCall, call.Type, call.Type)}
	case subscribe && call.Type != scheduler.Call_SUBSCRIBE:
		return nil, &CallError{Type: call.Type, Err: fmt.Errorf("%w: Subscribe takes a call of type SUBSCRIBE", ErrInvalidCall)}
	case !subscribe && call.Type == scheduler.Call_SUBSCRIBE:
		return nil, &CallError{Type: call.Type, Err: fmt.Errorf("%w: SUBSCRIBE goes through Subscribe", ErrInvalidCall)}
	}
	body, err := call.Marshal()
	if err != nil {
		return nil, &CallError{Type: call.Type, Err: fmt.Errorf("%w: it does not encode: %w", ErrInvalidCall, err)}
	}
	return body, nil
}

// call sends a marshalled call and waits for its answer.
func (c *Client) call(ctx context.Context, s *Stream, kind scheduler.Call_Type, body []byte) error {
	fail := func(err error, ambiguous bool) error {
		return &CallError{Type: kind, Master: s.Master(), Ambiguous: ambiguous, Err: err}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.CallTimeout,
		fmt.Errorf("no answer within %v: %w", c.cfg.CallTimeout, context.DeadlineExceeded))
	defer cancel()

	// From the moment there is a connection, bytes may be on their way. The transport sends a POST again only when
	// nothing of it was written, and asks for a connection again first.
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { connected.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, cred, err := c.request(ctx, s.master, body, s.trusted)
	if err != nil {
		return fail(err, false)
	}
	req.Header.Set(streamIDHeader, s.id)
	resp, err := c.calls.RoundTrip(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fail(err, connected.Load())
	}
	text, _ := readBody(resp.Body)
	switch resp.StatusCode {
	case http.StatusAccepted, http.StatusOK:
		return nil
	}
	status := c.refusal(kind, resp.StatusCode, text, cred, s.trusted)
	return fail(status, ambiguousStatus(status.Code))
}

// refusal returns what an answer without success says.
func (c *Client) refusal(kind scheduler.Call_Type, code int, text string, cred Credential, trusted bool) *StatusError {
	status := newStatusError(kind, code, text)
	switch {
	case status.Code == http.StatusTemporaryRedirect:
		status.note = "this master leads no longer"
	case status.kind == ErrUnauthorized:
		status.note = c.authNote(cred, trusted)
	}
	return status
}
