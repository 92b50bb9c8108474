// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// Bounds of the time to settle.
const (
	// settleLimit covers the longest pause of the product's own: a scheduler that was failed over stays away for a minute.
	settleLimit = 100 * time.Second
	clearLimit  = 100 * time.Second
	// quiet is how long the system must stay settled.
	quiet = 2 * time.Second
)

// unsettled returns how the records of the API server, the master and the agents do not match (I1). Every entry names
// the pod it is about.
func (w *world) unsettled() []violation {
	agents := agentsKnow(w.sim)
	alive := map[string][]mesossim.Task{}
	for _, l := range lives(w.tasks(), w.journal.incidents(), agents) {
		if l.alive() {
			alive[l.uid] = append(alive[l.uid], l.task)
		}
	}
	var out []violation
	bad := func(uid, format string, args ...any) {
		out = append(out, violation{"I1", uid, fmt.Sprintf(format, args...)})
	}
	for _, pod := range w.recorder.present() {
		uid := string(pod.UID)
		tasks := alive[uid]
		delete(alive, uid)
		if pod.Spec.SchedulerName != cluster.SchedulerName {
			continue
		}
		for _, t := range tasks {
			if agents.tasks[t.ID] != t.Agent {
				bad(uid, "task %s of pod %s lives by the master, its agent %s does not know it", t.ID, pod.Name, t.Agent)
			}
			if pod.Spec.NodeName != "" && t.Agent != pod.Spec.NodeName {
				bad(uid, "task %s of pod %s is on %s, the pod on %s", t.ID, pod.Name, t.Agent, pod.Spec.NodeName)
			}
		}
		finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		switch {
		case pod.Spec.NodeName == "" && finished && len(tasks) == 0:
			// kwok patches a status by name alone: one that comes late makes the next pod of that name complete.
		case pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
			bad(uid, "pod %s is not bound and has %d live tasks: %s", pod.Name, len(tasks), why(pod))
		case finished && len(tasks) > 0:
			bad(uid, "pod %s is %s and has %d live tasks", pod.Name, pod.Status.Phase, len(tasks))
		case finished:
		case pod.DeletionTimestamp == nil && len(tasks) != 1, len(tasks) > 1:
			bad(uid, "pod %s (%s on %s) has %d live tasks", pod.Name, pod.Status.Phase, pod.Spec.NodeName, len(tasks))
		}
	}
	for _, uid := range sortedKeys(alive) {
		for _, t := range alive[uid] {
			bad(uid, "task %s on %s is %s and has no pod", t.ID, t.Agent, t.State)
		}
	}
	return out
}

func why(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return "never tried"
}

// settle waits until everything matches and stays so for a while, and returns what does not match at last.
func (w *world) settle(ctx context.Context, limit time.Duration, state func() []violation) []violation {
	deadline := time.Now().Add(limit)
	since := time.Now()
	for {
		wrong := state()
		if len(wrong) > 0 {
			since = time.Now()
		}
		if len(wrong) == 0 && time.Since(since) >= quiet {
			return nil
		}
		if time.Now().After(deadline) || !pause(ctx, 200*ms) {
			return wrong
		}
	}
}

// cleared returns what is left after everything was deleted.
func (w *world) cleared() []violation {
	out := w.unsettled()
	for _, pod := range w.recorder.present() {
		out = append(out, violation{"I7", string(pod.UID), fmt.Sprintf("pod %s (%s) is still there after everything was deleted", pod.Name, pod.Status.Phase)})
	}
	return out
}

// offersHeld is I5 at rest: nothing waits, so no offer is held, and every offer is accounted for.
func (w *world) offersHeld() []violation {
	var out []violation
	for _, o := range w.sim.Offers() {
		if age := time.Since(o.Made); age > offerHold+2*time.Second {
			out = append(out, violation{"I5", "", fmt.Sprintf("offer %s of %s is held for %.1f s with nothing to launch", o.ID, o.Agent, age.Seconds())})
		}
	}
	n := w.sim.Counters()
	if sum := n.OffersAccepted + n.OffersDeclined + n.OffersRescinded + n.OffersLost + n.OffersInvalidated + len(w.sim.Offers()); sum != n.OffersMade {
		out = append(out, violation{"I5", "", fmt.Sprintf("%d offers were made and %d are accounted for: %+v", n.OffersMade, sum, n)})
	}
	return out
}

// alive is I7 at rest: both schedulers run, and the framework is one and is subscribed.
func (w *world) alive() []violation {
	var out []violation
	for _, s := range w.schedulers {
		if !s.Running() {
			out = append(out, violation{"I7", "", s.Name + " does not run"})
		}
	}
	if f, ok := w.framework(); !ok || !f.Connected {
		out = append(out, violation{"I7", "", fmt.Sprintf("the framework is not subscribed: %+v", w.sim.Frameworks())})
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, strings.Compare)
	return keys
}
