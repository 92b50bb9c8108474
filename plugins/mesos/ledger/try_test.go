// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"
)

// A gang that does not fit is tried again when there is more room than it was tried with, not because the trial is over.
func TestTry(t *testing.T) {
	b := newBook(t)
	b.HoldAs(testHolder)
	b.add(b.offer("O1", "S1", "cpus:2;mem:4096"))
	need := needOf(1500, 512)
	b.Wait(v1pod("a"), need, 0)
	grew := b.view("S1").Grew
	pod := ledgerPod("a")
	pod.Gang = "g"
	if err := b.Try(pod, need, "node-S1"); err != nil {
		t.Fatal(err)
	}
	b.audit()
	if b.Try(ledgerPod("b"), need, "node-S1") == nil {
		t.Error("there is room for one only")
	}
	if len(b.Waiters()) != 1 {
		t.Error("the pod does not wait any more")
	}
	b.clock.Step(time.Minute)
	if len(b.Reshape()) != 0 {
		t.Error("something is reserved for a trial")
	}
	b.Withdraw("a")
	b.audit()
	b.none("a")
	if b.view("S1").Grew != grew {
		t.Error("the end of the trial counts as more room")
	}
	if room := b.fit("S1", need); room != Fits {
		t.Errorf("the room is not there again: %s", room)
	}
	b.Withdraw("a")
	// A claim for good is not withdrawn.
	b.mustClaim("a", need, "S1")
	b.Withdraw("a")
	if b.task("a").State != Claimed || len(b.Waiters()) != 0 {
		t.Error("a claim is gone, or its pod waits")
	}
}
