// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Texts of a master and of an agent that refuse a task because of its limits (src/master/validation.cpp,
// src/slave/slave.cpp). The agent gives REASON_GC_ERROR for it.
const (
	agentLacksLimits    = "not capable of handling task resource limits"
	isolatorLacksLimits = "limits can only be set on tasks launched in Mesos containers when"
)

// LimitsRefused says whether a launch was refused because the agent enforces no limits.
func LimitsRefused(s Status) bool {
	switch s.State {
	case mesos.TASK_ERROR:
		return strings.Contains(s.Message, agentLacksLimits)
	case mesos.TASK_DROPPED, mesos.TASK_LOST:
		return strings.Contains(s.Message, isolatorLacksLimits)
	}
	return false
}

// neverStarted forgets an executor whose first task the agent refused before it started anything. The master goes on to
// name it in offers, so it is remembered as one that must not be used.
func (l *Ledger) neverStarted(a *agent, executorID string) {
	for _, p := range a.pools {
		if p.executor.phase == executorLaunching && p.executor.id == executorID {
			p.executor = executor{digest: p.executor.digest}
			l.use(a, executorID, 0)
			a.executors[executorID].retired = true
			l.touch(a)
		}
	}
}
