// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// Batch is what one ACCEPT launches: tasks of one agent and one role on some of the agent's offers.
type Batch struct {
	AgentID, Node string
	Pool          PoolKey
	OfferIDs      []string
	// ExecutorID and ExecutorResources describe the executor of all tasks. NewExecutor says that this ACCEPT pays for it.
	ExecutorID        string
	ExecutorResources []mesos.Resource
	NewExecutor       bool
	Launches          []Launch
	// Unreserve are the reservations of ours on the offers, Reserve those that what is left over gets anew.
	Unreserve, Reserve []mesos.Resource

	offers       []*offer
	pool         *pool
	subscription int
}

// Launch is one task of a batch, with the resources it takes from the offers.
type Launch struct {
	Task      Task
	Resources []mesos.Resource
}

// Batch takes offers of an agent for as many of the claims in ready as they hold, in order, bound pods first and at
// most limit. It returns nil when no claim can be launched now: there is no offer behind them yet, or the ACCEPT that
// pays for the executor has not been answered. The claims of the batch become Launching and its offers are used up.
func (l *Ledger) Batch(agentID string, key PoolKey, ready []types.UID, limit int) *Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.agents[agentID]
	if a == nil || !l.connected || len(a.offers) == 0 {
		return nil // the common case while the rest of an accepted offer is on its way
	}
	p := a.pool(key)
	if p.executor.phase == executorLaunching {
		return nil
	}
	room := p.offered
	b := &Batch{AgentID: a.id, Node: a.node, Pool: key, subscription: l.subscription}
	if p.executor.phase == noExecutor {
		room = room.Clone()
		held, kind, err := room.TakeExecutor(l.options.Executor.Amounts)
		if err != nil {
			return nil
		}
		b.NewExecutor, b.ExecutorResources = true, held
		b.ExecutorID = taskinfo.ExecutorID{Digest: p.executor.digest, Kind: kind, Incarnation: l.nextAttempt()}.String()
	} else {
		b.ExecutorID, b.ExecutorResources = p.executor.id, p.executor.resources
	}

	chosen := l.choose(ready, a, key, room, limit)
	if len(chosen) == 0 {
		return nil
	}
	offers := l.fewest(a, key, chosen, b.NewExecutor)

	// Take the pieces again from just those offers: the executor first, as the master charges it with the first task.
	room = resources.Offered{}
	for _, o := range offers {
		room.Join(*o.part(key.Revocable))
		b.OfferIDs = append(b.OfferIDs, o.id)
	}
	if b.NewExecutor {
		held, kind, err := room.TakeExecutor(l.options.Executor.Amounts)
		if err != nil {
			return nil
		}
		id, _ := taskinfo.ParseExecutorID(b.ExecutorID)
		id.Kind = kind
		b.ExecutorID, b.ExecutorResources = id.String(), held
	}
	b.Launches = make([]Launch, 0, len(chosen))
	for _, t := range chosen {
		if t.State != Claimed {
			continue // a pod gets one task, however often it is named
		}
		held, err := room.Take(t.Need.Amounts, t.Need.Ports)
		if err != nil {
			continue // cannot be: fewest keeps what the chosen need
		}
		t.ID, t.ExecutorID, t.Offers = taskinfo.TaskID(t.UID, l.nextAttempt()), b.ExecutorID, b.OfferIDs
		t.Answered, t.accepted = false, false
		t.Attempts++
		if !t.Bound { // of a bound pod it says why its task was lost
			t.Last = Status{}
		}
		l.tasks[t.ID] = t
		l.move(t, Launching)
		b.Launches = append(b.Launches, Launch{*t, held})
	}
	l.use(a, b.ExecutorID, len(b.Launches))
	l.hold(b, a, offers, room)
	l.consume(a, offers, b, room)
	return b
}

// StillClaimed returns those of uids, in order, whose claims on an agent are still to be launched. It works in place.
func (l *Ledger) StillClaimed(agentID string, uids []types.UID) []types.UID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(uids, func(uid types.UID) bool {
		t := l.claims[uid]
		return t == nil || t.AgentID != agentID
	})
}

