// SPDX-License-Identifier: Apache-2.0

package ledger

import "testing"

// TestC20_RevocableShareOfAnAgent has regular and revocable pods on one agent: they never share cpus, and what only exists
// as a regular resource is counted once for both.
func TestC20_RevocableShareOfAnAgent(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("o1", "S1", "cpus:2;cpus{REV}:4;mem:2048"))
	regular, revocable := needOf(1500, 1024), needOf(3000, 512)
	revocable.Revocable = true

	large := needOf(3000, 512)
	if got := b.fit("S1", large); got != ReasonCPUs {
		t.Errorf("a regular pod of 3 cpus on 2 regular ones: %q", got)
	}
	b.mustClaim("a", regular, "S1")
	b.mustClaim("b", revocable, "S1")
	// 2048 MiB, less 1024 and 512 claimed, less what two executors take.
	more := needOf(100, 400)
	if got := b.fit("S1", more); got != ReasonMem {
		t.Errorf("memory that a revocable pod has claimed fits a regular one: %q", got)
	}
	more.Revocable = true
	if got := b.fit("S1", more); got != ReasonMem {
		t.Errorf("memory that a regular pod has claimed fits a revocable one: %q", got)
	}
	b.Release("a")
	if got := b.fit("S1", more); got != Fits {
		t.Errorf("a revocable pod does not fit where the memory is free again: %q", got)
	}
}
