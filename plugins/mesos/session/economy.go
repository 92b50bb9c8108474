// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// Economy says how long offers are held and refused.
type Economy struct {
	// IdleAfter is how long nothing must have asked for a role's offers before they are declined and suppressed.
	IdleAfter time.Duration
	// IdleRefuse and ShortRefuse are the filters of declines when idle and when an offer is no use to waiting pods.
	IdleRefuse, ShortRefuse time.Duration
	// OfferHold is the longest that an offer without a claim is held.
	OfferHold time.Duration
	// MaintenanceLead is how long before a maintenance window an agent gets no new tasks.
	MaintenanceLead time.Duration
	// AcceptInverse promises agents that Mesos wants back for maintenance; else nothing is promised.
	AcceptInverse bool
}

// Bounds of the economy.
const (
	tick            = 50 * time.Millisecond
	reviveAtLeast   = 100 * time.Millisecond // between two REVIVEs of a role
	reviveSlow      = 200 * time.Millisecond // however long answers take: they may only have stood behind other events
	revivePerAgents = 200 * time.Millisecond // per thousand agents: each REVIVE is an allocation over all of them
	reviveRepeat    = 30 * time.Second       // until offers flow
	probeFraction   = 2                      // for agents that may come back: after so much of the time for which they have been away, ...
	probeAtLeast    = time.Second            // ... between two REVIVEs at least, ...
	probeAtMost     = time.Minute            // ... and at most
	revivePatience  = 100 * time.Millisecond // how much longer a REVIVE waits for ACCEPTs whose rest it is to bring back, ...
	revivePart      = 4                      // if they are for so great a part of the agents: a fourth
	reviveAnswer    = time.Second            // how long a pod may be held back for the first offers
	allocation      = 2 * time.Second        // after which a REVIVE without offers means that there is nothing
	wokenPause      = time.Second            // before a pod is woken again for the same room
	useless         = time.Second            // how long an offer is kept to see whether it is of use
	following       = time.Second            // after an ACCEPT: other pods are taken to follow
	roundGap        = 10 * time.Millisecond  // between two rounds, on the average of
	roundBurst      = 5                      // so many: after a quiet time rounds follow each other at once
	roundShare      = 10                     // a round is followed by a pause of so many times its own time, ...
	roundEase       = 30                     // or so many times, as long as that is no longer than ...
	roundPause      = 50 * time.Millisecond  // what is hardly noticed
	lookEvery       = 250 * time.Millisecond // between looks for offers to decline, and reports
	lookCalm        = time.Second            // the same while pods come and go without waiting
	inverseRefuse   = 30 * time.Second       // before Mesos repeats an inverse offer: that it does shows that the window stands
)

// economy decides which offers are held, declined and asked for, and wakes the pods that they can hold. One goroutine
// runs it; the methods that note something may be called by any.
type economy struct {
	*Session
	wake chan struct{}

	reported time.Time // of the loop alone, as are probed and names
	probed   time.Time // when tasks that Mesos has lost sight of were last looked for
	names    kindNames
	offers   []ledger.OfferInfo // room for those that are looked at

	mu      sync.Mutex
	roles   map[string]*roleState
	refused []string
	failed  []declined // what the master may not have heard
	inverse []mesos.OfferID
}

// declined is a DECLINE that failed.
type declined struct {
	offerIDs []string
	refuse   time.Duration
}

// roleState is what the economy knows of one role.
type roleState struct {
	suppressed bool
	opened     time.Time     // since when offers may come
	active     time.Time     // when something last asked for offers
	revived    time.Time     // when REVIVE was last sent
	answered   time.Time     // when offers last came
	latency    time.Duration // from a REVIVE to its offers
	accepted   time.Time     // when an ACCEPT was last sent
	looked     time.Time     // when offers to decline were last looked for
}

// timed notes how long offers took to come after a REVIVE. One that nothing was free for is answered by a later batch, so
// one long time says little: it counts as long only by and by.
func (r *roleState) timed(d time.Duration) {
	r.latency = min(d, 2*r.latency+10*time.Millisecond)
}

