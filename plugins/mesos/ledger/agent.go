// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// agent is what is known of one Mesos agent.
type agent struct {
	id, hostname, node string
	attributes         []mesos.Attribute
	domain             *mesos.DomainInfo
	offers             map[string]*offer
	pools              []*pool          // few: one by role and kind of task
	tasks              map[string]*Task // with a task id, not terminal
	executors          map[string]*executorUse
	trouble            Trouble
	failing            failing
	unavailable        Unavailability
	grew               uint64    // ledger version at which it last had more room
	gone               bool      // removed from the master; kept while tasks name it
	offered            time.Time // when it last made an offer
	most, total        resources.Amounts
	offeredPorts       resources.PortSet // last
	info               *AgentInfo        // as Agents told of it last; nil if it has changed since
	dirty              bool              // it has changed since the last snapshot
}

// Trouble says why an agent gets no new tasks.
type Trouble string

// The kinds of trouble. They are words for reasons and taints, too.
const (
	NoTrouble        Trouble = ""
	AgentUnreachable Trouble = "unreachable"
	AgentDraining    Trouble = "draining"
	AgentAmbiguous   Trouble = "ambiguous"
	// AgentFailing: launches on the agent failed, although it offers. It gets no new pods for a while.
	AgentFailing Trouble = "failing"
)

// Unavailability is a maintenance window; a zero Duration has no end.
type Unavailability struct {
	Start    time.Time
	Duration time.Duration
	// Ahead is how long before it the agent is vacated, if that is longer than the time at which agents get no new tasks.
	Ahead time.Duration
}

// Covers says whether an agent should get no new tasks at a time: the window has begun, or begins within lead, and it
// has not ended.
func (u Unavailability) Covers(now time.Time, lead time.Duration) bool {
	return !u.Start.IsZero() && !now.Add(max(lead, u.Ahead)).Before(u.Start) && (u.Duration == 0 || now.Before(u.Start.Add(u.Duration)))
}

// pool is the room on an agent for one role.
type pool struct {
	key      PoolKey
	offered  resources.Offered // the sum of the live offers
	expected resources.Offered // rests of accepted offers that have not been offered again yet
	until    time.Time         // when expected stops to count
	sending  int               // batches whose ACCEPT has no answer yet
	sent     time.Time         // when the last was processed
	last     resources.Amounts // what was offered when an offer last came, at lastAt; for people
	lastAt   time.Time
	claimed  resources.Amounts // of Claimed and Unheld tasks
	ports    map[int32]int     // ports of those, with how many claim each
	executor executor
	shaped   time.Time // when reservations alone were last changed
	// sibling is the pool of the same role for the other kind of task, nil if there is none. shared names what both have
	// from the same pieces: a claim in one pool takes it from both.
	sibling *pool
	shared  resources.Names
}

// executor is the state of the one executor that new tasks of a pool use.
type executor struct {
	phase     executorPhase
	id        string
	resources []mesos.Resource
	digest    string
}

type executorPhase int

const (
	noExecutor        executorPhase = iota
	executorLaunching               // paid for by an ACCEPT whose first status has not come
	executorRunning
)

func (p *pool) forgetOffers() {
	p.offered, p.expected = resources.Offered{}, resources.Offered{}
}

func (p *pool) charge(n resources.Need) {
	p.claimed = p.claimed.Add(n.Amounts)
	for _, port := range n.Ports {
		if p.ports == nil {
			p.ports = map[int32]int{}
		}
		p.ports[port]++
	}
}

func (p *pool) discharge(n resources.Need) {
	p.claimed = p.claimed.Sub(n.Amounts)
	for _, port := range n.Ports {
		if p.ports[port]--; p.ports[port] <= 0 {
			delete(p.ports, port)
		}
	}
}

// headroom is what new claims may take: offered and expected, less what is claimed, less the executor's own
// resources while the next ACCEPT would have to pay for it.
func (p *pool) headroom(executor resources.Amounts, now time.Time) resources.Amounts {
	room := p.offered.Amounts.Sub(p.claimed).Sub(p.siblingClaims())
	if now.Before(p.until) {
		room = room.Add(p.expected.Amounts)
	}
	if p.executor.phase == noExecutor {
		if room = room.Sub(executor); !p.holdsExecutor(executor, now) {
			return resources.Amounts{}.Sub(executor) // the sum may do, but no single piece does
		}
	}
	return room
}

// holdsExecutor says whether an executor can be launched with what is offered and expected.
func (p *pool) holdsExecutor(executor resources.Amounts, now time.Time) bool {
	if p.offered.HoldsExecutor(executor) {
		return true
	}
	if !now.Before(p.until) {
		return false
	}
	both := p.offered.Clone()
	both.Join(p.expected)
	return both.HoldsExecutor(executor)
}

// freePorts is the set of ports that new claims may take.
func (p *pool) freePorts(now time.Time) resources.PortSet {
	free := p.offered.Ports
	if now.Before(p.until) {
		free = free.Union(p.expected.Ports)
	}
	taken := make([]int32, 0, len(p.ports))
	for port := range p.ports {
		taken = append(taken, port)
	}
	if p.sibling != nil && p.shared.Ports {
		for port := range p.sibling.ports {
			taken = append(taken, port)
		}
	}
	if len(taken) == 0 {
		return free
	}
	return free.Minus(resources.PortsOf(taken...))
}

