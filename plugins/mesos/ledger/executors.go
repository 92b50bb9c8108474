// SPDX-License-Identifier: Apache-2.0

package ledger

import "time"

// executorUse is what is known of one executor of ours on an agent.
type executorUse struct {
	launched int       // tasks since this process leads
	last     time.Time // when it last had a task, or was first heard of
	asked    time.Time // when its end was last asked for
	retired  bool      // new tasks do not use it any more
}

// use notes that an executor has n more tasks, or just that it is there.
func (l *Ledger) use(a *agent, executorID string, n int) {
	if executorID == "" {
		return
	}
	u := a.executors[executorID]
	if u == nil {
		u = &executorUse{last: l.options.Clock.Now()}
		a.executors[executorID] = u
	}
	if u.launched += n; n > 0 {
		u.last = l.options.Clock.Now()
	}
}

// Retired is an executor to shut down.
type Retired struct{ AgentID, ExecutorID string }

// Rules for retiring executors that have no task.
const (
	retireDrained = 30 * time.Second // one that new tasks do not use
	retireRepeat  = 30 * time.Second // between two requests to end
)

// Retire returns the executors of ours that are to end, none of which has a task: those idle for longer than idle
// (0 means never), and those that new tasks no longer use because their description has changed or they have had maxTasks
// tasks. New tasks stop to use an executor before its end is asked for. It must not be called before reconciliation: a task
// that is not known yet may be in one.
func (l *Ledger) Retire(idle time.Duration, maxTasks int) []Retired {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.options.Clock.Now()
	var out []Retired
	for _, a := range l.agents {
		if len(a.executors) == 0 {
			continue
		}
		busy, unsure := l.executorsInUse(a)
		for id, u := range a.executors {
			p := a.poolUsing(id)
			if p != nil && maxTasks > 0 && u.launched >= maxTasks && p.executor.phase == executorRunning {
				p.executor, u.retired = executor{digest: p.executor.digest}, true
				l.touch(a)
				p = nil
			}
			if busy[id] {
				u.last = now
				continue
			}
			wait := retireDrained
			if p != nil {
				if idle == 0 || p.executor.phase != executorRunning || !p.claimed.IsZero() {
					continue
				}
				wait = idle
			}
			if unsure || now.Sub(u.last) < wait || now.Sub(u.asked) < retireRepeat {
				continue
			}
			if p != nil {
				p.executor = executor{digest: p.executor.digest}
				l.touch(a)
			}
			u.asked, u.retired = now, true
			out = append(out, Retired{a.id, id})
		}
	}
	return out
}

// executorsInUse returns the executors of an agent that have tasks; unsure is true if a task does not name its executor.
func (l *Ledger) executorsInUse(a *agent) (busy map[string]bool, unsure bool) {
	busy = map[string]bool{}
	for _, t := range a.tasks {
		busy[t.ExecutorID] = true
		unsure = unsure || t.ExecutorID == ""
	}
	for _, s := range l.strangers {
		if s.AgentID == a.id || s.AgentID == "" {
			busy[s.ExecutorID] = true
			unsure = unsure || s.ExecutorID == ""
		}
	}
	return busy, unsure
}

// poolUsing returns the pool whose new tasks use an executor, nil if none does.
func (a *agent) poolUsing(executorID string) *pool {
	for _, p := range a.pools {
		if p.executor.id == executorID {
			return p
		}
	}
	return nil
}
