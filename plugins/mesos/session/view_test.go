// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
)

// TestSilent says since when a master that may make offers has made none.
func TestSilent(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, test := range []struct {
		name   string
		role   *roleState
		held   bool
		closed bool
		want   time.Time
	}{
		{"nothing since it may", &roleState{opened: ago(time.Minute)}, false, false, ago(time.Minute)},
		{"nothing since the last one", &roleState{opened: ago(time.Hour), answered: ago(time.Minute)}, false, false, ago(time.Minute)},
		{"an answer before a SUPPRESS", &roleState{opened: ago(time.Minute), answered: ago(time.Hour)}, false, false, ago(time.Minute)},
		{"a moment ago", &roleState{opened: ago(time.Hour), answered: ago(time.Second)}, false, false, time.Time{}},
		{"an offer in hand", &roleState{opened: ago(time.Hour), answered: ago(time.Minute)}, true, false, time.Time{}},
		{"suppressed", &roleState{opened: ago(time.Hour), suppressed: true}, false, false, time.Time{}},
		{"not subscribed", &roleState{opened: ago(time.Hour)}, false, true, time.Time{}},
		{"a role that is not ours", nil, false, false, time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &Session{options: Options{Clock: testclock.NewFakeClock(now)}}
			if !test.closed {
				s.stream.Store(&mesosapi.Stream{})
			}
			if got := s.silent(test.role, test.held); !got.Equal(test.want) {
				t.Errorf("since %v, want %v", got, test.want)
			}
		})
	}
}

// TestCold says which pods are held back until the first offers are there.
func TestCold(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, test := range []struct {
		name   string
		role   roleState
		closed bool
		want   bool
	}{
		{"suppressed", roleState{suppressed: true, opened: ago(time.Hour), answered: ago(time.Minute)}, false, true},
		{"asked for a moment ago after a SUPPRESS", roleState{opened: ago(time.Millisecond), revived: ago(time.Millisecond), answered: ago(time.Minute)}, false, true},
		{"subscribed a moment ago", roleState{opened: ago(time.Millisecond), revived: ago(time.Millisecond)}, false, true},
		{"asked for, and answered", roleState{opened: ago(time.Second / 2), revived: ago(time.Second / 2), answered: ago(time.Second / 4)}, false, false},
		{"asked for long ago", roleState{opened: ago(time.Second), revived: ago(time.Second)}, false, false},
		{"asked for more a moment ago", roleState{opened: ago(time.Minute), revived: ago(time.Millisecond), answered: ago(time.Second)}, false, false},
		{"not subscribed", roleState{suppressed: true}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &Session{options: Options{Clock: testclock.NewFakeClock(now), Roles: []string{"r"}}}
			s.economy = newEconomy(s)
			*s.economy.roles["r"] = test.role
			if !test.closed {
				s.stream.Store(&mesosapi.Stream{})
			}
			if got := s.Cold("r"); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