// choose picks the claims that fit into room, bound pods first.
func (l *Ledger) choose(ready []types.UID, a *agent, key PoolKey, room resources.Offered, limit int) []*Task {
	candidates := make([]*Task, 0, len(ready))
	for _, uid := range ready {
		if l.reconciling && l.pods[uid] != nil && l.pods[uid].Bound {
			continue // it may have a task that another leader has launched
		}
		if t := l.pods[uid]; t != nil && t.State == Claimed && t.AgentID == a.id && poolOf(t.Need) == key && t.KillSince.IsZero() {
			candidates = append(candidates, t)
		}
	}
	slices.SortStableFunc(candidates, func(x, y *Task) int {
		if x.Bound != y.Bound {
			return map[bool]int{true: -1, false: 1}[x.Bound]
		}
		return cmp.Compare(y.Priority, x.Priority)
	})
	chosen := make([]*Task, 0, min(limit, len(candidates)))
	left, taken := room.Amounts, map[int32]bool{}
	for _, t := range candidates {
		if len(chosen) == limit {
			break
		}
		if !t.Need.FitsIn(left) || !room.Ports.HasAll(t.Need.Ports) || slices.ContainsFunc(t.Need.Ports, func(p int32) bool { return taken[p] }) {
			continue
		}
		left = left.Sub(t.Need.Amounts)
		for _, port := range t.Need.Ports {
			taken[port] = true
		}
		chosen = append(chosen, t)
	}
	return chosen
}

// fewest returns a minimal set of the agent's offers that holds the chosen claims: an ACCEPT uses offers up whole.
func (l *Ledger) fewest(a *agent, key PoolKey, chosen []*Task, newExecutor bool) []*offer {
	var need resources.Need
	for _, t := range chosen {
		need.Amounts = need.Amounts.Add(t.Need.Amounts)
		need.Ports = append(need.Ports, t.Need.Ports...)
	}
	kept := make([]*offer, 0, len(a.offers))
	for _, o := range a.offers {
		if o.role == key.Role && !o.part(key.Revocable).Empty() {
			kept = append(kept, o)
		}
	}
	// The smallest are tried first for being left out; ids make the order one.
	slices.SortFunc(kept, func(x, y *offer) int {
		px, py := x.part(key.Revocable).Amounts, y.part(key.Revocable).Amounts
		return cmp.Or(cmp.Compare(px.CPUs, py.CPUs), cmp.Compare(px.Mem, py.Mem), cmp.Compare(y.id, x.id))
	})
	holds := func(offers []*offer) bool {
		var sum resources.Offered
		for _, o := range offers {
			sum.Join(*o.part(key.Revocable))
		}
		if newExecutor {
			if _, _, err := sum.TakeExecutor(l.options.Executor.Amounts); err != nil {
				return false
			}
		}
		return need.FitsIn(sum.Amounts) && sum.Ports.HasAll(need.Ports)
	}
	for i := 0; i < len(kept) && len(kept) > 1; {
		without := slices.Delete(slices.Clone(kept), i, i+1)
		if holds(without) {
			kept = without
		} else {
			i++
		}
	}
	return kept
}

// consume takes the batch's offers out of the book and expects their rest back.
func (l *Ledger) consume(a *agent, offers []*offer, b *Batch, rest resources.Offered) {
	now := l.options.Clock.Now()
	b.offers = offers
	for _, o := range offers {
		for _, p := range a.pools {
			if p.key.Role == o.role && p.key != b.Pool {
				p.expected.Join(*o.part(p.key.Revocable))
				p.until = now.Add(l.options.ReturnTime)
			}
		}
		l.dropOffer(o.id)
		l.fates.Accepted++
	}
	p := a.pool(b.Pool)
	b.pool = p
	p.sending++
	l.sending++
	p.expected.Join(rest)
	p.until = now.Add(l.options.ReturnTime)
	l.timed[a.id] = a
	if b.NewExecutor {
		p.executor.phase, p.executor.id, p.executor.resources = executorLaunching, b.ExecutorID, b.ExecutorResources
	}
	l.touch(a)
}

func (l *Ledger) answered(b *Batch) {
	b.pool.sending--
	l.sending--
}

// Sending returns the number of batches whose ACCEPT has no answer yet.
func (l *Ledger) Sending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sending
}

// Sent notes that a batch's ACCEPT was answered: the master has processed it. From now on the rest of its offers is expected.
func (l *Ledger) Sent(b *Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered(b)
	b.pool.sent = l.options.Clock.Now()
	if !b.pool.expected.Empty() {
		b.pool.until = b.pool.sent.Add(l.options.ReturnTime)
	}
	for i := range b.Launches {
		if t := l.tasks[b.Launches[i].Task.ID]; t != nil {
			t.accepted = true
		}
	}
}

