// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// The claims of a gang can be held by dynamic reservations, so that the allocator gives what an ACCEPT leaves over to no other
// role. A reservation lives from one ACCEPT to the next on the same offers: each one gives all of ours back (UNRESERVE),
// launches, and reserves anew what claims of gangs still wait for. So tasks never hold reserved resources, the book counts as
// if there were no reservations, and the last launch of a gang leaves none.

// hold names what may be reserved for gangs: resources of one agent for one role.
type hold struct{ agentID, role string }

// Times of ACCEPTs that only change reservations.
const (
	holdAfter    = time.Second      // how long a claim of a gang stands on offers before they are reserved without a launch
	holdAgain    = 10 * time.Second // before that is tried again: the master may refuse it
	releaseAgain = 2 * time.Second  // before it is tried again to give back what no gang claims
)

// HoldAs says in whose name reservations are made and found. It must be called before offers come; without it none are.
func (l *Ledger) HoldAs(h resources.Holder) { l.holder.Store(&h) }

// heldFor says whether the offer has a reservation for a gang.
func (o *offer) heldFor(gang string) bool {
	return gang != "" && slices.ContainsFunc(o.held, func(h resources.Held) bool { return h.Group == gang })
}

// Held says whether something of a role is reserved by us, as far as is known: offers must come until it is given back.
func (l *Ledger) Held(role string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.reserved {
		if h.role == role {
			return true
		}
	}
	return false
}

// noteHold notes what an agent's live offers say about reservations.
func (l *Ledger) noteHold(a *agent, role string) {
	for _, o := range a.offers {
		if o.role == role && len(o.held) > 0 {
			l.reserved[hold{a.id, role}] = struct{}{}
			return
		}
	}
	delete(l.reserved, hold{a.id, role})
}

func (l *Ledger) forgetHolds(a *agent) {
	for h := range l.reserved {
		if h.agentID == a.id {
			delete(l.reserved, h)
		}
	}
}