func newEconomy(s *Session) *economy {
	e := &economy{Session: s, wake: make(chan struct{}, 1), roles: map[string]*roleState{}}
	for _, role := range s.options.Roles {
		e.roles[role] = &roleState{}
	}
	return e
}

func (e *economy) nudge() { nudge(e.wake) }

// resubscribed notes a new subscription: offers flow for all roles, and no filter stands.
func (e *economy) resubscribed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.options.Clock.Now()
	e.refused, e.failed, e.inverse = nil, nil, nil
	for _, r := range e.roles {
		*r = roleState{active: now, revived: now, opened: now}
	}
}

// arrived notes that offers came.
func (e *economy) arrived(offers []mesos.Offer) {
	e.mu.Lock()
	now := e.options.Clock.Now()
	for i := range offers {
		r := e.roles[offers[i].GetAllocationInfo().GetRole()]
		if r == nil {
			continue
		}
		if r.answered.Before(r.revived) {
			r.timed(now.Sub(r.revived))
		}
		r.answered = now
	}
	e.mu.Unlock()
	e.nudge()
}

// accepted notes that an ACCEPT of offers of a role was sent: their rest comes back at the next allocation, or at once after a
// REVIVE.
func (e *economy) accepted(role string) {
	e.mu.Lock()
	if r := e.roles[role]; r != nil {
		r.accepted = e.options.Clock.Now()
		r.active = r.accepted
	}
	e.mu.Unlock()
	e.nudge()
}

// refuse notes offers that are no use at all.
func (e *economy) refuse(offerIDs []string) {
	e.mu.Lock()
	e.refused = append(e.refused, offerIDs...)
	e.mu.Unlock()
	e.nudge()
}

// answerInverse notes an inverse offer to answer.
func (e *economy) answerInverse(id mesos.OfferID) {
	e.mu.Lock()
	e.inverse = append(e.inverse, id)
	e.mu.Unlock()
	e.nudge()
}

// forgetInverse drops an inverse offer that was withdrawn before it was answered.
func (e *economy) forgetInverse(id mesos.OfferID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inverse = slices.DeleteFunc(e.inverse, func(other mesos.OfferID) bool { return other.Value == id.Value })
}

// Cold says whether a pod of a role should be held back for a moment because its offers have yet to be asked for, or
// have just been and none has come since. Where some have, a pod is not held back for more of them: it may fit what is there.
// It takes only a short lock: it is called under the scheduling queue's own.
func (s *Session) Cold(role string) bool {
	e := s.economy
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.roles[role]
	if r == nil || s.stream.Load() == nil {
		return false
	}
	cold := r.suppressed || !r.answered.After(r.opened) && e.options.Clock.Since(r.opened) < reviveAnswer
	if r.suppressed {
		nudge(e.wake)
	}
	return cold
}

// Suppressed says whether offers of a role are suppressed.
func (s *Session) Suppressed(role string) bool {
	s.economy.mu.Lock()
	defer s.economy.mu.Unlock()
	r := s.economy.roles[role]
	return r != nil && r.suppressed
}

// Unknown says whether room of a role is unknown at present: nothing was offered since it was asked for, and the master
// has hardly had the time.
func (s *Session) Unknown(role string) bool {
	s.economy.mu.Lock()
	defer s.economy.mu.Unlock()
	r := s.economy.roles[role]
	return r == nil || r.suppressed || !r.answered.After(r.revived) && s.options.Clock.Since(r.revived) < allocation
}

// run works in rounds. Between two of them is a pause, so that however much happens and however many pods wait, the economy
// takes a small share of one core.
func (e *economy) run(ctx context.Context) error {
	ticker := e.options.Clock.NewTicker(tick)
	defer ticker.Stop()
	revival := e.options.Clock.NewTimer(time.Hour)
	defer revival.Stop()
	var notBefore time.Time
	for {
		least := time.Duration(0)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		case <-revival.C():
		case <-e.wake:
			least = time.Millisecond // offers often come in several events; one round serves them all
		}
		if pause := max(least, notBefore.Sub(e.options.Clock.Now())); pause > 0 && !e.sleep(ctx, pause) {
			return nil
		}
		worked, revive := e.round(ctx)
		now := e.options.Clock.Now()
		if !revive.IsZero() {
			revival.Reset(max(0, revive.Sub(now)))
		}
		if saved := now.Add(-roundBurst * roundGap); notBefore.Before(saved) {
			notBefore = saved
		}
		notBefore = notBefore.Add(max(roundGap, roundShare*worked, min(roundEase*worked, roundPause)))
	}
}

