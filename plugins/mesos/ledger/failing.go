// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// A host that cannot start executors, or whose agent drops what it is sent, goes on making offers, and is the emptiest of
// all: every pod would be sent there, again and again. So an agent on which a launch failed gets no new pods for a while,
// which is longer after each failure that follows, until a launch succeeds.
const (
	failingAtLeast = time.Second
	failingAtMost  = 5 * time.Minute
)

// failing is what an agent is remembered for.
type failing struct {
	failures int // in a row
	until    time.Time
}

// launchFailed says whether a status ends a launch for a cause that lies with the agent. What the master refuses, and what
// reconciliation finds out, does not.
func launchFailed(s Status) bool {
	switch s.State {
	case mesos.TASK_FAILED, mesos.TASK_DROPPED, mesos.TASK_LOST, mesos.TASK_GONE:
		return s.Source == mesos.SOURCE_AGENT && !LimitsRefused(s)
	}
	return false
}

// noteFailure notes that a launch failed. Those that fail in one pause count once.
func (l *Ledger) noteFailure(a *agent) {
	now := l.options.Clock.Now()
	if now.Before(a.failing.until) {
		return
	}
	wait := failingAtMost
	if a.failing.failures < 9 { // 2 to the power of 9 seconds is more than the most
		wait = min(failingAtMost, failingAtLeast<<a.failing.failures)
	}
	a.failing.failures++
	a.failing.until = now.Add(wait)
	l.timed[a.id] = a
	if a.trouble == NoTrouble {
		l.setTrouble(a, AgentFailing)
	}
}

// noteSuccess notes that a launch succeeded.
func (l *Ledger) noteSuccess(a *agent) {
	a.failing = failing{}
	if a.trouble == AgentFailing {
		l.setTrouble(a, NoTrouble)
	}
}

// expireFailing lets an agent be tried again when it is time. It returns whether that is still to come.
func (l *Ledger) expireFailing(a *agent, now time.Time) (waits bool) {
	if now.Before(a.failing.until) {
		return true
	}
	if a.trouble == AgentFailing {
		l.setTrouble(a, NoTrouble)
	}
	return false
}
