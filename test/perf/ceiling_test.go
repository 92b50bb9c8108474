// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim/simprocess"
)

// startSim starts a simulator with synthetic agents, named like their nodes.
func startSim(t *testing.T, agents int, resources string) (*mesossim.Cluster, []string) {
	t.Helper()
	return startScripted(t, agents, resources, mesossim.Script{})
}

func startScripted(t *testing.T, agents int, resources string, script mesossim.Script) (*mesossim.Cluster, []string) {
	t.Helper()
	options := mesossim.Options{Synthetic: &script, WorkDir: t.TempDir()}
	nodes := make([]string, agents)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("node-%d", i)
		options.Agents = append(options.Agents, mesossim.AgentOptions{Name: nodes[i], Resources: resources})
	}
	sim, err := mesossim.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	return sim, nodes
}

// startProcess starts a simulator in a process of its own, with agents node-1, node-2 and so on.
func startProcess(t *testing.T, agents int, resources string) (*simprocess.Process, []string) {
	t.Helper()
	sim, err := simprocess.Start("../../bin/mesos-sim", fmt.Sprintf("--agent=name=node resources=%s count=%d", resources, agents))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Stop)
	nodes := make([]string, agents)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("node-%d", i+1)
	}
	return sim, nodes
}

// cost is what a run took.
type cost struct {
	rate           float64       // tasks a second
	cpu, simulator time.Duration // for a task: of this process, and of the simulator
}

// TestCeiling compares the plugin's own part with a client that launches the same tasks by the best possible ACCEPTs. The
// API server, which is slower than both, is left out, and the simulator is a process of its own, as a master is.
func TestCeiling(t *testing.T) {
	for _, c := range []struct {
		agents, tasks int
		resources     string
	}{
		{3, 6000, "cpus:400;mem:400000;disk:100000;ports:[31000-32000]"},
		{100, 20000, "cpus:32;mem:32768;disk:100000;ports:[31000-32000]"},
	} {
		t.Run(fmt.Sprintf("agents=%d", c.agents), func(t *testing.T) {
			var raw, ours []cost
			for range 3 { // each in a test of its own, which leaves nothing behind for the next one's garbage collector
				t.Run("raw", func(t *testing.T) { raw = append(raw, bareRate(t, c.agents, c.tasks, c.resources)) })
				t.Run("mesos", func(t *testing.T) { ours = append(ours, coreRate(t, c.agents, c.tasks, c.resources)) })
			}
			if t.Failed() {
				return
			}
			byRate := func(x, y cost) int { return cmp.Compare(x.rate, y.rate) }
			slices.SortFunc(raw, byRate)
			slices.SortFunc(ours, byRate)
			r, o := raw[1], ours[1]
			fmt.Printf("ceiling: agents=%d raw=%.0f mesos=%.0f ratio=%.2f\n", c.agents, r.rate, o.rate, o.rate/r.rate)
			fmt.Printf("cpu: ceiling agents=%d raw=%v/task+%v mesos=%v/task+%v for the simulator\n", c.agents, r.cpu, r.simulator, o.cpu, o.simulator)
		})
	}
}

// perAccept is how many tasks one ACCEPT launches at most, for both.
const perAccept = 100

func bareRate(t *testing.T, agents, tasks int, resources string) cost {
	sim, _ := startProcess(t, agents, resources)
	b, stop := startBare(t, sim.Master)
	defer stop()
	return measure(t, sim, tasks, func() time.Time {
		took := b.launch(tasks, perAccept)
		return time.Now().Add(-took)
	})
}

func coreRate(t *testing.T, agents, tasks int, resources string) cost {
	sim, nodes := startProcess(t, agents, resources)
	c := startCore(t, sim.Master, &memoryIdentity{}, nodes, nil)
	defer c.stop()
	await(t, "offers", func() bool { return c.book.AgentCount() == agents })
	pods := make([]*v1.Pod, tasks)
	for i := range pods {
		pods[i] = barePod(i)
	}
	return measure(t, sim, tasks, func() time.Time {
		begun := time.Now()
		c.launchAll(t, pods)
		return begun
	})
}

// measure launches tasks and waits until all run and both updates of each, TASK_STARTING and TASK_RUNNING, are acknowledged:
// only then is nothing left to do for them. launch returns when it began.
func measure(t *testing.T, sim *simprocess.Process, tasks int, launch func() time.Time) cost {
	own := os.Getpid()
	cpu, simulator := simprocess.CPU(own), sim.CPU()
	begun := launch()
	var counters mesossim.Counters
	await(t, "acknowledgements", func() (done bool) {
		var err error
		if counters, err = sim.Counters(t.Context()); err != nil {
			t.Fatal(err)
		}
		return counters.Acknowledged >= 2*tasks
	})
	took := time.Since(begun)
	if n := counters.Updates[mesos.TASK_RUNNING.String()]; n < tasks {
		t.Errorf("%d of %d tasks run", n, tasks)
	}
	t.Logf("%v, calls %v", took, counters.Calls)
	per := func(d time.Duration) time.Duration { return (d / time.Duration(tasks)).Round(time.Microsecond) }
	return cost{float64(tasks) / took.Seconds(), per(simprocess.CPU(own) - cpu), per(sim.CPU() - simulator)}
}
