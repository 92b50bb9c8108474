// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// offer is one live offer. What it holds is added into its agent's pools; the pieces themselves are kept, because a
// launch must name resources exactly as they were offered.
type offer struct {
	id        string
	agent     *agent
	role      string
	received  time.Time
	regular   resources.Offered
	revocable resources.Offered
	held      []resources.Held // what of regular carries a reservation of ours
}

func (o *offer) part(revocable bool) *resources.Offered {
	if revocable {
		return &o.revocable
	}
	return &o.regular
}

// Refusal is an offer that cannot be used, and why.
type Refusal struct {
	OfferID string
	AgentID string
	Reason  string
}

// AddOffers takes new offers into the book. It returns those that are no use at all, to be declined; one bad offer
// hides no other.
func (l *Ledger) AddOffers(offers []mesos.Offer) []Refusal {
	// An event may bring the offers of all agents. What needs no lock is done before, so that pods being scheduled do not wait.
	now := l.options.Clock.Now()
	parsed := make([]offer, len(offers))
	nodes := make([]string, len(offers))
	holder := l.holder.Load()
	for i := range offers {
		o := &offers[i]
		nodes[i] = l.options.NodeName(o)
		parsed[i] = offer{id: o.ID.Value, role: o.GetAllocationInfo().GetRole(), received: now}
		offered := o.Resources
		if holder != nil {
			offered, parsed[i].held = holder.Bare(offered)
		}
		parsed[i].regular, parsed[i].revocable = resources.ParseOffer(offered)
	}
	var refused []Refusal
	for from := 0; from < len(offers); from += offersAtOnce {
		to := min(from+offersAtOnce, len(offers))
		refused = append(refused, l.addOffers(offers[from:to], parsed[from:to], nodes[from:to], now)...)
	}
	return refused
}

// offersAtOnce is how many offers are taken in under one hold of the lock.
const offersAtOnce = 64

func (l *Ledger) addOffers(offers []mesos.Offer, parsed []offer, nodes []string, now time.Time) []Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	var refused []Refusal
	for i := range offers {
		o := &offers[i]
		l.fates.Received++
		if l.rescinded.has(o.ID.Value) {
			l.fates.Rescinded++
			continue
		}
		if l.offers[o.ID.Value] != nil {
			l.fates.Received--
			continue
		}
		if nodes[i] == "" {
			l.fates.Declined++
			refused = append(refused, Refusal{o.ID.Value, o.AgentID.Value, "the offer does not tell which node the agent serves"})
			continue
		}
		kept := parsed[i] // a copy of its own: one offer that is kept must not keep all
		l.addOffer(o, &kept, nodes[i], now)
	}
	return refused
}

func (l *Ledger) addOffer(o *mesos.Offer, kept *offer, node string, now time.Time) {
	a := l.agentOf(o.AgentID.Value, node)
	a.hostname, a.attributes, a.domain, a.gone, a.offered = o.Hostname, o.Attributes, o.Domain, false, now
	l.setWindow(a, WindowOf(o.Unavailability))
	if a.trouble == AgentUnreachable || a.trouble == AgentDraining {
		a.trouble = NoTrouble // an agent that offers is reachable and active
		if now.Before(a.failing.until) {
			a.trouble = AgentFailing
		}
	}
	kept.agent = a
	l.offers[kept.id] = kept
	a.offers[kept.id] = kept
	l.noteHold(a, kept.role)
	for _, revocable := range []bool{false, true} {
		key := PoolKey{kept.role, revocable}
		if revocable && kept.revocable.Empty() && a.find(key) == nil {
			continue // no pool for what never was
		}
		p := a.pool(key)
		p.offered.Join(*kept.part(revocable))
		if revocable && !kept.revocable.Empty() {
			p.share(kept.revocable.Borrowed())
		}
		p.last, p.lastAt = p.offered.Amounts, now
		p.expected = resources.Offered{} // what was on its way back is part of this offer, or somebody else's
		l.adoptExecutor(a, key, o.ExecutorIDs)
	}
	l.remember(a)
	l.serve(a)
	l.grow(a)
}

// WindowOf reads a maintenance window; nil is none.
func WindowOf(u *mesos.Unavailability) (window Unavailability) {
	if u != nil {
		window.Start = time.Unix(0, u.Start.Nanoseconds)
		if u.Duration != nil {
			window.Duration = time.Duration(u.Duration.Nanoseconds)
		}
	}
	return window
}