// gangClaims returns the claims of gangs on an agent for a role, the oldest first.
func (l *Ledger) gangClaims(a *agent, role string) []*Task {
	var out []*Task
	for _, t := range l.claims {
		if t.Gang != "" && t.AgentID == a.id && t.Need.Role == role && !t.Need.Revocable && !t.tentative && t.KillSince.IsZero() {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(x, y *Task) int {
		if c := x.ClaimedAt.Compare(y.ClaimedAt); c != 0 {
			return c
		}
		return strings.Compare(string(x.UID), string(y.UID))
	})
	return out
}

// hold fills in what a batch gives back and reserves: of what it leaves of its offers, as much as the claims of gangs need.
func (l *Ledger) hold(b *Batch, a *agent, offers []*offer, rest resources.Offered) {
	holder := l.holder.Load()
	if holder == nil {
		return
	}
	for _, o := range offers {
		for _, h := range o.held {
			b.Unreserve = append(b.Unreserve, h.Resource)
		}
	}
	if waiting := l.gangClaims(a, b.Pool.Role); len(waiting) > 0 {
		room := rest.Clone()
		if b.Pool.Revocable {
			room = regularRest(b, offers)
		}
		reserve := func(taken []mesos.Resource, gang string) {
			for _, r := range taken {
				if reserved, ok := holder.Reserve(r, gang); ok {
					b.Reserve = append(b.Reserve, reserved)
				}
			}
		}
		if p := a.pool(PoolKey{Role: b.Pool.Role}); p.executor.phase == noExecutor && (b.Pool.Revocable || !b.NewExecutor) {
			if taken, _, err := room.TakeExecutor(l.options.Executor.Amounts); err == nil {
				reserve(taken, waiting[0].Gang)
			}
		}
		for _, t := range waiting {
			if taken, err := room.Take(t.Need.Amounts, t.Need.Ports); err == nil {
				reserve(taken, t.Gang)
			}
		}
	}
	key := hold{a.id, b.Pool.Role}
	if len(b.Reserve) > 0 {
		l.reserved[key] = struct{}{}
		return
	}
	for _, o := range a.offers {
		if o.role == key.role && len(o.held) > 0 && !slices.Contains(offers, o) {
			return
		}
	}
	if len(b.Unreserve) > 0 {
		delete(l.reserved, key)
	}
}

// regularRest is what a batch of revocable tasks leaves of the regular resources, some of which they may hold, too.
func regularRest(b *Batch, offers []*offer) resources.Offered {
	var all []mesos.Resource
	if b.NewExecutor {
		all = append(all, b.ExecutorResources...)
	}
	for i := range b.Launches {
		all = append(all, b.Launches[i].Resources...)
	}
	all = slices.DeleteFunc(all, func(r mesos.Resource) bool { return r.Revocable != nil })
	used, _ := resources.ParseOffer(all)
	var room resources.Offered
	for _, o := range offers {
		room.Join(o.regular)
	}
	if _, err := room.Take(used.Amounts, used.Ports.First(used.Ports.Count())); err != nil {
		return resources.Offered{}
	}
	return room
}

// Operations returns what the batch's ACCEPT does, with the tasks of its launches. A launch takes what is not reserved, so
// reservations are given back before it.
func (b *Batch) Operations(tasks []mesos.TaskInfo) []mesos.Offer_Operation {
	var out []mesos.Offer_Operation
	if len(b.Unreserve) > 0 {
		out = append(out, mesos.Offer_Operation{Type: mesos.Offer_Operation_UNRESERVE, Unreserve: &mesos.Offer_Operation_Unreserve{Resources: b.Unreserve}})
	}
	if len(b.Reserve) > 0 {
		out = append(out, mesos.Offer_Operation{Type: mesos.Offer_Operation_RESERVE, Reserve: &mesos.Offer_Operation_Reserve{Resources: b.Reserve}})
	}
	if len(tasks) > 0 {
		out = append(out, mesos.Offer_Operation{Type: mesos.Offer_Operation_LAUNCH, Launch: &mesos.Offer_Operation_Launch{TaskInfos: tasks}})
	}
	return out
}

// Reshape returns ACCEPTs without a launch that bring reservations in step with the gangs: those for a gang that has no claim
// on the agent any more, or of which an earlier leader has left one, are given back; and what claims of gangs have stood on
// for a while is reserved. Their offers are used up; Sent, NotSent and Unclear tell what became of them.
func (l *Ledger) Reshape() []*Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder.Load() == nil || !l.connected {
		return nil
	}
	now := l.options.Clock.Now()
	var out []*Batch
	shape := func(a *agent, role string, again time.Duration, use func(*offer) bool) {
		p := a.pool(PoolKey{Role: role})
		if now.Sub(p.shaped) < again {
			return
		}
		p.shaped = now
		b := &Batch{AgentID: a.id, Node: a.node, Pool: PoolKey{Role: role}, subscription: l.subscription}
		var offers []*offer
		var room resources.Offered
		for _, o := range a.offers {
			if o.role == role && use(o) {
				offers = append(offers, o)
				b.OfferIDs = append(b.OfferIDs, o.id)
				room.Join(o.regular)
			}
		}
		l.hold(b, a, offers, room)
		l.consume(a, offers, b, room)
		out = append(out, b)
	}
	gangs := map[hold]map[string]bool{} // with claims
	var overdue []hold
	for _, t := range l.claims {
		if t.Gang == "" || t.Need.Revocable || t.tentative {
			continue
		}
		key := hold{t.AgentID, t.Need.Role}
		if gangs[key] == nil {
			gangs[key] = map[string]bool{}
		}
		gangs[key][t.Gang] = true
		if now.Sub(t.ClaimedAt) >= holdAfter && l.agents[t.AgentID] != nil && !l.agents[t.AgentID].heldFor(t) && l.backed(t) {
			overdue = append(overdue, key)
		}
	}
	for key := range l.reserved {
		a := l.agents[key.agentID]
		stale := func(o *offer) bool {
			return slices.ContainsFunc(o.held, func(h resources.Held) bool { return !gangs[key][h.Group] })
		}
		if a == nil {
			continue
		}
		for _, o := range a.offers {
			if o.role == key.role && stale(o) {
				shape(a, key.role, releaseAgain, stale)
				break
			}
		}
	}
	for _, key := range overdue {
		shape(l.agents[key.agentID], key.role, holdAgain, func(*offer) bool { return true })
	}
	return out
}

// heldFor says whether a live offer has something reserved for a claim's gang. What an ACCEPT reserves is all that the gang
// claims on the agent by then.
func (a *agent) heldFor(t *Task) bool {
	for _, o := range a.offers {
		if o.role == t.Need.Role && o.heldFor(t.Gang) {
			return true
		}
	}
	return false
}
