// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// TestMostOfAnAgent adds what is offered to what is held, and forgets nothing when others use the agent.
func TestMostOfAnAgent(t *testing.T) {
	b := newBook(t)
	most := func(want string) {
		t.Helper()
		if got := b.Agents()[0].Most.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096;cpus{REV}:8"))
	most("cpus:4;mem:4096")
	b.run("a", needOf(1000, 1024), "S1")
	b.add(b.offer("O2", "S1", "cpus:2.9;mem:2944", running(b.task("a").ExecutorID)))
	most("cpus:4;mem:4096") // with the executor's 0.1 and 128
	b.Decline([]string{"O2"})
	b.add(b.offer("O3", "S1", "cpus:1;mem:64", running(b.task("a").ExecutorID)))
	most("cpus:4;mem:4096")
	b.says(b.task("a").ID, "S1", mesos.TASK_UNREACHABLE)
	b.add(b.offer("O4", "S1", "cpus:4;mem:4096")) // the task may have ended unheard
	most("cpus:4;mem:4096")
}

// TestTotalOfAnAgent keeps what an executor was told, and shows it at once.
func TestTotalOfAnAgent(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096"))
	if total := b.Agents()[0].Total; !total.IsZero() {
		t.Errorf("%s before it was told", total)
	}
	b.Told("S1", resources.Amounts{CPUs: 8000, Mem: 8192_000})
	b.Told("S2", resources.Amounts{CPUs: 1})
	agents := b.Agents()
	if len(agents) != 1 || agents[0].Total != (resources.Amounts{CPUs: 8000, Mem: 8192_000}) {
		t.Errorf("%d agents, the first with %s", len(agents), agents[0].Total)
	}
}
