// SPDX-License-Identifier: Apache-2.0

// Package history remembers what happened to pods lately, for people who ask: the steps of each pod's journey, recent
// events, and samples over time. Its memory is bounded whatever happens: the pods that were quiet longest are forgotten
// first, and of a long journey the middle is.
package history

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
)

// Bounds of the memory: some 20 MB at most.
const (
	maxPods    = 5000
	firstSteps = 8  // of a journey, always kept
	lastSteps  = 24 // of a journey
	maxEvents  = 1000
	maxMessage = 300 // bytes of a text
)

// History is safe for use by many goroutines.
type History struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	pods   map[types.UID]*list.Element // of *Journey
	names  map[name]types.UID          // the latest pod of a name
	order  *list.List                  // the one that was quiet longest first
	events []v1.Event                  // a ring
	seq    int64
	series series
}

type name struct{ namespace, name string }

// Journey is one pod's.
type Journey struct {
	UID             types.UID
	Namespace, Name string
	Created         time.Time
	// Steps are the first and the last ones; Omitted ones stood between them.
	Steps   []v1.Step
	Omitted int
}

// New returns an empty history.
func New(clock clock.PassiveClock) *History {
	return &History{clock: clock, pods: map[types.UID]*list.Element{}, names: map[name]types.UID{}, order: list.New()}
}

