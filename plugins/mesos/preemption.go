// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/clock"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// Rules of preemption. The room that a victim leaves goes back to Mesos, which may offer it to another framework.
const (
	// preemptionPatience is how long after the end of the victims' tasks their room is expected to be offered to us: some
	// allocation intervals of the master.
	preemptionPatience = 10 * time.Second
	// preemptionNodePause is how long nothing is evicted for a pod on a node whose room went to others.
	preemptionNodePause = 5 * time.Minute
	// preemptionRounds is after how many such rounds nothing is evicted for the pod at all, for preemptionPause.
	preemptionRounds = 3
	preemptionPause  = 30 * time.Minute
)

// preemptions follow the pods for which others were evicted, so that evictions in vain are bounded.
type preemptions struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	rounds map[types.UID]*round // by pod
	vain   map[types.UID]*vain  // by the pod's controller, or the pod if it has none
}

// round is the time from an eviction for a pod until it is clear who gets the room.
type round struct {
	node  string
	quiet time.Time // when a victim was last seen, or the room was
}

// vain counts the rounds of which others had the benefit.
type vain struct {
	failed int
	nodes  map[string]time.Time // until when nothing is evicted there
	until  time.Time            // until when nothing is evicted anywhere
}

// preemptionView is what one scheduling cycle of a pod may do.
type preemptionView struct {
	hold   bool                 // its nomination stands, and nobody else is evicted
	off    bool                 // nobody may be evicted for it
	paused map[string]time.Time // nodes on which nobody may be evicted for it, and until when; not to be changed
}

func newPreemptions(c clock.PassiveClock) preemptions {
	return preemptions{clock: c, rounds: map[types.UID]*round{}, vain: map[types.UID]*vain{}}
}

// ownerOf is who bears the rounds of a pod: pods of one controller replace each other.
func ownerOf(pod *v1.Pod) types.UID {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.UID
	}
	return pod.UID
}

// see notes that a pod waits with a nomination, whether victims are still leaving the nominated node, and whether the pod
// would fit there now. It returns what to tell when the room went to somebody else.
func (p *preemptions) see(pod *v1.Pod, nominated string, leaving, fits bool) (message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if nominated == "" {
		delete(p.rounds, pod.UID)
		return ""
	}
	now := p.clock.Now()
	key := ownerOf(pod)
	if v := p.vain[key]; v != nil && (now.Before(v.nodes[nominated]) || now.Before(v.until)) {
		delete(p.rounds, pod.UID) // the nomination goes at the next attempt
		return ""
	}
	r := p.rounds[pod.UID]
	if r == nil || r.node != nominated {
		r = &round{node: nominated, quiet: now}
		p.rounds[pod.UID] = r
	}
	switch {
	case leaving, fits:
		r.quiet = now
	case now.Sub(r.quiet) >= preemptionPatience:
		delete(p.rounds, pod.UID)
		return p.fail(key, nominated, now)
	}
	return ""
}

func (p *preemptions) fail(key types.UID, node string, now time.Time) string {
	v := p.vain[key]
	if v == nil {
		v = &vain{}
		p.vain[key] = v
	}
	v.failed++
	nodes := map[string]time.Time{node: now.Add(preemptionNodePause)} // a copy: cycles read the old one
	for n, until := range v.nodes {
		if now.Before(until) && n != node {
			nodes[n] = until
		}
	}
	v.nodes = nodes
	if v.failed < preemptionRounds {
		return fmt.Sprintf("Mesos gave the room that was freed on node %s for this pod to others; nothing is evicted there for it for %s (round %d of %d)",
			node, preemptionNodePause, v.failed, preemptionRounds)
	}
	v.failed, v.until = 0, now.Add(preemptionPause)
	return fmt.Sprintf("preemption cannot help here: Mesos gave the room that was freed to others in %d rounds; nothing is evicted for this pod for %s. "+
		"Give its Mesos role a quota or reservations, or switch preemption off", preemptionRounds, preemptionPause)
}

// view returns what a cycle of a pod may do.
func (p *preemptions) view(pod *v1.Pod) (out preemptionView) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if v := p.vain[ownerOf(pod)]; v != nil {
		out.off, out.paused = now.Before(v.until), v.nodes
	}
	r := p.rounds[pod.UID]
	out.hold = r != nil && r.node == pod.Status.NominatedNodeName
	return out
}

// won notes that a pod has got its room.
func (p *preemptions) won(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.rounds, pod.UID)
	if v := p.vain[ownerOf(pod)]; v != nil && !p.clock.Now().Before(v.until) {
		delete(p.vain, ownerOf(pod))
	}
}