// round looks at offers and waiting pods once. It returns for how long it has worked, without the calls that it waited for, and
// when a REVIVE is due that had to wait, zero if there is none.
func (e *economy) round(ctx context.Context) (worked time.Duration, revive time.Time) {
	// What is being tried at this moment needs nothing; should it fail, the next round sees it.
	queue, waiting := e.ledger.Idlers()
	now := e.options.Clock.Now()
	if now.Sub(e.reported) >= lookEvery {
		e.reported = now
		e.report(waiting)
	}
	if e.stream.Load() == nil {
		return 0, revive
	}
	kinds := e.kinds(queue, now)

	hungry := map[string]time.Time{} // by role: since when the hungriest pod waits, the latest
	useful := map[string]bool{}      // agents that fit a waiting pod
	for _, k := range kinds.all {
		for _, v := range k.fits {
			useful[v.AgentID] = true
		}
	}
	for i, w := range queue {
		k := kinds.of[i]
		if k == nil {
			continue
		}
		// A pod that was tried with room that fits it, and still waits, is refused by something else: it justifies nothing.
		// A gang may want more room than one of its pods.
		if len(k.fits) == 0 || k.oldGr > w.Tried || w.Tried == 0 || w.Pod.Spec.SchedulingGroup != nil {
			since := hungry[w.Need.Role]
			if w.Since.After(since) {
				since = w.Since
			}
			hungry[w.Need.Role] = since
		}
	}
	short, parted := e.ledger.ShortRoles(), e.parted(now)
	e.wakeUp(ctx, queue, kinds, now)
	worked = e.options.Clock.Since(now)
	e.declineRefused(ctx)
	for _, role := range e.options.Roles {
		since, waits := hungry[role]
		due := e.serveRole(ctx, role, waits, since, short[role], parted[role], useful, now)
		if revive.IsZero() || !due.IsZero() && due.Before(revive) {
			revive = due
		}
	}
	return worked, revive
}

// wakeUp wakes the pods that the room on offer can hold and that have not been tried with it, in priority order, each
// against what the ones before leave.
func (e *economy) wakeUp(ctx context.Context, queue []*ledger.Waiting, kinds *kinds, now time.Time) {
	if !e.reconciled.Load() {
		return
	}
	type spent struct {
		amounts resources.Amounts
		ports   []int32
	}
	used := map[string]*spent{}
	type candidate struct {
		*ledger.Waiting
		kind *kind
	}
	var candidates []candidate // that there is new room for
	var woken []*ledger.Waiting
	var version uint64
	for i, w := range queue {
		if w.Tried == 0 { // held back by PreEnqueue, until the answer is there or does not come
			if !e.Cold(w.Need.Role) && now.Sub(w.Woken) > wokenPause {
				woken = append(woken, w)
			}
			continue
		}
		if w.Blind && !e.Unknown(w.Need.Role) && now.Sub(w.Woken) > wokenPause {
			woken = append(woken, w)
			continue
		}
		if k := kinds.of[i]; k != nil && k.newGr > w.Tried {
			candidates = append(candidates, candidate{w, k})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return ledger.Order(a.Waiting, b.Waiting) })
	for _, w := range candidates {
		k := w.kind
		for i := 0; i < len(k.fits); i++ {
			v := k.fits[i]
			u := used[v.AgentID]
			if u == nil {
				u = &spent{}
				used[v.AgentID] = u
			}
			if v.FitWith(w.Need, e.options.Economy.MaintenanceLead, now, resources.Amounts{}.Sub(u.amounts), nil) != ledger.Fits ||
				slices.ContainsFunc(w.Need.Ports, func(p int32) bool { return slices.Contains(u.ports, p) }) {
				if len(w.Need.Ports) == 0 { // full for the rest of this kind, too
					k.fits = slices.Delete(k.fits, i, i+1)
					i--
				}
				continue
			}
			if v.Grew <= w.Tried {
				continue
			}
			u.amounts, u.ports = u.amounts.Add(w.Need.Amounts), append(u.ports, w.Need.Ports...)
			if w.WokenFor < v.Grew || now.Sub(w.Woken) > wokenPause {
				woken = append(woken, w.Waiting)
				version = max(version, v.Grew)
			}
			break
		}
	}
	// Those that were tried meanwhile are not tried again for nothing.
	pods := e.ledger.Wake(woken, version)
	if len(pods) == 0 {
		return
	}
	metrics.Woken.WithLabelValues().Add(float64(len(pods)))
	klog.FromContext(ctx).V(4).Info("Woke pods that Mesos offers can hold", "pods", len(pods))
	e.hooks.Activate(pods)
}

