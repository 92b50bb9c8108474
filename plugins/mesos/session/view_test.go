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
