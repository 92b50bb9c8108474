// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// TestKinds: pods that ask for the same are of one kind, and of too many kinds those of the first pods are looked at.
func TestKinds(t *testing.T) {
	clock := testclock.NewFakeClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	s := &Session{options: Options{Clock: clock}, ledger: ledger.New(ledger.Options{Clock: clock}),
		hooks: Hooks{Match: func(*v1.Pod) func(string) bool { return func(string) bool { return true } }}}
	e := newEconomy(s)
	waits := func(name string, cpus int64, priority int32) {
		s.ledger.Wait(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}, resources.Need{Amounts: resources.Amounts{CPUs: cpus}}, priority)
		clock.Step(time.Second)
	}
	for i := range 10 {
		waits(fmt.Sprintf("same-%d", i), 100, 0)
	}
	queue, _ := s.ledger.Idlers()
	k := e.kinds(queue, clock.Now())
	if len(k.all) != 1 || len(k.of) != 10 || k.of[0] == nil || k.of[0] != k.of[9] {
		t.Errorf("%d kinds of 10 pods that ask for the same", len(k.all))
	}
	for i := range 2 * maxKinds {
		waits(fmt.Sprintf("other-%d", i), 200+int64(i), int32(i))
	}
	queue, _ = s.ledger.Idlers()
	k = e.kinds(queue, clock.Now())
	if len(k.all) != maxKinds {
		t.Errorf("%d kinds are looked at", len(k.all))
	}
	for i, w := range queue {
		if looked, first := k.of[i] != nil, w.Priority >= maxKinds; looked != first {
			t.Errorf("%s of priority %d: its kind is looked at: %v", w.Pod.Name, w.Priority, looked)
		}
	}
}