// parted looks now and then for tasks that Mesos has lost sight of.
func (e *economy) parted(now time.Time) map[string]time.Time {
	if now.Sub(e.probed) < lookEvery {
		return nil
	}
	e.probed = now
	return e.ledger.Parted()
}

// probes says whether a role is to be revived although nobody asks for room: while it is suppressed, an agent that comes
// back under another id makes no offer, and the pods of the old one would stay without tasks that are known to live. The
// longer it has been away, the longer it may take to be noticed.
func (r *roleState) probes(parted, now time.Time) bool {
	return r.suppressed && !parted.IsZero() && now.Sub(r.revived) >= min(probeAtMost, max(probeAtLeast, now.Sub(parted)/probeFraction))
}

// serveRole holds, declines and asks for the offers of one role. If a REVIVE has to wait, it returns until when.
func (e *economy) serveRole(ctx context.Context, role string, hungry bool, since time.Time, short bool, parted time.Time, useful map[string]bool, now time.Time) (due time.Time) {
	sending := e.ledger.Sending()
	e.mu.Lock()
	r := e.roles[role]
	probe := r.probes(parted, now)
	if hungry || short || probe {
		r.active = now
	}
	agents := e.ledger.AgentCount()
	gap := max(reviveAtLeast, min(5*r.latency, reviveSlow), revivePerAgents*time.Duration(agents)/1000)
	cause := r.suppressed || since.After(r.revived) || r.accepted.After(r.revived) || now.Sub(r.revived) >= reviveRepeat && !r.answered.After(r.revived)
	// What stands behind claims has to come back in any case; for pods that wait, what is held may be enough.
	revive := (hungry || short || probe) && cause
	if next := r.revived.Add(gap); revive && now.Before(next) {
		revive, due = false, next
	} else if revive && sending*revivePart >= agents && sending > 0 && now.Before(next.Add(revivePatience)) {
		// Where a few agents take all pods, REVIVEs would bring back one agent now and one then. That the ACCEPTs are answered
		// wakes the next round.
		revive, due = false, next.Add(revivePatience)
	}
	certainly := r.suppressed || short
	idle := now.Sub(r.active) >= e.options.Economy.IdleAfter
	suppress := idle && !r.suppressed && !e.ledger.Held(role) // what is reserved has to be offered to be given back
	every := lookEvery
	if !hungry && !idle {
		every = lookCalm // what is of no use to anybody can wait a little; the look is at all offers
	}
	look := suppress || now.Sub(r.looked) >= every
	flows := now.Sub(r.accepted) < following // pods are launched as they come: what no waiting pod can use is for them
	e.mu.Unlock()
	revive = revive && (certainly || !e.ledger.Holds(role, useful))

	logger := klog.FromContext(ctx)
	if revive {
		if err := e.call(ctx, calls.ReviveWith([]string{role})); err != nil {
			logger.V(2).Info("REVIVE failed; it will be repeated", "role", role, "err", err)
			return due
		}
		metrics.Revives.WithLabelValues().Inc()
		e.mu.Lock()
		if !r.answered.After(now) {
			r.revived = now
		} else {
			r.revived = r.answered.Add(-time.Nanosecond) // the answer overtook this line
		}
		if r.suppressed {
			r.suppressed, r.opened = false, now
		}
		e.mu.Unlock()
		metrics.Suppressed.WithLabelValues(role).Set(0)
		return due
	}
	if look {
		e.mu.Lock()
		r.looked = now
		e.mu.Unlock()
		e.decline(ctx, role, idle, hungry && !flows, useful)
	}
	if suppress {
		if err := e.call(ctx, calls.SuppressWith([]string{role})); err != nil {
			logger.V(2).Info("SUPPRESS failed; it will be repeated", "role", role, "err", err)
			return due
		}
		e.mu.Lock()
		r.suppressed = true
		e.mu.Unlock()
		metrics.Suppressed.WithLabelValues(role).Set(1)
	}
	return due
}

