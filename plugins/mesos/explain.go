// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// Bounds of explanations: how often waiting pods are looked at, how long one must have waited since it was tried, how often
// one pod is told something, and how many are looked at closely at one time. When very many wait, the API server has pods to
// bind as well.
const (
	explainEvery  = time.Second
	explainAfter  = 500 * time.Millisecond
	explainAgain  = time.Minute
	explainAtOnce = 50
)

// explained is what a waiting pod was last told.
type explained struct {
	message string
	at      time.Time
	looked  time.Time
	waits   bool
	times   int       // how often it was told why
	silent  time.Time // since when the role has had no offer, as far as the pod was told
}

// explainLoop tells waiting pods in an event how much they ask for and where they would nearly fit: reasons of Filter
// have no amounts. A pod is told when the message changes, and at most once a minute.
func (s *System) explainLoop(ctx context.Context) error {
	told := map[types.UID]*explained{}
	ticker := s.clock.NewTicker(explainEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			queue, snapshot := s.ledger.Queue(), s.ledger.Snapshot()
			s.explainAll(told, queue, snapshot)
			s.followPreemptions(ctx, snapshot, queue)
		}
	}
}

// explainActions is how many actions the explanations take turns with. An events.k8s.io recorder takes events that are equal
// but for their text for a series and keeps the first text of it, for up to twelve minutes after the last one; the stored text cannot
// be changed. With another action the text is an event of its own. Texts come no more often than every minute.
const explainActions = 16

// explainAction is the action of a pod's n-th explanation: Scheduling, Scheduling-1 and so on, of a small fixed set.
func explainAction(n int) string {
	if n %= explainActions; n > 0 {
		return fmt.Sprintf("Scheduling-%d", n)
	}
	return "Scheduling"
}

func (s *System) explainAll(told map[types.UID]*explained, queue []ledger.Waiting, snapshot *ledger.Snapshot) {
	now := s.clock.Now()
	for _, e := range told {
		e.waits = false
	}
	type asked struct {
		*explained
		ledger.Waiting
	}
	var due []asked
	silent := map[string]time.Time{}
	for _, r := range s.session.Roles() {
		silent[r.Name] = r.Silent
	}
	for _, w := range queue {
		e := told[w.Pod.UID]
		if e == nil {
			e = &explained{}
			told[w.Pod.UID] = e
		}
		e.waits = true
		s.history.Waiting(&w)
		if w.Tried != 0 {
			s.tellSilence(e, &w, silent[w.Need.Role])
		}
		if w.Tried == 0 || now.Sub(w.TriedAt) < explainAfter || !e.at.IsZero() && now.Sub(e.at) < explainAgain {
			continue
		}
		due = append(due, asked{e, w})
	}
	// Those that were not looked at for longest come first.
	slices.SortStableFunc(due, func(a, b asked) int { return a.looked.Compare(b.looked) })
	for _, d := range due[:min(len(due), explainAtOnce)] {
		d.looked = now
		message := s.explain(snapshot, d.Pod, d.Need, now)
		if message == "" || message == d.message {
			continue
		}
		d.message, d.at = message, now
		s.recorder(s.handleOf(d.Pod).EventRecorder()).Eventf(d.Pod, nil, v1.EventTypeWarning, "WaitingForMesosOffers", explainAction(d.times), "%s", message)
		d.times++
	}
	for uid, e := range told {
		if !e.waits {
			delete(told, uid)
		}
	}
}

// explain says why a need fits no agent: the nearest fit, with amounts. It is empty when an agent fits: then the pod
// waits for something else than Mesos.
func (s *System) explain(snapshot *ledger.Snapshot, pod *v1.Pod, need resources.Need, now time.Time) string {
	if !snapshot.Connected {
		return s.notSubscribed()
	}
	var nearest *ledger.View
	var best float64
	agents, excluded, fits := 0, 0, false
	snapshot.Each(func(v *ledger.View) bool {
		agents++
		if v.Fit(need, s.lead, now) == ledger.Fits {
			if fits = s.match(pod, v.Node); !fits {
				excluded++
			}
			return !fits
		}
		_, room, _ := v.Room(need)
		if v.Offers == 0 {
			room, _ = v.LastOffer(need) // it may have been declined because it was too small
		}
		if share := fitShare(need.Amounts, room); nearest == nil || share > best {
			nearest, best = v, share
		}
		return true
	})
	message := fmt.Sprintf("asks for %s as Mesos role %s; ", need, need.Role)
	if since := s.session.Silent(need.Role); !since.IsZero() && !fits {
		message += silence(need.Role, since) + "; "
	}
	switch {
	case fits:
		return ""
	case agents == 0:
		return message + "no Mesos agent has made an offer yet"
	case excluded > 0:
		message += fmt.Sprintf("%d of %d Mesos agents have room, but the pod's own selector, affinity or tolerations exclude their nodes; ", excluded, agents)
	}
	if nearest == nil {
		return strings.TrimSuffix(message, "; ")
	}
	_, free, _ := nearest.Room(need)
	what, share := amountsOrNothing(free)+" free in offers", nearest.ExecutorShare(need)
	if !share.IsZero() {
		what += fmt.Sprintf(", beside %s for the executor that the first pod there needs", share)
	}
	if last, at := nearest.LastOffer(need); nearest.Offers == 0 && !at.IsZero() {
		what = fmt.Sprintf("%s in its last offer", amountsOrNothing(last))
		if !share.IsZero() {
			what += fmt.Sprintf(", of which %s is for the executor that the first pod there needs", share)
		}
	}
	message += fmt.Sprintf("of %d Mesos agents the nearest fit is on node %s with %s (%s)", agents, nearest.Node, what, nearest.Why(need, s.lead, now))
	if len(need.Ports) > 0 {
		message += fmt.Sprintf("; ports free there: %s", cutString(nearest.Ports(need).String(), 120))
	}
	return message
}

// silence says that a role has had no offer for a while.
func silence(role string, since time.Time) string {
	return fmt.Sprintf("Mesos has offered nothing to role %s since %s although it may: other frameworks use the agents, or a quota of the role is used up", role, since.UTC().Format(time.RFC3339))
}

// tellSilence tells a waiting pod, once, that its role has had no offer for a while. It is an event of its own: a recorder
// keeps the first text of events of one reason.
func (s *System) tellSilence(e *explained, w *ledger.Waiting, since time.Time) {
	if since.Equal(e.silent) {
		return
	}
	if e.silent = since; !since.IsZero() {
		s.recorder(s.handleOf(w.Pod).EventRecorder()).Eventf(w.Pod, nil, v1.EventTypeWarning, "NoMesosOffers", "Scheduling", "%s", silence(w.Need.Role, since))
	}
}

func (s *System) notSubscribed() string {
	st := s.session.Status()
	message := fmt.Sprintf("the scheduler is not subscribed with a Mesos master (%s)", st.Phase)
	if st.Problem != "" {
		message += ": " + cutString(st.Problem, 300)
	}
	return message
}

func amountsOrNothing(a resources.Amounts) string {
	if a = a.Max(resources.Amounts{}); a.IsZero() {
		return "nothing"
	}
	return a.String()
}

func cutString(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}

// fitShare is how much of the scarcest resource is there.
func fitShare(need, free resources.Amounts) float64 {
	share := 1.0
	for _, r := range [][2]int64{{need.CPUs, free.CPUs}, {need.Mem, free.Mem}, {need.Disk, free.Disk}, {need.GPUs, free.GPUs}} {
		if r[0] > 0 {
			share = min(share, float64(max(r[1], 0))/float64(r[0]))
		}
	}
	return share
}
