// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
)

// TestScale measures the plugin's core with many agents and running tasks: how fast it launches while it holds offers, how long
// the same takes when all offers were given back and have to come anew, what it keeps in memory, and how long a start with full
// reconciliation takes. It prints how the cost grows with the size. The simulator is in the same process, and its share of the
// memory is what is there before the core is.
func TestScale(t *testing.T) {
	if os.Getenv("SCALE") == "" {
		t.Skip("run by make bench-scale")
	}
	small := measureScale(t, 1_000, 10_000)
	large := measureScale(t, 10_000, 100_000)
	fmt.Printf("scale: memory-grows=%.1fx start-grows=%.1fx from-idle-grows=%.1fx rate-grows=%.2fx\n",
		large.memory/small.memory, large.start.Seconds()/small.start.Seconds(), large.fromIdle.Seconds()/small.fromIdle.Seconds(), large.rate/small.rate)
}

type scale struct {
	memory   float64 // MiB
	start    time.Duration
	fromIdle time.Duration // until the probes are launched
	rate     float64       // tasks a second
}

// probes are the tasks whose launch is timed with everything else running: once from idleness, and in so many rounds while
// offers are held. Of these the median counts, and the slowest is printed beside it: where a claim comes too late for its batch,
// the round lasts until the rest of the accepted offer is back.
const (
	probes = 2_000
	rounds = 9
)

func measureScale(t *testing.T, agents, tasks int) scale {
	sim, nodes := startSim(t, agents, "cpus:8;mem:16384;disk:100000;ports:[31000-32000]")
	defer sim.Close()
	identity := &memoryIdentity{}
	c := startCore(t, sim.URL(), identity, nodes, nil)
	await(t, "offers", func() bool { return c.book.AgentCount() == agents })
	pods := make([]*v1.Pod, tasks+(rounds+1)*probes)
	for i := range pods {
		pods[i] = barePod(i)
	}
	begun := time.Now()
	c.launchAll(t, pods[:tasks])
	fill := time.Since(begun)
	running := func(n int) func() bool {
		return func() bool { return sim.Counters().Updates[mesos.TASK_RUNNING.String()] >= n }
	}
	await(t, "running tasks", running(tasks))

	launched := tasks
	var took []time.Duration
	for range rounds {
		await(t, "offers for the probes", func() bool {
			ready := 0
			c.book.Snapshot().Each(func(v *ledger.View) bool {
				if v.Ready(podNeed) {
					ready++
				}
				return true
			})
			return ready >= 2*probes/perAccept
		})
		begun = time.Now()
		c.launchAll(t, pods[launched:launched+probes])
		took = append(took, time.Since(begun))
		launched += probes
		await(t, "running tasks", running(launched))
	}
	slices.Sort(took)
	rate, slowest := probes/took[rounds/2].Seconds(), took[rounds-1]
	await(t, "idleness", func() bool { return c.session.Suppressed(role) })
	begun = time.Now()
	c.launchAll(t, pods[launched:])
	fromIdle := time.Since(begun)
	await(t, "running tasks", running(len(pods)))
	records := c.book.Tasks()
	c.stop()
	without := heap()

	// Again, as after a restart: the ledger is filled from what pods have on record, and Mesos has to confirm each task.
	begun = time.Now()
	c = startCore(t, sim.URL(), identity, nodes, func(book *ledger.Ledger) {
		for _, r := range records {
			book.Restore(ledger.Task{Pod: r.Pod, Need: r.Need, AgentID: r.AgentID, Node: r.Node, ID: r.ID, ExecutorID: r.ExecutorID})
		}
	})
	await(t, "the last answer", func() bool { return c.book.Counts()[ledger.Restored] == 0 && len(c.book.Unanswered()) == 0 })
	start := time.Since(begun)
	with := heap()
	c.stop()
	s := scale{memory: max(with-without, 0.1), start: start, fromIdle: fromIdle, rate: rate}
	fmt.Printf("scale: agents=%d tasks=%d memory=%.0fMiB fill=%v rate=%.0f tasks/s slowest-round=%v from-idle=%v start-with-reconciliation=%v\n",
		agents, tasks, s.memory, fill.Round(time.Millisecond), rate, slowest.Round(time.Millisecond), fromIdle.Round(time.Millisecond), start.Round(time.Millisecond))
	return s
}

// heap returns the live heap in MiB.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
