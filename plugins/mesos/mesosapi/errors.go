// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// Kinds of errors, for errors.Is. ErrFrame stands beside the FrameReader.
var (
	// ErrNotSubscribed says that the master does not see this framework as subscribed, or that the stream was closed
	// on this side.
	ErrNotSubscribed = errors.New("the framework is not subscribed")
	// ErrStaleStream says that the stream id of a call is not the current one: a later subscription took over.
	ErrStaleStream = errors.New("the stream id is not the current one")
	// ErrUnknownFramework says that the master does not know the framework id: it never saw it, removed it, or changed
	// since the framework subscribed.
	ErrUnknownFramework = errors.New("the master does not know the framework")
	// ErrUnauthorized says that the master refused the credential or asked for one.
	ErrUnauthorized = errors.New("the master refused the credential")
	// ErrForbidden says that the master knows who calls and does not allow the call.
	ErrForbidden = errors.New("the master does not allow the call")
	// ErrNoLeader says that a master is not the leader, or not yet ready to be it.
	ErrNoLeader = errors.New("no leading master")
	// ErrSilent says that the master sent nothing for so long that the connection counts as dead.
	ErrSilent = errors.New("the master is silent")
	// ErrProtocol says that the other side does not speak the v1 scheduler API as a master does.
	ErrProtocol = errors.New("not the answer of a Mesos master")
	// ErrInvalidCall says that a call was not sent because no master may get it.
	ErrInvalidCall = errors.New("the call must not be sent")
)

// maxBody bounds, in bytes, what is kept of the body of an answer.
const maxBody = 4 << 10

// A StatusError is an HTTP answer other than 200 and 202. Its kind, if it has one, is found by errors.Is.
type StatusError struct {
	Code int
	// Body is the beginning of the answer's body.
	Body string

	kind error
	note string
}

func (e *StatusError) Error() string {
	var b strings.Builder
	if e.kind != nil {
		b.WriteString(e.kind.Error())
		b.WriteString(": ")
	}
	fmt.Fprintf(&b, "%d %s", e.Code, http.StatusText(e.Code))
	if e.Body != "" {
		fmt.Fprintf(&b, ": %q", e.Body)
	}
	if e.note != "" {
		b.WriteString(": ")
		b.WriteString(e.note)
	}
	return b.String()
}

// Unwrap returns the kind of the error.
func (e *StatusError) Unwrap() error { return e.kind }

// newStatusError gives an answer its kind. The texts are those of Http::scheduler in src/master/http.cpp; a code
// alone does not tell a lost subscription from a refused UPDATE_FRAMEWORK, nor a stale stream from a bad call.
func newStatusError(call scheduler.Call_Type, code int, body string) *StatusError {
	e := &StatusError{Code: code, Body: body}
	switch {
	case code == http.StatusTemporaryRedirect, code == http.StatusServiceUnavailable, code == http.StatusNotFound:
		e.kind = ErrNoLeader
	case code == http.StatusUnauthorized:
		e.kind = ErrUnauthorized
	case code == http.StatusForbidden && (call == scheduler.Call_SUBSCRIBE || strings.Contains(body, "principal contains claims")):
		e.kind = ErrForbidden
	case code == http.StatusForbidden && call == scheduler.Call_UPDATE_FRAMEWORK &&
		!strings.Contains(body, "not subscribed") && !strings.Contains(body, "not connected via HTTP"):
		e.kind = ErrForbidden
	case code == http.StatusForbidden:
		e.kind = ErrNotSubscribed
	case code == http.StatusBadRequest && strings.Contains(body, "Framework cannot be found"):
		e.kind = ErrUnknownFramework
	case code == http.StatusBadRequest && call != scheduler.Call_SUBSCRIBE &&
		(strings.Contains(body, "The stream ID") || strings.Contains(body, "'Mesos-Stream-Id' header")):
		e.kind = ErrStaleStream
	}
	return e
}

// A CallError says which call to which master failed.
type CallError struct {
	Type scheduler.Call_Type
	// Master is the address of the master, scheme://host:port, empty when the call was not sent to any.
	Master string
	// Ambiguous is true when the master may have processed the call.
	Ambiguous bool
	Err       error
}

func (e *CallError) Error() string {
	if e.Master == "" {
		return fmt.Sprintf("%s: %v", e.Type, e.Err)
	}
	return fmt.Sprintf("%s to %s: %v", e.Type, e.Master, e.Err)
}

// Unwrap returns what went wrong.
func (e *CallError) Unwrap() error { return e.Err }

// Ambiguous reports whether the master may have processed a call that failed with err: a time-out, a reset or an end of
// the connection after the call was written, a server error. It is false when the master certainly did not: no
// connection was made, or it answered 3xx, 4xx, 501 or 503. An error that does not come from this package counts as ambiguous.
func Ambiguous(err error) bool {
	if err == nil {
		return false
	}
	var call *CallError
	if errors.As(err, &call) {
		return call.Ambiguous
	}
	var search *SubscribeError
	return !errors.As(err, &search)
}

// ambiguousStatus reports whether a call that was answered with code may have been processed.
func ambiguousStatus(code int) bool {
	switch {
	case code >= 300 && code < 500, code == http.StatusNotImplemented, code == http.StatusServiceUnavailable:
		return false
	}
	return true
}

// A SubscribeError says why no master took a subscription: one error for each master asked, in order.
type SubscribeError struct {
	Attempts []error
}

func (e *SubscribeError) Error() string {
	if len(e.Attempts) == 0 {
		return "no master took the subscription: there was none to ask"
	}
	texts := make([]string, 0, len(e.Attempts))
	for _, err := range e.Attempts {
		texts = append(texts, err.Error())
	}
	return "no master took the subscription: " + strings.Join(texts, "; ")
}

// Unwrap returns the errors of the attempts.
func (e *SubscribeError) Unwrap() []error { return e.Attempts }
