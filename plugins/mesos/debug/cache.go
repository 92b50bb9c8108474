// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"sync"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
)

// Copying the whole book takes its lock. In a large cluster that is done at most so often, however many people look.
const (
	large     = 2000 // records of pods, or agents
	copyAgain = 2 * time.Second
)

// copied keeps a copy for a moment.
type copied[T any] struct {
	mu    sync.Mutex
	taken time.Time
	copy  []T
}

// get returns a copy that nobody may change: a new one, or in a large cluster one that is young enough.
func (c *copied[T]) get(now time.Time, size int, take func() []T) []T {
	if size < large {
		return take()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.taken); c.copy == nil || age < 0 || age >= copyAgain {
		c.copy, c.taken = take(), now
	}
	return c.copy
}

func (s *Server) allTasks() []ledger.Task {
	size := 0
	for _, n := range s.options.Ledger.Counts() {
		size += n
	}
	return s.taskCache.get(s.options.Clock.Now(), size, s.options.Ledger.Tasks)
}

func (s *Server) allAgents() []*ledger.AgentInfo {
	return s.agentCache.get(s.options.Clock.Now(), s.options.Ledger.AgentCount(), s.options.Ledger.Agents)
}
