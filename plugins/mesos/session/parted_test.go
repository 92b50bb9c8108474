// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// TestPartedTasksJustifyRevives: the role is suppressed when an agent comes back under another id. Without a REVIVE it would
// make no offer, and nobody would hear that it serves the node now.
func TestPartedTasksJustifyRevives(t *testing.T) {
	w := newWorld(t, mesossim.Options{Timing: mesossim.Timing{PingTimeout: 200 * time.Millisecond, MaxPingTimeouts: 2, RegistrationBackoff: time.Millisecond}})
	i := w.instance(func(o *Options) { o.Economy.IdleAfter = time.Second }).subscribe()
	if _, err := i.launch("p", "a1"); err != nil {
		t.Fatal(err)
	}
	w.until("running", func() bool { task, _ := i.book.Task("p"); return task.State.Live() })
	task, _ := i.book.Task("p")
	i.book.Bound("p", task.ID)
	w.until("suppressed", func() bool { return i.Suppressed(role) })
	revives := w.calls("REVIVE")

	agent := w.cluster.Agent("a1")
	agent.Kill()
	w.until("out of reach", func() bool { task, _ := i.book.Task("p"); return task.State == ledger.Unreachable })
	if err := agent.Replace(); err != nil {
		t.Fatal(err)
	}
	w.until("the new agent is known to serve the node", func() bool { return len(i.book.Replaced()) == 1 })
	if n := w.calls("REVIVE") - revives; n == 0 {
		t.Error("the offer came without a REVIVE: the test proves nothing")
	}
	w.until("the role is idle again", func() bool { return i.Suppressed(role) })
}

// TestProbeIsLimited: the longer an agent is away, the rarer it is looked for.
func TestProbeIsLimited(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		suppressed   bool
		away, before time.Duration // since it went, since the last REVIVE
		want         bool
	}{
		"nothing is away":             {suppressed: true, before: time.Hour},
		"offers flow":                 {away: time.Hour, before: time.Hour},
		"just lost":                   {suppressed: true, away: 1, before: time.Hour, want: true},
		"just lost, revived just now": {suppressed: true, away: 1, before: 900 * time.Millisecond},
		"half the time":               {suppressed: true, away: 20 * time.Second, before: 10 * time.Second, want: true},
		"less than half the time":     {suppressed: true, away: 20 * time.Second, before: 9 * time.Second},
		"for a day":                   {suppressed: true, away: 24 * time.Hour, before: time.Minute, want: true},
		"for a day, lately":           {suppressed: true, away: 24 * time.Hour, before: 59 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := roleState{suppressed: test.suppressed, revived: now.Add(-test.before)}
			var parted time.Time
			if test.away > 0 {
				parted = now.Add(-test.away)
			}
			if got := r.probes(parted, now); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}
