// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// RoleStatus is what the economy of offers knows of one role, for people.
type RoleStatus struct {
	Name       string
	Suppressed bool
	// Revived is when offers were last asked for, Answered when some last came.
	Revived, Answered time.Time
}

// Roles returns the state of each role, in the order of the configuration.
func (s *Session) Roles() []RoleStatus {
	s.economy.mu.Lock()
	defer s.economy.mu.Unlock()
	out := make([]RoleStatus, 0, len(s.options.Roles))
	for _, name := range s.options.Roles {
		r := s.economy.roles[name]
		out = append(out, RoleStatus{Name: name, Suppressed: r.suppressed, Revived: r.revived, Answered: r.answered})
	}
	return out
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