// find returns a pool, nil if there is none.
func (a *agent) find(key PoolKey) *pool {
	for _, p := range a.pools {
		if p.key == key {
			return p
		}
	}
	return nil
}

// pool returns a pool, new if need be.
func (a *agent) pool(key PoolKey) *pool {
	p := a.find(key)
	if p == nil {
		p = &pool{key: key}
		a.pools = append(a.pools, p)
		if other := a.find(PoolKey{key.Role, !key.Revocable}); other != nil {
			p.sibling, other.sibling = other, p
		}
	}
	return p
}

// siblingClaims is what claims of the other kind of task take from the pieces that both kinds share.
func (p *pool) siblingClaims() resources.Amounts {
	if p.sibling == nil {
		return resources.Amounts{}
	}
	return p.sibling.claimed.Only(p.shared)
}

// share notes what a revocable pool has from the regular one.
func (p *pool) share(names resources.Names) {
	p.shared = names
	if p.sibling != nil {
		p.sibling.shared = names
	}
}

// agentOf returns the record of an agent, new if need be.
func (l *Ledger) agentOf(id, node string) *agent {
	a := l.agents[id]
	if a == nil {
		a = &agent{id: id, offers: map[string]*offer{}, tasks: map[string]*Task{}, executors: map[string]*executorUse{}}
		l.agents[id] = a
	}
	if a.node == "" && node != "" {
		a.node = node
		l.byNode[node] = append(l.byNode[node], a)
	}
	return a
}

// rivalry is how long after its last offer an agent still counts as one that serves its node.
const rivalry = 15 * time.Minute

// serve decides which agent a node's room comes from, now that a has made an offer. The one that offers comes first: it is
// the one that lookups by node find.
func (l *Ledger) serve(a *agent) {
	rivals := l.byNode[a.node]
	if i := slices.Index(rivals, a); i > 0 {
		rivals[0], rivals[i] = rivals[i], rivals[0]
		l.touch(rivals[i])
	}
	l.judgeRivals(a.node)
}

// judgeRivals marks the agents of a node that cannot be told apart. Between two agents that both offer, or did so not long
// ago, and that the master knows as far as it has said, is never guessed.
func (l *Ledger) judgeRivals(node string) {
	rivals := l.byNode[node]
	offering := 0
	now := l.options.Clock.Now()
	offers := func(other *agent) bool {
		return !other.gone && !other.offered.IsZero() && now.Sub(other.offered) < rivalry
	}
	for _, other := range rivals {
		if offers(other) {
			offering++
		}
	}
	for _, other := range rivals {
		trouble := other.trouble
		switch {
		case offering > 1 && offers(other):
			trouble = AgentAmbiguous
		case other.trouble == AgentAmbiguous:
			trouble = NoTrouble
		}
		if trouble != other.trouble {
			other.trouble = trouble
			l.grow(other)
		}
	}
}

// notRegistered notes that the master has said that an agent is not registered with it: it is no rival of another agent of
// its node until it offers again. Its removal itself may have been lost with a broken stream.
func (l *Ledger) notRegistered(a *agent) {
	if len(a.offers) > 0 || a.offered.IsZero() {
		return
	}
	a.offered = time.Time{}
	l.judgeRivals(a.node)
}

// current returns the agent that serves a node, nil if none is known.
func (l *Ledger) current(node string) *agent {
	if agents := l.byNode[node]; len(agents) > 0 {
		return agents[0]
	}
	return nil
}

// AgentGone notes that the master has removed an agent (FAILURE without an executor). Its tasks' fates come as
// updates or have to be reconciled.
func (l *Ledger) AgentGone(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.agents[id]
	if a == nil {
		return
	}
	for offerID := range a.offers {
		l.dropOffer(offerID)
		l.fates.Rescinded++
	}
	for _, p := range a.pools {
		p.forgetOffers()
		p.executor = executor{digest: p.executor.digest}
	}
	clear(a.executors)
	l.forgetHolds(a)
	a.gone = true
	l.touch(a)
}

// ExecutorGone notes that an executor has ended (FAILURE with an executor). The next ACCEPT pays for a new one.
func (l *Ledger) ExecutorGone(agentID, executorID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.agents[agentID]; a != nil {
		l.executorEnded(a, executorID)
	}
}

func (l *Ledger) executorEnded(a *agent, executorID string) {
	delete(a.executors, executorID)
	l.endedExecutors.add(executorID)
	for _, p := range a.pools {
		if p.executor.id == executorID && executorID != "" {
			p.executor = executor{digest: p.executor.digest}
			l.touch(a)
		}
	}
}

// executorSeen notes that an executor lives: a task of its answered, or an offer names it.
func (l *Ledger) executorSeen(a *agent, executorID string) {
	for _, p := range a.pools {
		if p.executor.id == executorID && p.executor.phase == executorLaunching {
			p.executor.phase = executorRunning
			l.touch(a)
		}
	}
}

