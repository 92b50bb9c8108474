// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// RoleStatus is what the economy of offers knows of one role, for people.
type RoleStatus struct {
	Name       string
	Suppressed bool
	// Revived is when offers were last asked for, Answered when some last came.
	Revived, Answered time.Time
	// Silent is since when the master has offered nothing although it may, zero while it does or is not asked to.
	Silent time.Time
}

// silence is how long a master that may make offers must not have made any to be called silent: several of its allocations.
const silence = 10 * time.Second

// Roles returns the state of each role, in the order of the configuration.
func (s *Session) Roles() []RoleStatus {
	held := map[string]bool{}
	for _, name := range s.options.Roles {
		held[name] = s.ledger.Offering(name)
	}
	s.economy.mu.Lock()
	defer s.economy.mu.Unlock()
	out := make([]RoleStatus, 0, len(s.options.Roles))
	for _, name := range s.options.Roles {
		r := s.economy.roles[name]
		out = append(out, RoleStatus{Name: name, Suppressed: r.suppressed, Revived: r.revived, Answered: r.answered, Silent: s.silent(r, held[name])})
	}
	return out
}

// Silent is since when the master has offered nothing to a role although it may, zero if it has or is not asked to. Other
// frameworks use the agents then, or the role's quota holds offers back.
func (s *Session) Silent(role string) time.Time {
	held := s.ledger.Offering(role)
	s.economy.mu.Lock()
	defer s.economy.mu.Unlock()
	return s.silent(s.economy.roles[role], held)
}

func (s *Session) silent(r *roleState, held bool) time.Time {
	if r == nil || r.suppressed || held || s.stream.Load() == nil {
		return time.Time{}
	}
	since := r.opened
	if r.answered.After(since) {
		since = r.answered
	}
	if s.options.Clock.Since(since) < silence {
		return time.Time{}
	}
	return since
}

// LastEvent is when the master last sent something, zero if it never has.
func (s *Session) LastEvent() time.Time {
	if at := s.lastEvent.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// AskReconcile asks for a full pass of reconciliation now.
func (s *Session) AskReconcile() { nudge(s.subscribed) }
