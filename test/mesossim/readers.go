// SPDX-License-Identifier: Apache-2.0

package mesossim

import "sort"

// URL returns host:port of the leading master, or of the first master while nobody leads.
func (c *Cluster) URL() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.masters[max(c.leader, 0)].addr
}

// URLs returns host:port of every master.
func (c *Cluster) URLs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]string, len(c.masters))
	for i, n := range c.masters {
		out[i] = n.addr
	}
	return out
}

// Tasks lists every task that any framework ever tried to launch, in order.
func (c *Cluster) Tasks() []Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Task, len(c.records.order))
	for i, rec := range c.records.order {
		out[i] = rec.snapshot()
	}
	return out
}

// LiveTasks lists the tasks that were launched and have not ended, of frameworks that were not removed.
func (c *Cluster) LiveTasks() []Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Task
	for _, rec := range c.records.order {
		if rec.task.Live() {
			out = append(out, rec.snapshot())
		}
	}
	return out
}

// CountLive counts the live tasks without copying them.
func (c *Cluster) CountLive() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, rec := range c.records.order {
		if rec.task.Live() {
			n++
		}
	}
	return n
}

// Task returns the last task with the id, of any framework.
func (c *Cluster) Task(id string) (Task, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.records.order) - 1; i >= 0; i-- {
		if rec := c.records.order[i]; rec.info.TaskID.Value == id {
			return rec.snapshot(), true
		}
	}
	return Task{}, false
}

// Frameworks lists the frameworks in order of their first subscription, removed ones too.
func (c *Cluster) Frameworks() []Framework {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Framework, 0, len(c.records.fwOrder))
	for _, id := range c.records.fwOrder {
		f := *c.records.frameworks[id]
		if live := c.m.frameworks[id]; live != nil {
			f.Info, f.Connected, f.Active, f.Recovered = *live.info, live.connected, live.active && live.connected, live.recovered
			f.Registered, f.Reregistered = live.registered, live.reregistered
			f.SuppressedRoles = sortedKeys(live.suppressed)
			if live.stream != nil {
				f.StreamID = live.stream.id
			}
		}
		out = append(out, f)
	}
	return out
}

// Offers lists the outstanding offers, oldest first.
func (c *Cluster) Offers() []Offer {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Offer
	for _, o := range sortedOffers(c.m.offers) {
		out = append(out, Offer{ID: o.id, FrameworkID: o.framework.id, Agent: o.agent.agent.name, AgentID: o.agent.id, Role: o.role,
			Resources: o.resources.amounts(), Made: o.made})
	}
	return out
}

// Agents lists the agents in order of their start.
func (c *Cluster) Agents() []AgentState {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]AgentState, 0, len(c.agents))
	for _, a := range c.agents {
		s := AgentState{Name: a.name, ID: a.id, Hostname: a.info.Hostname, Running: a.running, Stopped: a.stopped, Total: a.resources.amounts()}
		if a.synthetic == nil {
			s.Endpoint = a.endpoint
		}
		_, s.Unreachable = c.m.registry.unreachable[a.id]
		_, s.Gone = c.m.registry.gone[a.id]
		if v := c.m.agents[a.id]; v != nil && v.agent == a {
			s.Registered, s.Connected, s.Deactivated, s.Draining = true, v.connected, v.deactivated, v.draining != nil
			s.Total, s.Free = v.total.amounts(), v.free.amounts()
			offered := c.m.offered(v)
			s.Offered = offered.amounts()
			s.Used = v.total.minus(v.free).minus(offered).amounts()
		}
		out = append(out, s)
	}
	return out
}

func (m *master) offered(v *agentView) bag {
	var b bag
	for _, o := range sortedOffers(v.offers) {
		b = b.plus(o.resources.allocated(""))
	}
	return b
}

// Executors lists all executors that agents keep a record of.
func (c *Cluster) Executors() []Executor {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Executor
	for _, a := range c.agents {
		for _, f := range a.sortedFrameworks() {
			for _, e := range f.sortedExecutors() {
				s := Executor{ID: e.id, FrameworkID: f.id, Agent: a.name, ContainerID: e.container, State: e.state.String(), Connected: e.conn != nil,
					Tasks: e.taskIDs(), Directory: e.directory}
				if e.process != nil {
					s.Pid = e.process.Pid()
				}
				out = append(out, s)
			}
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Agent < out[j].Agent })
	return out
}

// Counters returns what was counted since the start.
func (c *Cluster) Counters() Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records.snapshot()
}

// Agent returns the handle of the agent with the name, nil if there is none.
func (c *Cluster) Agent(name string) *AgentHandle {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.byName[name]; a != nil {
		return &AgentHandle{c: c, a: a}
	}
	return nil
}