// adoptExecutor learns from an offer which executors of ours run on its agent. One whose description is the present
// one is used for new tasks; others drain. A running one that the offer does not name has ended unnoticed.
func (l *Ledger) adoptExecutor(a *agent, key PoolKey, named []mesos.ExecutorID) {
	p := a.pool(key)
	if p.executor.digest == "" {
		p.executor.digest = l.options.Executor.Digest(a.node, key.Role, key.Revocable)
	}
	best := taskinfo.ExecutorID{Incarnation: -1}
	for _, n := range named {
		if _, ours := taskinfo.ParseExecutorID(n.Value); ours {
			l.use(a, n.Value, 0)
		}
	}
	for _, n := range named {
		if n.Value == p.executor.id {
			l.executorSeen(a, n.Value)
			return
		}
		if u := a.executors[n.Value]; u != nil && u.retired || l.endedExecutors.has(n.Value) {
			continue // the master may name one that never came to run on the agent: its tasks would be dropped
		}
		if e, ok := taskinfo.ParseExecutorID(n.Value); ok && e.Digest == p.executor.digest && e.Kind != resources.Other && e.Incarnation > best.Incarnation {
			best = e
		}
	}
	if p.executor.phase == executorLaunching {
		return // the offer may be older than the ACCEPT
	}
	p.executor = executor{digest: p.executor.digest}
	if best.Incarnation >= 0 {
		p.executor.phase, p.executor.id = executorRunning, best.String()
		p.executor.resources = resources.ExecutorResources(l.options.Executor.Amounts, key.Role, best.Kind, key.Revocable)
	}
	l.touch(a)
}

// SetTrouble marks or clears an agent's trouble.
func (l *Ledger) SetTrouble(agentID string, t Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.agents[agentID]; a != nil {
		l.setTrouble(a, t)
	}
}

func (l *Ledger) setTrouble(a *agent, t Trouble) {
	if a.trouble != t {
		a.trouble = t
		l.grow(a)
	}
}

// AgentInfo is what other packages see of an agent.
type AgentInfo struct {
	ID, Hostname, Node string
	Attributes         []mesos.Attribute
	Domain             *mesos.DomainInfo
	Trouble            Trouble
	Unavailable        Unavailability
	Gone               bool
	Serves             bool // the node's room comes from this agent
	Offers             int
	Tasks              int
	Pools              []PoolInfo
	// Most is the most that was seen of the agent, offered and held by us at one time; OfferedPorts are those of its last offer.
	Most         resources.Amounts
	OfferedPorts resources.PortSet
	// Total is all that the agent has, as an executor of ours was told; zero while none has said so.
	Total resources.Amounts
}

// PoolInfo is the room of an agent for one role.
type PoolInfo struct {
	PoolKey
	Offered, Claimed, Headroom resources.Amounts
	Ports                      resources.PortSet
	Executor                   string
	// Last is what was offered when an offer last came, at LastAt.
	Last   resources.Amounts
	LastAt time.Time
}

// AgentCount returns how many agents are known.
func (l *Ledger) AgentCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.agents)
}

// agentsAtOnce is how many agents are looked at under one hold of the lock.
const agentsAtOnce = 256

// Agents returns all known agents, each as it was at some moment during the call. An agent that has not changed since the
// last call is told of by the same record: a record must not be changed, and who keeps it can tell what is new.
func (l *Ledger) Agents() []*AgentInfo {
	l.mu.Lock()
	all := slices.AppendSeq(make([]*agent, 0, len(l.agents)), maps.Values(l.agents))
	l.mu.Unlock()
	out := make([]*AgentInfo, 0, len(all))
	for some := range slices.Chunk(all, agentsAtOnce) {
		l.mu.Lock()
		now := l.options.Clock.Now()
		for _, a := range some {
			if l.agents[a.id] == a {
				out = append(out, l.infoOf(a, now))
			}
		}
		l.mu.Unlock()
	}
	return out
}

func (l *Ledger) infoOf(a *agent, now time.Time) *AgentInfo {
	serves := l.current(a.node) == a
	if i := a.info; i != nil && i.Serves == serves && i.Tasks == len(a.tasks) {
		return i
	}
	info := &AgentInfo{
		ID: a.id, Hostname: a.hostname, Node: a.node, Attributes: a.attributes, Domain: a.domain, Trouble: a.trouble,
		Unavailable: a.unavailable, Gone: a.gone, Serves: serves, Offers: len(a.offers), Tasks: len(a.tasks),
		Most: a.most, Total: a.total, OfferedPorts: a.offeredPorts,
	}
	for _, p := range a.pools {
		info.Pools = append(info.Pools, PoolInfo{
			PoolKey: p.key, Offered: p.offered.Amounts, Claimed: p.claimed,
			Headroom: p.headroom(l.options.Executor.Amounts, now), Ports: p.freePorts(now), Executor: p.executor.id, Last: p.last, LastAt: p.lastAt,
		})
	}
	a.info = info
	return info
}
