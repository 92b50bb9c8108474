// SPDX-License-Identifier: Apache-2.0

package ledger

import "time"

// SetWindow notes an agent's maintenance window that an inverse offer told of. While offers of the agent are suppressed
// nothing else does.
func (l *Ledger) SetWindow(agentID string, window Unavailability) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.agents[agentID]; a != nil {
		l.setWindow(a, window)
	}
}

// Window returns the maintenance window that an offer or an inverse offer last told of an agent; known is false while the
// agent is not.
func (l *Ledger) Window(agentID string) (window Unavailability, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.agents[agentID]; a != nil {
		return a.unavailable, true
	}
	return Unavailability{}, false
}

// setWindow keeps the drain that has begun for the same window.
func (l *Ledger) setWindow(a *agent, window Unavailability) {
	if window.Start.Equal(a.unavailable.Start) {
		window.Ahead = a.unavailable.Ahead
	}
	if window != a.unavailable {
		a.unavailable = window
		l.timed[a.id] = a
		l.grow(a)
	}
}

// Vacate has an agent get no new tasks from so long ahead of its window: its pods are on their way out, and should not come
// back before it. 0 takes that back.
func (l *Ledger) Vacate(agentID string, ahead time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.agents[agentID]
	if a == nil || a.unavailable.Ahead == ahead || a.unavailable.Start.IsZero() {
		return
	}
	a.unavailable.Ahead = ahead
	l.grow(a)
}

// expireWindow forgets a window that is over, so that pods are tried with the agent again.
func (l *Ledger) expireWindow(a *agent, now time.Time) {
	if u := a.unavailable; u.Duration > 0 && !now.Before(u.Start.Add(u.Duration)) {
		a.unavailable = Unavailability{}
		l.grow(a)
	}
}

// TasksOfNode returns the records of the pods that have a task on the agent that serves a node.
func (l *Ledger) TasksOfNode(node string) []Task {
	l.mu.Lock()
	a := l.current(node)
	l.mu.Unlock()
	if a == nil {
		return nil
	}
	return l.TasksOn(a.id)
}

// TasksOn returns the records of the pods that have a task on an agent.
func (l *Ledger) TasksOn(agentID string) []Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.agents[agentID]
	if a == nil {
		return nil
	}
	out := make([]Task, 0, len(a.tasks))
	for _, t := range a.tasks {
		out = append(out, *t)
	}
	return out
}