// decline gives back what is no use. Where pods are hungry, offers are held for them only.
func (e *economy) decline(ctx context.Context, role string, idle, hungry bool, useful map[string]bool) {
	var long, brief []string
	e.offers = e.ledger.OffersOf(role, e.offers[:0])
	for i := range e.offers {
		o := &e.offers[i]
		switch {
		case o.Claimed:
		case idle:
			long = append(long, o.ID)
		case o.Age >= e.options.Economy.OfferHold,
			o.Trouble != ledger.NoTrouble && o.Age >= useless,
			!useful[o.AgentID] && !e.hooks.Usable(o.Node),
			hungry && !useful[o.AgentID] && o.Age >= useless:
			brief = append(brief, o.ID)
		}
	}
	e.declineIDs(ctx, e.ledger.Decline(long), e.options.Economy.IdleRefuse)
	e.declineIDs(ctx, e.ledger.Decline(brief), e.options.Economy.ShortRefuse)
}

func (e *economy) declineRefused(ctx context.Context) {
	e.mu.Lock()
	refused, failed, inverse := e.refused, e.failed, e.inverse
	e.refused, e.failed, e.inverse = nil, nil, nil
	e.mu.Unlock()
	for _, d := range failed {
		e.declineIDs(ctx, d.offerIDs, d.refuse)
	}
	e.declineIDs(ctx, refused, e.options.Economy.IdleRefuse)
	if len(inverse) > 0 {
		answer, refuse := calls.DeclineInverseOffers, e.options.Economy.IdleRefuse
		if e.options.Economy.AcceptInverse {
			answer, refuse = calls.AcceptInverseOffers, inverseRefuse
		}
		if err := e.call(ctx, answer(inverse...).With(calls.RefuseSeconds(refuse))); err != nil {
			klog.FromContext(ctx).V(2).Info("Answer to an inverse offer failed; Mesos will send it again", "err", err)
		}
	}
}

// declineIDs sends one DECLINE. One that fails is repeated until the subscription ends: the master offers nothing of an
// agent to anybody while it takes an offer of it for outstanding, and it knows no time-out by default.
func (e *economy) declineIDs(ctx context.Context, offerIDs []string, refuse time.Duration) {
	if len(offerIDs) == 0 {
		return
	}
	klog.FromContext(ctx).V(4).Info("Declining offers", "offers", len(offerIDs), "refuse", refuse)
	if err := e.call(ctx, calls.Decline(ids(offerIDs)...).With(calls.RefuseSeconds(refuse))); err != nil {
		klog.FromContext(ctx).V(2).Info("DECLINE failed; it will be repeated", "offers", len(offerIDs), "err", err)
		e.mu.Lock()
		e.failed = append(e.failed, declined{offerIDs, refuse})
		e.mu.Unlock()
	}
}

// report brings the gauges up to date.
func (e *economy) report(queued int) {
	f := e.ledger.Fates()
	for fate, n := range map[string]int64{"received": f.Received, "held": f.Held, "accepted": f.Accepted, "declined": f.Declined, "rescinded": f.Rescinded, "lost": f.Lost} {
		metrics.Offers.WithLabelValues(fate).Set(float64(n))
	}
	for state, n := range e.ledger.Counts() {
		metrics.Tasks.WithLabelValues(ledger.State(state).String()).Set(float64(n))
	}
	metrics.Strangers.WithLabelValues().Set(float64(len(e.ledger.Strangers())))
	metrics.Waiting.WithLabelValues().Set(float64(queued))
}