// tidy forgets pods that no longer wait, and pauses that are over.
func (p *preemptions) tidy(waits func(types.UID) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for uid := range p.rounds {
		if !waits(uid) {
			delete(p.rounds, uid)
		}
	}
	for key, v := range p.vain {
		last := v.until.Add(preemptionPause)
		for _, until := range v.nodes {
			if end := until.Add(preemptionPause); end.After(last) {
				last = end
			}
		}
		if now.After(last) {
			delete(p.vain, key)
		}
	}
}

// enterPreemption returns what a cycle may do. While a round is open for the pod, PostFilter plugins are left out: they
// would evict more pods, or give up the nomination that keeps the room.
func (s *System) enterPreemption(ctx context.Context, state fwk.CycleState, pod *v1.Pod, snapshot *ledger.Snapshot, need resources.Need, priority int32) preemptionView {
	if pod.Status.NominatedNodeName != "" {
		s.tellPreemption(ctx, pod, s.seePreemption(pod, snapshot, need, priority))
	}
	view := s.preemptions.view(pod)
	if skipper, ok := state.(interface{ SetSkipAllPostFilterPlugins(bool) }); ok && view.hold {
		skipper.SetSkipAllPostFilterPlugins(true)
	}
	return view
}

// leaving says whether pods that are less important than one hold tasks on a node and are on their way out.
func (s *System) leaving(node string, priority int32) bool {
	for _, t := range s.ledger.TasksOfNode(node) {
		if t.Priority >= priority {
			continue
		}
		if !t.PodGone.IsZero() || !t.KillSince.IsZero() {
			return true
		}
		if pod, err := s.pods.Pods(t.Namespace).Get(t.Name); err != nil || pod.UID != t.UID || pod.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

// followPreemptions looks at the waiting pods that have a nomination. It runs once a second: nothing else tells that room
// does not come.
func (s *System) followPreemptions(ctx context.Context, snapshot *ledger.Snapshot, queue []ledger.Waiting) {
	if !s.preempts() {
		return
	}
	waits := make(map[types.UID]bool, len(queue))
	var failed []*v1.Pod
	for i := range queue {
		w := &queue[i]
		waits[w.Pod.UID] = true
		pod, err := s.pods.Pods(w.Pod.Namespace).Get(w.Pod.Name)
		if err != nil || pod.UID != w.Pod.UID {
			continue
		}
		if s.tellPreemption(ctx, pod, s.seePreemption(pod, snapshot, w.Need, w.Priority)) {
			failed = append(failed, pod)
		}
	}
	s.preemptions.tidy(func(uid types.UID) bool { return waits[uid] })
	if len(failed) > 0 {
		s.activate(failed) // their next attempt gives the nomination up
	}
}

// preempts says whether any profile has a plugin that may evict pods. It is first asked when all profiles are made; they do not
// change any more.
func (s *System) preempts() bool {
	s.preempting.once.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, h := range s.handles {
			s.preempting.may = s.preempting.may || mayEvict(h)
		}
	})
	return s.preempting.may
}

// mayEvict says whether a profile has a plugin that may evict pods. That of dynamic resources only takes claims away from them.
func mayEvict(h fwk.Handle) bool {
	f, ok := h.(interface {
		ListPlugins() *schedulerconfig.Plugins
	})
	if !ok {
		return true
	}
	evicts := func(p schedulerconfig.Plugin) bool { return p.Name != names.DynamicResources }
	plugins := f.ListPlugins()
	return slices.ContainsFunc(plugins.PostFilter.Enabled, evicts) || slices.ContainsFunc(plugins.PodGroupPostFilter.Enabled, evicts)
}

// tellPreemption says that evictions were in vain, if they were.
func (s *System) tellPreemption(ctx context.Context, pod *v1.Pod, message string) bool {
	if message == "" {
		return false
	}
	klog.FromContext(ctx).Info("Evictions for a pod were in vain", "pod", klog.KObj(pod), "message", message)
	s.recorder(s.handleOf(pod).EventRecorder()).Eventf(pod, nil, v1.EventTypeWarning, "PreemptionInVain", "Preempting", "%s", message)
	return true
}

func (s *System) seePreemption(pod *v1.Pod, snapshot *ledger.Snapshot, need resources.Need, priority int32) string {
	node := pod.Status.NominatedNodeName
	view := snapshot.Node(node)
	if node == "" || view == nil { // a node without an agent is nominated by somebody else
		return s.preemptions.see(pod, "", false, false)
	}
	return s.preemptions.see(pod, node, s.leaving(node, priority), view.Fit(need, s.lead, s.clock.Now()) == ledger.Fits)
}
