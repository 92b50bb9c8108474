// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/component-base/version"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// status answers /status.
func (s *Server) status() v1.Status {
	o, st := &s.options, s.options.Session.Status()
	f := o.Ledger.Fates()
	kubernetes, build, _ := strings.Cut(version.Get().GitVersion, "+kube-mesos.") // hack/build.sh joins them
	out := v1.Status{
		Kind: kind("Status"), Version: build, KubernetesVersion: kubernetes, Time: o.Clock.Now(), Started: s.started,
		Leading: o.Leading(), Phase: string(st.Phase), PhaseSince: st.Since, Framework: o.Framework, FrameworkID: st.FrameworkID,
		Master: st.Master, Problem: st.Problem, Reconciled: st.Reconciled, LastEvent: o.Session.LastEvent(), RemovalsStopped: o.Stopped(),
		Roles:  []v1.Role{},
		Offers: v1.Fates{Received: f.Received, Held: f.Held, Accepted: f.Accepted, Declined: f.Declined, Rescinded: f.Rescinded, Lost: f.Lost},
		Tasks:  map[string]int{}, Strangers: len(o.Ledger.Strangers()), Agents: o.Ledger.AgentCount(), Args: o.Args,
	}
	if !out.RemovalsStopped.IsZero() {
		out.Release = o.HowToRelease(out.RemovalsStopped)
	}
	for _, r := range o.Session.Roles() {
		out.Roles = append(out.Roles, v1.Role{Name: r.Name, Suppressed: r.Suppressed, Revived: r.Revived, Answered: r.Answered, SilentSince: r.Silent})
	}
	for state, n := range o.Ledger.Counts() {
		out.Tasks[ledger.State(state).String()] = n
	}
	out.Waiting = s.reasons(o.Ledger.Queue()).count
	return out
}

func (s *Server) offers(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	var items []v1.Offer
	for _, o := range s.options.Ledger.Offers() {
		if is(r, "node", o.Node) && is(r, "agent", o.AgentID) && is(r, "role", o.Role) {
			items = append(items, offerOf(o))
		}
	}
	slices.SortFunc(items, func(a, b v1.Offer) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Role, b.Role), strings.Compare(a.ID, b.ID))
	})
	out := v1.OfferList{Kind: kind("OfferList")}
	out.Items, out.List = cut(items, limit)
	return out, nil
}

// is says whether a value is the one that a parameter asks for, if there is one.
func is(r *http.Request, parameter, value string) bool {
	want := r.URL.Query().Get(parameter)
	return want == "" || want == value
}

func (s *Server) agents(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	running := map[string]resources.Amounts{}
	for _, t := range s.allTasks() {
		if t.State.Sent() {
			running[t.AgentID] = running[t.AgentID].Add(t.Need.Amounts)
		}
	}
	var items []v1.Agent
	for _, a := range s.allAgents() {
		if is(r, "node", a.Node) && is(r, "agent", a.ID) {
			item := agentOf(a, running[a.ID])
			if s.options.Overcommit != nil && a.Serves {
				if over, advice, ok := s.options.Overcommit(a.Node); ok {
					amounts := amountsOf(over)
					item.Overcommit, item.Advice = &amounts, advice
				}
			}
			items = append(items, item)
		}
	}
	slices.SortFunc(items, func(a, b v1.Agent) int { return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.ID, b.ID)) })
	out := v1.AgentList{Kind: kind("AgentList")}
	out.Items, out.List = cut(items, limit)
	return out, nil
}

func (s *Server) tasks(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	var items []v1.Task
	for _, t := range s.allTasks() {
		if is(r, "namespace", t.Namespace) && is(r, "node", t.Node) && is(r, "agent", t.AgentID) && is(r, "state", t.State.String()) {
			items = append(items, taskOf(&t))
		}
	}
	slices.SortFunc(items, func(a, b v1.Task) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	out := v1.TaskList{Kind: kind("TaskList")}
	out.Items, out.List = cut(items, limit)
	return out, nil
}

// maxMessages bounds the waiting pods whose nearest fit is looked for in one answer.
const maxMessages = 100

func (s *Server) pods(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	queue := slices.DeleteFunc(s.options.Ledger.Queue(), func(w ledger.Waiting) bool { return !is(r, "namespace", w.Pod.Namespace) })
	reasons := s.reasons(queue)
	out := v1.PodList{Kind: kind("PodList"), Items: []v1.WaitingPod{}}
	queue, out.List = cut(queue, limit)
	snapshot, now := s.options.Ledger.Snapshot(), s.options.Clock.Now()
	for i := range queue {
		w := &queue[i]
		p := waitingOf(w)
		p.Reason = reasons.of(w)
		if i < maxMessages {
			p.Message = s.options.Explain(snapshot, w.Pod, w.Need, now)
		}
		out.Items = append(out.Items, p)
	}
	return out, nil
}

func (s *Server) events(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	var after int64
	if text := r.URL.Query().Get("after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return nil, problem(http.StatusBadRequest, "after is %q, it must be the seq of an event", text)
		}
	}
	out := v1.EventList{Kind: kind("EventList")}
	out.Items, out.List = cut(s.options.History.Events(after, limit), limit)
	return out, nil
}

// maxKinds bounds the kinds of waiting pods that are compared with all agents for one answer.
const maxKinds = 64

// Reasons that are not the ledger's.
const (
	reasonUnsubscribed = "not subscribed with a Mesos master"
	reasonElse         = "Mesos has room: another rule of the scheduler keeps the pod"
	reasonNoAgents     = "no Mesos agent has made an offer yet"
	reasonUncounted    = "not looked at: too many different pods wait"
)

// why is what waiting pods wait for, in a few words.
type why struct {
	byKind map[string]string
	count  map[string]int
}

func (y why) of(w *ledger.Waiting) string { return y.byKind[kindOf(w)] }

func kindOf(w *ledger.Waiting) string {
	key := w.Need.Role + "/" + w.Need.String()
	if w.Need.Revocable {
		key += "/revocable"
	}
	return key
}

// reasons finds for each kind of waiting pods what most agents lack.
func (s *Server) reasons(queue []ledger.Waiting) why {
	y := why{map[string]string{}, map[string]int{}}
	snapshot, now := s.options.Ledger.Snapshot(), s.options.Clock.Now()
	for i := range queue {
		w := &queue[i]
		key := kindOf(w)
		reason, known := y.byKind[key]
		if !known {
			reason = reasonUncounted
			if len(y.byKind) < maxKinds {
				reason = s.reason(snapshot, w.Need, now)
			}
			y.byKind[key] = reason
		}
		y.count[reason]++
	}
	return y
}

func (s *Server) reason(snapshot *ledger.Snapshot, need resources.Need, now time.Time) string {
	if !snapshot.Connected {
		return reasonUnsubscribed
	}
	count, fits := map[string]int{}, false
	snapshot.Each(func(v *ledger.View) bool {
		reason := v.Why(need, s.options.Lead, now)
		fits = reason == ledger.Fits
		count[string(reason)]++
		return !fits
	})
	switch {
	case fits:
		return reasonElse
	case len(count) == 0:
		return reasonNoAgents
	}
	most := ""
	for reason, n := range count {
		if n > count[most] || n == count[most] && reason < most {
			most = reason
		}
	}
	return most
}