// NotSent undoes a batch whose ACCEPT certainly was not processed: its tasks are claims again. If the subscription that
// the offers belong to still stands, they are usable again, too.
func (l *Ledger) NotSent(b *Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered(b)
	for i := range b.Launches {
		t := l.tasks[b.Launches[i].Task.ID]
		if t == nil || t.State != Launching {
			continue
		}
		delete(l.tasks, t.ID)
		if a := l.agents[t.AgentID]; a != nil {
			delete(a.tasks, t.ID)
		}
		t.ID, t.Offers = "", nil
		t.Refusals++
		l.move(t, Claimed)
		if !t.KillSince.IsZero() && !t.Bound || !t.PodGone.IsZero() && t.Bound {
			// It was given up while the ACCEPT was on its way, so that nobody releases it any more.
			l.freed = append(l.freed, Change{Effect: Freed, Task: *t})
			l.forget(t)
		}
	}
	a := l.agents[b.AgentID]
	if a == nil {
		return
	}
	if b.NewExecutor {
		l.executorEnded(a, b.ExecutorID)
	}
	if l.connected && l.subscription == b.subscription {
		l.restore(b.offers)
	}
}

// Freed returns the claims that NotSent has dropped since it was last asked: their pods may be scheduled again.
func (l *Ledger) Freed() []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.freed
	l.freed = nil
	return out
}

// Unclear notes that a batch's ACCEPT got no answer: its tasks may or may not exist.
func (l *Ledger) Unclear(b *Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered(b)
	for i := range b.Launches {
		if t := l.tasks[b.Launches[i].Task.ID]; t != nil && t.State == Launching {
			l.move(t, Unclear)
		}
	}
	if len(b.Reserve)+len(b.Unreserve) > 0 {
		l.reserved[hold{b.AgentID, b.Pool.Role}] = struct{}{} // until an offer says otherwise
	}
}

// Fence is a set of offers and tasks that a lost ACCEPT named.
type Fence struct {
	OfferIDs []string
	Tasks    []Doomed
}

// Fences returns what must be fenced before Unclear tasks may be believed dead: DECLINE the offers, then RECONCILE the
// tasks.
func (l *Ledger) Fences() []Fence {
	l.mu.Lock()
	defer l.mu.Unlock()
	byOffers := map[string]*Fence{}
	for _, t := range l.heeded() {
		if t.State != Unclear || len(t.Offers) == 0 {
			continue
		}
		f := byOffers[t.Offers[0]]
		if f == nil {
			f = &Fence{OfferIDs: t.Offers}
			byOffers[t.Offers[0]] = f
		}
		f.Tasks = append(f.Tasks, Doomed{TaskID: t.ID, AgentID: t.AgentID})
	}
	out := make([]Fence, 0, len(byOffers))
	for _, f := range byOffers {
		out = append(out, *f)
	}
	return out
}

// Fenced notes that tasks are fenced: their ACCEPT can no longer be processed, so from now on the master's word counts.
func (l *Ledger) Fenced(taskIDs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range taskIDs {
		if t := l.tasks[id]; t != nil && t.State == Unclear {
			t.Answered, t.accepted = false, true
			l.move(t, Launching)
		}
	}
}

// Short says since when a claim has had no offer behind it: the agent's live offers cannot hold it. ok is false while
// they can, while nothing is claimed, or while an ACCEPT for the agent is still on its way, whose rest comes back later.
func (l *Ledger) Short(uid types.UID) (since time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.claims[uid]
	if t == nil || l.backed(t) {
		return time.Time{}, false
	}
	if t.RescindedAt.After(t.ClaimedAt) {
		return t.RescindedAt, true
	}
	since = t.ClaimedAt
	if a := l.agents[t.AgentID]; a != nil {
		// While offers keep coming, those before it in line are served, and its turn comes.
		p := a.pool(poolOf(t.Need))
		for _, at := range []time.Time{p.lastAt, p.sent} {
			if at.After(since) {
				since = at
			}
		}
	}
	return since, true
}

func (l *Ledger) backed(t *Task) bool {
	a := l.agents[t.AgentID]
	if a == nil {
		return false
	}
	p := a.pool(poolOf(t.Need))
	if p.sending > 0 && !t.RescindedAt.After(t.ClaimedAt) {
		return true
	}
	room := p.offered.Amounts
	if p.executor.phase == noExecutor {
		room = room.Sub(l.options.Executor.Amounts)
	}
	return t.Need.FitsIn(room) && p.offered.Ports.HasAll(t.Need.Ports)
}

// ShortRoles returns the roles in which claims have no offer behind them.
func (l *Ledger) ShortRoles() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]bool{}
	for _, t := range l.claims {
		if !out[t.Need.Role] && !l.backed(t) {
			out[t.Need.Role] = true
		}
	}
	return out
}