// Rescind takes an offer back that the master has withdrawn. An id not seen yet is remembered for the offer that may
// still come.
func (l *Ledger) Rescind(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.offers[id] == nil {
		l.rescinded.add(id)
		return
	}
	l.fates.Rescinded++
	o := l.dropOffer(id)
	now := l.options.Clock.Now()
	for _, t := range l.claims {
		if t.AgentID == o.agent.id && t.Need.Role == o.role && !t.Bound && t.RescindedAt.IsZero() && !o.heldFor(t.Gang) {
			t.RescindedAt = now
			t.changed()
		}
	}
}

// dropOffer removes an offer from the book; the caller counts its fate.
func (l *Ledger) dropOffer(id string) *offer {
	o := l.offers[id]
	if o == nil {
		return nil
	}
	delete(l.offers, id)
	delete(o.agent.offers, id)
	l.recount(o.agent, o.role)
	l.version++
	l.touch(o.agent)
	return o
}

// recount adds up again what the live offers of a role hold.
func (l *Ledger) recount(a *agent, role string) {
	for _, p := range a.pools {
		if p.key.Role != role {
			continue
		}
		p.offered = resources.Offered{}
		for _, o := range a.offers {
			if o.role == role {
				p.offered.Join(*o.part(p.key.Revocable))
			}
		}
	}
}

// restore puts offers back that an ACCEPT named which certainly never reached the master. What was withdrawn meanwhile
// stays away.
func (l *Ledger) restore(offers []*offer) {
	for _, o := range offers {
		l.fates.Accepted--
		if l.rescinded.has(o.id) || o.agent.gone || l.agents[o.agent.id] != o.agent {
			l.fates.Rescinded++
			continue
		}
		l.offers[o.id] = o
		o.agent.offers[o.id] = o
		l.noteHold(o.agent, o.role)
		l.recount(o.agent, o.role)
		for _, p := range o.agent.pools {
			if p.key.Role == o.role {
				p.expected = resources.Offered{}
			}
		}
		l.grow(o.agent)
	}
}

// OfferInfo is what other packages see of a live offer.
type OfferInfo struct {
	ID, AgentID, Node, Role string
	Age                     time.Duration
	Regular, Revocable      resources.Amounts
	Ports                   resources.PortSet
	Claimed                 bool // claims of the agent and role stand on it
	Trouble                 Trouble
}

// Offers returns the live offers.
func (l *Ledger) Offers() []OfferInfo { return l.appendOffers(nil, func(*offer) bool { return true }) }

// OffersOf appends the live offers of a role to a list.
func (l *Ledger) OffersOf(role string, to []OfferInfo) []OfferInfo {
	return l.appendOffers(to, func(o *offer) bool { return o.role == role })
}

func (l *Ledger) appendOffers(to []OfferInfo, which func(*offer) bool) []OfferInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.options.Clock.Now()
	to = slices.Grow(to, len(l.offers))
	for _, o := range l.offers {
		if which(o) {
			to = append(to, OfferInfo{
				ID: o.id, AgentID: o.agent.id, Node: o.agent.node, Role: o.role, Age: now.Sub(o.received),
				Regular: o.regular.Amounts, Revocable: o.revocable.Amounts, Ports: o.regular.Ports, Trouble: o.agent.trouble, Claimed: l.hasClaims(o),
			})
		}
	}
	return to
}

// Holds says whether there is a live offer for a role from one of a set of agents.
func (l *Ledger) Holds(role string, agents map[string]bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range agents {
		if a := l.agents[id]; a != nil {
			for _, o := range a.offers {
				if o.role == role {
					return true
				}
			}
		}
	}
	return false
}

// Decline removes offers that are about to be declined and returns those that were still live. An offer whose agent
// has claims for its role by now is kept, and so is one with reservations of ours: they have to be given back.
func (l *Ledger) Decline(ids []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, id := range ids {
		o := l.offers[id]
		if o == nil || l.hasClaims(o) || len(o.held) > 0 {
			continue
		}
		l.dropOffer(id)
		l.fates.Declined++
		out = append(out, id)
	}
	return out
}

func (l *Ledger) hasClaims(o *offer) bool {
	for _, p := range o.agent.pools {
		if p.key.Role == o.role && (!p.claimed.IsZero() || len(p.ports) > 0) {
			return true
		}
	}
	return false
}
