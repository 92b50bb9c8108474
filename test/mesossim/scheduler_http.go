// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// schedulerCall is a call with what the generated type cannot hold.
type schedulerCall struct {
	scheduler.Call
	hasType     bool
	constraints *offerConstraints
}

func (c *Cluster) serveScheduler(w http.ResponseWriter, r *http.Request, principal string) {
	c.busy.enter()
	left := false
	leave := func() {
		if !left {
			left = true
			c.busy.leave()
		}
	}
	defer leave()
	call := &schedulerCall{}
	hasType, constraints, herr := readSchedulerCall(r, call)
	if herr == nil {
		call.hasType, call.constraints = hasType, constraints
		herr = validateCall(call, principal)
	}
	if herr != nil {
		c.refused(call)
		herr.write(w)
		return
	}
	media := ""
	if call.Type == scheduler.Call_SUBSCRIBE || call.Type == scheduler.Call_RECONCILE_OPERATIONS {
		if media = acceptedMedia(r); media == "" {
			c.refused(call)
			notAcceptable().write(w)
			return
		}
	}
	streamIDs := r.Header.Values(streamHeader)
	fault := c.callFault(call.Type.String())
	if c.tellCall(call, false) || fault.loseCall {
		panic(http.ErrAbortHandler)
	}
	if fault.delay > 0 && !c.pause(r, fault.delay) {
		panic(http.ErrAbortHandler)
	}
	if call.Type == scheduler.Call_SUBSCRIBE {
		if len(streamIDs) > 0 {
			c.refused(call)
			refuse(http.StatusBadRequest, "Subscribe calls should not include the '%s' header", streamHeader).write(w)
			return
		}
		stream := newEventStream(uuid.NewString(), media, &c.busy)
		alive := c.do(func() {
			c.records.called("SUBSCRIBE")
			if text := c.m.subscribe(stream, principal, call.Subscribe, call.constraints); text != "" {
				stream.send(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: text}})
				stream.end()
			}
			c.faults.applyToStream(stream)
		})
		if !alive {
			return
		}
		if c.tellCall(call, true) || fault.loseAnswer {
			stream.cut(0)
		}
		defer c.busy.open()()
		leave()
		defer func() {
			c.do(func() { c.m.disconnected(stream) })
		}()
		stream.serve(w, r)
		return
	}
	var status int
	c.do(func() {
		status, herr = c.m.handle(call, principal, streamIDs)
		if herr == nil {
			c.records.called(call.Type.String())
		} else {
			c.records.refused(call.Type.String())
		}
	})
	switch {
	case c.tellCall(call, true), fault.loseAnswer:
		panic(http.ErrAbortHandler)
	case herr != nil:
		herr.write(w)
	case status == http.StatusOK:
		w.Header()["Content-Type"] = nil
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	default:
		writeAccepted(w)
	}
}

func (c *Cluster) refused(call *schedulerCall) {
	name := "INVALID"
	if call.hasType {
		name = call.Type.String()
	}
	c.do(func() { c.records.refused(name) })
}

// handle is every call but SUBSCRIBE, after its own validation.
func (m *master) handle(call *schedulerCall, principal string, streamIDs []string) (int, *httpError) {
	f := m.frameworks[call.FrameworkID.GetValue()]
	switch {
	case f == nil:
		return 0, refuse(http.StatusBadRequest, "Framework cannot be found")
	case principal != "" && f.info.Principal != nil && f.info.GetPrincipal() != principal:
		return 0, refuse(http.StatusBadRequest, "Authenticated principal '%s' does not match principal '%s' set in `FrameworkInfo`", principal, f.info.GetPrincipal())
	case !f.connected:
		return 0, refuse(http.StatusForbidden, "Framework is not subscribed")
	case len(streamIDs) == 0:
		return 0, refuse(http.StatusBadRequest, "All non-subscribe calls should include the '%s' header", streamHeader)
	case streamIDs[0] != f.stream.id:
		return 0, refuse(http.StatusBadRequest, "The stream ID '%s' included in this request didn't match the stream ID currently associated with framework ID %s", streamIDs[0], f.id)
	}
	switch call.Type {
	case scheduler.Call_TEARDOWN:
		m.removeFramework(f)
	case scheduler.Call_ACCEPT:
		m.accept(f, call.Accept)
	case scheduler.Call_DECLINE:
		m.decline(f, call.Decline.OfferIDs, call.Decline.Filters)
	case scheduler.Call_REVIVE:
		m.alloc.revive(f, call.Revive.GetRoles())
	case scheduler.Call_SUPPRESS:
		m.alloc.suppress(f, call.Suppress.GetRoles())
	case scheduler.Call_KILL:
		m.kill(f, call.Kill)
	case scheduler.Call_SHUTDOWN:
		m.shutdownExecutor(f, call.Shutdown)
	case scheduler.Call_ACKNOWLEDGE:
		m.acknowledge(f, call.Acknowledge)
	case scheduler.Call_RECONCILE:
		m.reconcile(f, call.Reconcile)
	case scheduler.Call_MESSAGE:
		m.message(f, call.Message)
	case scheduler.Call_ACCEPT_INVERSE_OFFERS:
		m.answerInverse(f, call.AcceptInverseOffers.InverseOfferIDs, call.AcceptInverseOffers.Filters, true)
	case scheduler.Call_DECLINE_INVERSE_OFFERS:
		m.answerInverse(f, call.DeclineInverseOffers.InverseOfferIDs, call.DeclineInverseOffers.Filters, false)
	case scheduler.Call_RECONCILE_OPERATIONS:
		m.reconcileOperations(f, call.ReconcileOperations)
	case scheduler.Call_UPDATE_FRAMEWORK:
		return m.updateFramework(f, call)
	case scheduler.Call_REQUEST, scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS:
		// Taken and without effect: the built-in allocator ignores requests, and operations here have no status to acknowledge.
	default:
		// A real master aborts on a call of type UNKNOWN; this one refuses it.
		return 0, refuse(http.StatusNotImplemented, "")
	}
	return http.StatusAccepted, nil
}

// pause waits d of the cluster's time.
func (c *Cluster) pause(r *http.Request, d time.Duration) bool {
	c.do(func() { c.faults.delayed++ })
	defer c.do(func() { c.faults.delayed-- })
	done := make(chan struct{})
	stop := c.clock.AfterFunc(d, func() { close(done) })
	defer stop()
	select {
	case <-done:
		return true
	case <-r.Context().Done():
	case <-c.ctx.Done():
	}
	return false
}

// delayedCalls counts the calls that a fault holds back at the moment.
func (c *Cluster) delayedCalls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults.delayed
}
