// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// A life is the time in which a task held resources, by the master's history and by what is known of its agent.
type life struct {
	task mesossim.Task
	// uid is that of its pod.
	uid  string
	from time.Time
	// to is zero while it lives.
	to time.Time
}

func (l life) alive() bool { return l.to.IsZero() }

// at says whether it lived at a time.
func (l life) at(t time.Time) bool { return !t.Before(l.from) && (l.alive() || t.Before(l.to)) }

func final(s mesos.TaskState) bool {
	switch s {
	case mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED, mesos.TASK_ERROR, mesos.TASK_LOST, mesos.TASK_DROPPED, mesos.TASK_GONE, mesos.TASK_GONE_BY_OPERATOR:
		return true
	}
	return false
}

// known is what the agents know now.
type known struct {
	// tasks are those queued or launched on an agent and not ended, with the agent's name.
	tasks map[string]string
	// registered holds the ids of the agents that the leading master has registered.
	registered map[string]bool
}

// lives turns tasks that were launched into lives.
func lives(tasks []mesossim.Task, incidents []incident, agents known) []life {
	died := deaths(incidents)
	var out []life
	for _, t := range tasks {
		if t.Launched.IsZero() {
			continue // refused: it never held anything
		}
		l := life{task: t, from: t.Launched}
		l.uid, _, _ = strings.Cut(t.ID, ".")
		if final(t.State) {
			l.to = ended(t)
		}
		until := func(at time.Time) {
			if at.After(l.from) && (l.alive() || at.Before(l.to)) {
				l.to = at
			}
		}
		if at, ok := died[t.AgentID]; ok {
			until(at)
		}
		// No agent has it: it ended with the master that alone knew it, or with what its agent had.
		nobody := l.alive() && agents.tasks[t.ID] == "" || !t.Lost.IsZero()
		if !t.Lost.IsZero() {
			until(t.Lost)
		}
		if nobody && len(t.History) > 0 {
			last := t.History[len(t.History)-1]
			if t.State == mesos.TASK_UNREACHABLE && t.Removed && agents.registered[t.AgentID] {
				until(last.At) // its agent has come back without it: the launch was lost
			}
			for _, i := range incidents {
				if i.newMaster && i.at.After(last.At) {
					until(i.at)
					break
				}
			}
		}
		out = append(out, l)
	}
	slices.SortStableFunc(out, func(a, b life) int { return a.from.Compare(b.from) })
	return out
}

// agentsKnow asks the agents.
func agentsKnow(c *mesossim.Cluster) known {
	out := known{tasks: map[string]string{}, registered: map[string]bool{}}
	for _, e := range c.Executors() {
		for _, id := range e.Tasks {
			out.tasks[id] = e.Agent
		}
	}
	for _, a := range c.Agents() {
		out.registered[a.ID] = a.Registered && a.Connected
	}
	return out
}

// ended is when a task that is in a final state came into one.
func ended(t mesossim.Task) time.Time {
	at := time.Time{}
	for i := len(t.History) - 1; i >= 0 && final(t.History[i].State); i-- {
		at = t.History[i].At
	}
	if at.IsZero() && len(t.History) > 0 {
		at = t.History[len(t.History)-1].At // the master knows more than it has told yet
	}
	return at
}

// deaths returns when agents were destroyed, by id.
func deaths(incidents []incident) map[string]time.Time {
	out := map[string]time.Time{}
	for _, i := range incidents {
		if i.dead {
			out[i.agentID] = i.at
		}
	}
	return out
}
