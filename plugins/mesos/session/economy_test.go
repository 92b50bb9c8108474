// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// offered returns a session that knows offers of 4 cpus of agents S0, S1 and so on, and has no stream.
func offered(t *testing.T, clock clock.WithTicker, role string, agents int) *Session {
	t.Helper()
	book := ledger.New(ledger.Options{Clock: clock, NodeName: func(o *mesos.Offer) string { return o.Hostname },
		Executor: taskinfo.Executor{Path: "/x", Amounts: resources.Amounts{CPUs: 100, Mem: 32_000}}, ReturnTime: 2 * time.Second})
	book.Resubscribed()
	book.SetConnected(true)
	for i := range agents {
		id := fmt.Sprintf("S%d", i)
		o := mesos.Offer{ID: mesos.OfferID{Value: "O" + id}, AgentID: mesos.AgentID{Value: id}, Hostname: id, AllocationInfo: &mesos.Resource_AllocationInfo{Role: ptr.To(role)}}
		for name, v := range map[string]float64{"cpus": 4, "mem": 4096} {
			o.Resources = append(o.Resources, mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: v}, AllocationInfo: o.AllocationInfo})
		}
		book.AddOffers([]mesos.Offer{o})
	}
	s := &Session{options: Options{Clock: clock, Roles: []string{role}, Economy: Economy{IdleAfter: time.Hour, OfferHold: 30 * time.Second}}, ledger: book,
		hooks: Hooks{Usable: func(string) bool { return true }}}
	s.economy = newEconomy(s)
	return s
}

// TestWhenAReviveIsDue: a REVIVE that is wanted comes as soon as it may, and after the ACCEPTs whose rest it is to bring back.
func TestWhenAReviveIsDue(t *testing.T) {
	const role = "r"
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name            string
		agents, sending int // agents that are known, those of them with an ACCEPT on its way
		wanted          bool
		state           roleState
		due             time.Duration // from now; 0 if nothing has to wait
	}{
		{"nobody wants it", 3, 0, false, roleState{revived: ago(time.Millisecond), accepted: now}, 0},
		{"it may be sent", 3, 0, true, roleState{revived: ago(100 * time.Millisecond), accepted: now}, 0},
		{"the last was a moment ago", 3, 0, true, roleState{revived: ago(30 * time.Millisecond), accepted: now}, 70 * time.Millisecond},
		{"the master is slow", 3, 0, true, roleState{revived: ago(30 * time.Millisecond), accepted: now, latency: 30 * time.Millisecond}, 120 * time.Millisecond},
		{"many agents", 2000, 0, true, roleState{revived: ago(30 * time.Millisecond), accepted: now}, 370 * time.Millisecond},
		{"nothing has changed since the last", 3, 0, true, roleState{revived: ago(30 * time.Millisecond), accepted: ago(time.Second)}, 0},
		{"an ACCEPT of one agent of three is on its way", 3, 1, true, roleState{revived: ago(120 * time.Millisecond), accepted: now}, 80 * time.Millisecond},
		{"it has been for long", 3, 1, true, roleState{revived: ago(200 * time.Millisecond), accepted: now}, 0},
		{"an ACCEPT of one agent of five is on its way", 5, 1, true, roleState{revived: ago(120 * time.Millisecond), accepted: now}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := testclock.NewFakeClock(now)
			s := offered(t, clock, role, c.agents)
			for i := range c.sending {
				id, uid := fmt.Sprintf("S%d", i), types.UID(fmt.Sprintf("p%d", i))
				if err := s.ledger.Claim(ledger.Pod{UID: uid}, resources.Need{Amounts: resources.Amounts{CPUs: 1000, Mem: 64_000}, Role: role}, id); err != nil {
					t.Fatal(err)
				}
				if s.ledger.Batch(id, ledger.PoolKey{Role: role}, []types.UID{uid}, 1) == nil {
					t.Fatal("no batch")
				}
			}
			*s.economy.roles[role] = c.state
			s.economy.roles[role].looked = now // offers are not looked at
			due := s.economy.serveRole(t.Context(), role, false, time.Time{}, c.wanted, time.Time{}, nil, now)
			if wait := due.Sub(now); due.IsZero() != (c.due == 0) || c.due != 0 && wait != c.due {
				t.Errorf("due in %v, want %v", wait, c.due)
			}
		})
	}
}

// TestOffersOfNoUse: pods that nothing on offer can hold take no offers away from those that are launched as they come.
func TestOffersOfNoUse(t *testing.T) {
	const role = "r"
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name          string
		hungry        bool
		held          time.Duration // for how long
		useful        string        // agent that fits a waiting pod
		sinceAccepted time.Duration
		want          int64 // offers of three that are given back
	}{
		{"nobody waits", false, 2 * time.Second, "", time.Minute, 0},
		{"no offer fits who waits", true, 2 * time.Second, "", time.Minute, 3},
		{"one fits", true, 2 * time.Second, "S1", time.Minute, 2},
		{"they have just come", true, time.Second / 2, "", time.Minute, 0},
		{"others are launched", true, 2 * time.Second, "", time.Second / 2, 0},
		{"others were launched", true, 2 * time.Second, "", 2 * time.Second, 3},
		{"others are launched, but not on these", true, time.Minute, "", time.Second / 2, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := testclock.NewFakeClock(now.Add(-c.held))
			s := offered(t, clock, role, 3)
			clock.SetTime(now)
			*s.economy.roles[role] = roleState{active: now, revived: now, answered: now, accepted: now.Add(-c.sinceAccepted)} // no other REVIVE is due
			s.economy.serveRole(t.Context(), role, c.hungry, time.Time{}, false, time.Time{}, map[string]bool{c.useful: true}, now)
			if f := s.ledger.Fates(); f.Declined != c.want {
				t.Errorf("%+v, want %d declined", f, c.want)
			}
		})
	}
}

// TestARoleIsIdleByItself: what is launched in another role keeps no offers of it.
func TestARoleIsIdleByItself(t *testing.T) {
	for accepted, want := range map[string]int64{"busy": 3, "idle": 0} {
		clock := testclock.NewFakeClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
		s := offered(t, clock, "idle", 3)
		s.options.Roles, s.options.Economy.IdleAfter = []string{"busy", "idle"}, 5*time.Second
		s.economy = newEconomy(s)
		s.economy.resubscribed()
		clock.Step(6 * time.Second)
		s.economy.accepted(accepted)
		s.economy.serveRole(t.Context(), "idle", false, time.Time{}, false, time.Time{}, nil, clock.Now())
		if f := s.ledger.Fates(); f.Declined != want {
			t.Errorf("a launch in role %s: %+v, want %d declined", accepted, f, want)
		}
	}
}
