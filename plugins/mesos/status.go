// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
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

// State is the debug view.
type State struct {
	Session session.Status
	Leading bool
	Stopped time.Time `json:",omitzero"`
	Fates   ledger.Fates
	Counts  map[string]int
	Agents  []ledger.AgentInfo
	Offers  []ledger.OfferInfo
	Tasks   []ledger.Task
	Strange []ledger.Stranger
	Waiting []WaitingPod
}

// WaitingPod is a pod that waits, with each agent's verdict.
type WaitingPod struct {
	Namespace, Name string
	Need            string
	Since           time.Time
	Verdicts        map[string]string // by node
}

// maxVerdicts bounds the pods whose verdicts are listed.
const maxVerdicts = 100

// State returns the debug view.
func (s *System) State() State {
	st := State{Leading: s.leads.Load(), Counts: map[string]int{}}
	if !s.Used() {
		return st
	}
	st.Session, st.Fates, st.Stopped = s.session.Status(), s.ledger.Fates(), s.lifecycle.StoppedSince()
	st.Agents, st.Offers, st.Tasks, st.Strange = s.ledger.Agents(), s.ledger.Offers(), s.ledger.Tasks(), s.ledger.Strangers()
	for state, n := range s.ledger.Counts() {
		st.Counts[ledger.State(state).String()] = n
	}
	snapshot, now := s.ledger.Snapshot(), s.clock.Now()
	for i, w := range s.ledger.Queue() {
		p := WaitingPod{Namespace: w.Pod.Namespace, Name: w.Pod.Name, Need: w.Need.String(), Since: w.Since}
		if i < maxVerdicts {
			p.Verdicts = map[string]string{}
			snapshot.Each(func(v *ledger.View) bool {
				verdict := string(v.Fit(w.Need, s.lead, now))
				if verdict == "" {
					verdict = "fits"
				}
				p.Verdicts[v.Node] = verdict
				return true
			})
		}
		st.Waiting = append(st.Waiting, p)
	}
	return st
}

// Handler serves readiness and health, and the debug view if debug is set: it holds names of pods and hosts, so it is
// only for a listener on loopback.
func (s *System) Handler(debug bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	if debug {
		mux.HandleFunc("GET /debug/mesos", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			_ = e.Encode(s.State()) // the client has gone; there is nobody to tell
		})
	}
	return mux
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
