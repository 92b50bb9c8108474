// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/history"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/session"
)

// unreadyAfter is how long a leader may be without a subscription before it is unready.
const unreadyAfter = 30 * time.Second

// Ready says whether this process does its work: a standby does, a leader does while it is subscribed or was a moment
// ago. The error says what is wrong.
func (s *System) Ready() error {
	if !s.Used() || !s.leads.Load() {
		return nil
	}
	st := s.session.Status()
	switch {
	case st.Phase == session.Removed, st.Phase == session.FailedOver:
	case st.Phase == session.Subscribed, s.clock.Since(s.unsubscribedSince(st)) < unreadyAfter:
		return nil
	}
	return fmt.Errorf("%s: %s", st.Phase, st.Problem)
}

// unsubscribedSince is when the subscription was lost. Attempts to subscribe again do not begin it anew.
func (s *System) unsubscribedSince(st session.Status) time.Time {
	if st.LastSubscribed.IsZero() {
		return st.Began
	}
	return st.LastSubscribed
}

// Settled says whether this process has subscribed and reconciled since it leads: from then on scheduling is of use.
func (s *System) Settled() bool {
	return s.leads.Load() && s.ledger.Connected() && s.session.Reconciled()
}

// Handler serves health and readiness to anybody, and the debug API and the page through guard, which decides who may
// ask; nil lets everybody.
func (s *System) Handler(guard func(http.Handler) http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	if s.Used() {
		handler := s.debug.Handler()
		if guard != nil {
			handler = guard(handler)
		}
		mux.Handle("/", handler)
	}
	return mux
}

// newDebug makes the server of the debug API.
func (s *System) newDebug(args *config.MesosArgs) (*debug.Server, error) {
	shown, err := debug.ShownArgs(args)
	if err != nil {
		return nil, err
	}
	return debug.New(debug.Options{
		Clock: s.clock, Ledger: s.ledger, Session: s.session, History: s.history, Pods: s.pods, Nodes: s.nodes,
		Leading: s.leads.Load, Ours: s.ours, Stopped: s.lifecycle.StoppedSince, HowToRelease: s.howToRelease,
		Framework: args.FrameworkName, Args: shown, Lead: s.lead, Match: s.match, Explain: s.explain, Overcommit: s.overcommit,
	}), nil
}

// overcommit says for people how a node is overcommitted.
func (s *System) overcommit(node string) (over resources.Amounts, advice string, ok bool) {
	o, ok := s.capacity.Of(node)
	if !ok {
		return over, "", false
	}
	return o.Over, o.Advice(), true
}

// recorder returns a recorder of Kubernetes events that also remembers them in the pods' history.
func (s *System) recorder(next events.EventRecorder) events.EventRecorder {
	return &recorder{next, s.history}
}

type recorder struct {
	events.EventRecorder
	history *history.History
}

func (r *recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, eventtype, reason, action, note, args...)
	if pod, ok := regarding.(*v1.Pod); ok {
		r.history.Note(pod.UID, pod.Namespace, pod.Name, reason, fmt.Sprintf(note, args...))
	}
}

// StatusAddress is the address of the listener for readiness and debug, "" for none.
func (s *System) StatusAddress() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.args == nil {
		return ""
	}
	return s.args.StatusAddress
}
