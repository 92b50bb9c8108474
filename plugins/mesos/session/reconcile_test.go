// SPDX-License-Identifier: Apache-2.0

package session

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// settleClock calls back once when a pass has asked for everything and waits for its answers.
type settleClock struct {
	clock.RealClock
	once func()
}

func (c settleClock) NewTimer(d time.Duration) clock.Timer {
	if d == settle {
		c.once()
	}
	return c.RealClock.NewTimer(d)
}

// Nothing is killed or held anew before the tasks are known that another instance may have launched: a pass of
// reconciliation counts for the subscription that it was done in, and for no other.
func TestReconciledCountsForOneSubscription(t *testing.T) {
	for name, early := range map[string]bool{"a new one after the pass": false, "a new one in the middle of the pass": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, mesossim.Options{})
			var i *instance
			var lost atomic.Int32 // RECONCILE calls of the new subscription
			again := func() {
				w.cluster.Faults().OnCall(func(call mesossim.SchedulerCall) bool {
					if call.Kind == "RECONCILE" && !call.Handled {
						lost.Add(1)
						return true
					}
					return false
				})
				w.cluster.Faults().CutStream("", 0)
				w.until("subscribed again", func() bool { return i.begun.Load() == 2 && i.book.Connected() })
			}
			once := func() {}
			if early {
				once = sync.OnceFunc(again)
			}
			i = w.instance(func(o *Options) { o.Clock = settleClock{once: once} }).start()
			if !early {
				w.until("reconciled", i.Reconciled)
				again()
			}
			w.until("two passes that failed", func() bool { return lost.Load() >= 2 })
			if i.Reconciled() {
				t.Error("reconciled, but no pass was done since the subscription began")
			}
			w.cluster.Faults().OnCall(nil)
			w.until("reconciled", i.Reconciled)
		})
	}
}

// The pauses after failures stay short until a pass is done: everything waits for it.
func TestReconciliationThatFailsIsRepeatedSoon(t *testing.T) {
	w := newWorld(t, mesossim.Options{})
	w.cluster.Faults().Call(mesossim.CallFault{Call: "RECONCILE", Times: 4, LoseCall: true})
	begun := time.Now()
	w.instance().subscribe()
	if took := time.Since(begun); took > 4*askAgain+settleLimit {
		t.Errorf("%s", took)
	}
}
