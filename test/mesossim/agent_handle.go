// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"
	"syscall"
	"time"
)

// An AgentHandle does things to an agent from outside.
type AgentHandle struct {
	c *Cluster
	a *agent
}

// Name returns the agent's name.
func (h *AgentHandle) Name() string { return h.a.name }

// ID returns the agent's present id.
func (h *AgentHandle) ID() string {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	return h.a.id
}

// Kill ends the agent process as SIGKILL does: its TCP connections break; executors live on.
func (h *AgentHandle) Kill() { h.c.do(h.a.die) }

// Restart starts the process again, killing it first if it runs. It comes back under its old id.
func (h *AgentHandle) Restart() error { return h.restart(false) }

// Replace starts the process again with an empty work folder: executors are destroyed and the agent gets a new id.
func (h *AgentHandle) Replace() error { return h.restart(true) }

func (h *AgentHandle) restart(wipe bool) error {
	ok := h.c.do(func() {
		a := h.a
		a.die()
		if wipe {
			a.wipe()
		}
		a.generation++
		a.begin(a.c.timing.AgentStart, a.c.timing.RegistrationBackoff)
	})
	if !ok {
		return fmt.Errorf("restart of agent %s: the cluster is closed", h.a.name)
	}
	return nil
}

// Unregister is SIGUSR1: the agent tells the master that it goes, shuts its executors down and ends.
func (h *AgentHandle) Unregister() {
	h.c.do(func() {
		a := h.a
		if !a.running {
			return
		}
		if m := a.c.m; !m.ended {
			if v := m.agents[a.id]; v != nil && v.agent == a {
				m.removeOrderly(v, "the agent unregistered")
			}
		}
		a.registered, a.leaving = false, true
		a.shutdownAll()
		a.c.post(a.leave)
	})
}

// leave ends a process that is leaving once it has no executors.
func (a *agent) leave() {
	if a.leaving && len(a.frameworks) == 0 {
		a.leaving = false
		a.die()
	}
}

// Stop is SIGSTOP: connections stay open, nothing is answered, messages wait.
func (h *AgentHandle) Stop() {
	h.c.do(func() {
		if h.a.running {
			h.a.stopped = true
		}
	})
}

// Continue is SIGCONT: what waited is handled now. An agent that the master has given up meanwhile registers again.
func (h *AgentHandle) Continue() {
	h.c.do(func() {
		a := h.a
		if !a.running || !a.stopped {
			return
		}
		a.stopped = false
		a.continued = a.c.now()
		held := a.held
		a.held = nil
		for _, f := range held {
			a.c.post(f)
		}
		if m := a.c.m; m != nil && !m.ended && !a.cut {
			if v := m.agents[a.id]; v != nil && v.agent == a {
				v.answered = true
			}
		}
		a.c.post(a.noticeMaster)
	})
}

// Cut drops every message between the agent and the master, in both directions, while processes and connections live on.
func (h *AgentHandle) Cut() { h.c.do(func() { h.a.cut = true }) }

// Heal ends a Cut; the agent registers again.
func (h *AgentHandle) Heal() {
	h.c.do(func() {
		if h.a.cut {
			h.a.cut = false
			h.a.registered = false
			h.a.after(h.a.c.timing.RegistrationBackoff, h.a.register)
		}
	})
}

// Disconnect breaks the TCP link to the master once; the agent registers again after its back-off.
func (h *AgentHandle) Disconnect() {
	h.c.do(func() {
		a := h.a
		a.linkBroken()
		if a.running {
			a.after(a.c.timing.RegistrationBackoff, a.register)
		}
	})
}

// noticeMaster registers again if the master has given the agent up.
func (a *agent) noticeMaster() {
	m := a.c.m
	if m == nil || m.ended || a.state != nodeLeading {
		return
	}
	if v := m.agents[a.id]; v == nil || v.agent != a || !v.connected {
		a.registered = false
		a.after(a.c.timing.RegistrationBackoff, a.register)
	}
}

// SetDelay makes the agent slow: every message to and from it takes that long.
func (h *AgentHandle) SetDelay(d time.Duration) { h.c.do(func() { h.a.opts.Delay = d }) }

// KillExecutor kills the process of an executor with SIGKILL, all of its group. It returns false if there is none.
func (h *AgentHandle) KillExecutor(executorID string) bool {
	return h.executor(executorID, func(e *executor) { e.process.Kill() })
}

// SignalExecutor sends a signal to the executor's first process only.
func (h *AgentHandle) SignalExecutor(executorID string, sig syscall.Signal) bool {
	return h.executor(executorID, func(e *executor) { _ = syscall.Kill(e.process.Pid(), sig) })
}

// ExitExecutor ends a synthetic executor with the wait status, as if its process had exited.
func (h *AgentHandle) ExitExecutor(executorID string, status int) bool {
	found := false
	h.c.do(func() {
		for _, f := range h.a.sortedFrameworks() {
			if e := f.executors[executorID]; e != nil && e.synthetic != nil && e.state != executorTerminated {
				found = true
				h.a.processEnded(e, status)
			}
		}
	})
	return found
}

// DropExecutorStreams breaks the event streams of all executors of the agent.
func (h *AgentHandle) DropExecutorStreams() {
	h.c.do(func() {
		for _, f := range h.a.sortedFrameworks() {
			for _, e := range f.sortedExecutors() {
				e.conn.end()
				e.conn = nil
			}
		}
	})
}

func (h *AgentHandle) executor(id string, act func(*executor)) bool {
	found := false
	h.c.do(func() {
		for _, f := range h.a.sortedFrameworks() {
			if e := f.executors[id]; e != nil && e.process != nil && e.state != executorTerminated {
				found = true
				act(e)
			}
		}
	})
	return found
}