// Observe takes a step from the ledger. It is short and calls nobody, since it runs under the ledger's lock.
func (h *History) Observe(s ledger.Step) {
	t := s.Task
	step := v1.Step{Time: s.At, Node: t.Node, AgentID: t.AgentID, TaskID: t.ID}
	var waited *v1.Step
	switch s.What {
	case ledger.Added:
		step.What, step.State, step.Message = "claimed", t.State.String(), t.Need.String()
		if t.State != ledger.Claimed {
			step.What = "found"
		} else if !s.Since.IsZero() {
			waited = &v1.Step{Time: s.Since, What: "waiting", Message: t.Need.String()}
		}
	case ledger.Moved:
		step.What, step.State = "state", t.State.String()
		says(&step, t.Last, t.State)
	case ledger.WasBound:
		step.What = "bound"
	case ledger.KillWanted:
		step.What = "kill"
	case ledger.Left:
		step.What, step.Message = "gone", "the pod was deleted or is complete"
	case ledger.Dropped:
		step.What = "released"
		if s.From.Sent() {
			says(&step, t.Last, ledger.Terminal)
		}
	}
	h.measure(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.series.observe(s)
	j := h.journey(t.UID, t.Namespace, t.Name)
	j.Created = t.Created
	if waited != nil && len(j.Steps) == 0 {
		j.add(*waited)
	}
	j.add(step)
	h.event(t.Namespace, t.Name, step)
}

// says adds what Mesos said, if that is why the state is what it is.
func says(step *v1.Step, last ledger.Status, state ledger.State) {
	switch state {
	case ledger.Claimed, ledger.Launching, ledger.Unclear:
		return
	}
	step.Status, step.Message = last.State.String(), cut(last.Message)
	if last.HasWhy {
		step.Reason = last.Reason.String()
	}
}

// measure brings the latency of each leg of the journey into the metrics.
func (h *History) measure(s ledger.Step) {
	t, took := s.Task, s.At.Sub(s.Since).Seconds()
	switch {
	case s.What == ledger.Moved && s.From == ledger.Claimed && t.State == ledger.Launching:
		metrics.LegSeconds.WithLabelValues("reserve_to_accept").Observe(took)
	case s.What == ledger.Moved && s.From == ledger.Launching && t.State.Live():
		metrics.LegSeconds.WithLabelValues("accept_to_status").Observe(took)
	case s.What == ledger.WasBound:
		metrics.LegSeconds.WithLabelValues("status_to_bound").Observe(took)
	}
	if ledger.IsTerminal(t.Last.State) && (s.What == ledger.Dropped && s.From.Sent() || s.What == ledger.Moved && (t.State == ledger.Terminal || t.State == ledger.Unheld)) {
		reason := ""
		if t.Last.HasWhy {
			reason = "unknown"
			if text, ok := mesos.TaskStatus_Reason_name[int32(t.Last.Reason)]; ok {
				reason = text
			}
		}
		metrics.Reasons.WithLabelValues(t.Last.State.String(), reason).Inc()
	}
	if s.What == ledger.Moved && t.State == ledger.Running && (s.From == ledger.Starting || s.From == ledger.Launching) && t.Attempts == 1 && !t.Created.IsZero() {
		metrics.LegSeconds.WithLabelValues("created_to_running").Observe(max(0, s.At.Sub(t.Created).Seconds()))
	}
}

// Waiting notes that a pod waits, and what for.
func (h *History) Waiting(w *ledger.Waiting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.pods[w.Pod.UID]; e != nil && slices.ContainsFunc(e.Value.(*Journey).Steps, func(s v1.Step) bool { return s.What == "waiting" }) {
		return
	}
	j := h.journey(w.Pod.UID, w.Pod.Namespace, w.Pod.Name)
	j.Created = w.Pod.CreationTimestamp.Time
	j.add(v1.Step{Time: w.Since, What: "waiting", Message: w.Need.String()})
}

// Note adds something to a pod's journey, such as an event that Kubernetes was told; uid may be empty for what is not
// about a pod.
func (h *History) Note(uid types.UID, namespace, pod, reason, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	step := v1.Step{Time: h.clock.Now(), What: "event", Reason: reason, Message: cut(message)}
	if uid != "" {
		h.journey(uid, namespace, pod).add(step)
	}
	h.event(namespace, pod, step)
}

func (h *History) journey(uid types.UID, namespace, pod string) *Journey {
	if e := h.pods[uid]; e != nil {
		h.order.MoveToBack(e)
		return e.Value.(*Journey)
	}
	if h.order.Len() >= maxPods {
		e := h.order.Front()
		old := h.order.Remove(e).(*Journey)
		delete(h.pods, old.UID)
		if key := (name{old.Namespace, old.Name}); h.names[key] == old.UID {
			delete(h.names, key)
		}
	}
	j := &Journey{UID: uid, Namespace: namespace, Name: pod}
	h.pods[uid] = h.order.PushBack(j)
	h.names[name{namespace, pod}] = uid
	return j
}

func (j *Journey) add(s v1.Step) {
	if len(j.Steps) >= firstSteps+lastSteps {
		j.Steps = slices.Delete(j.Steps, firstSteps, firstSteps+1)
		j.Omitted++
	}
	j.Steps = append(j.Steps, s)
}

func (h *History) event(namespace, pod string, step v1.Step) {
	h.seq++
	e := v1.Event{Seq: h.seq, Namespace: namespace, Pod: pod, Step: step}
	if len(h.events) < maxEvents {
		h.events = append(h.events, e)
		return
	}
	h.events[int((h.seq-1)%maxEvents)] = e
}

// Pod returns the journey of the latest pod with a name; ok is false if nothing is known of one.
func (h *History) Pod(namespace, pod string) (Journey, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.pods[h.names[name{namespace, pod}]]
	if e == nil {
		return Journey{}, false
	}
	j := *e.Value.(*Journey)
	j.Steps = slices.Clone(j.Steps)
	return j, true
}

// Events returns what happened after an event, at most limit of the newest, in order.
func (h *History) Events(after int64, limit int) []v1.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := max(after+1, h.seq-int64(len(h.events))+1, h.seq-int64(limit)+1)
	var out []v1.Event
	for seq := first; seq <= h.seq; seq++ {
		out = append(out, h.events[int((seq-1)%maxEvents)])
	}
	return out
}

func cut(s string) string {
	if len(s) > maxMessage {
		return s[:maxMessage] + "..."
	}
	return s
}
