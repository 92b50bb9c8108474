// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
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

// TestCeiling compares the plugin's own part with a client that launches the same tasks by the best possible ACCEPTs. The
// API server, which is slower than both, is left out.
func TestCeiling(t *testing.T) {
	for _, c := range []struct {
		agents, tasks int
		resources     string
	}{
		{3, 6000, "cpus:400;mem:400000;disk:100000;ports:[31000-32000]"},
		{100, 20000, "cpus:32;mem:32768;disk:100000;ports:[31000-32000]"},
	} {
		t.Run(fmt.Sprintf("agents=%d", c.agents), func(t *testing.T) {
			var raw, ours []float64
			for range 3 { // each in a test of its own, which leaves nothing behind for the next one's garbage collector
				t.Run("raw", func(t *testing.T) { raw = append(raw, bareRate(t, c.agents, c.tasks, c.resources)) })
				t.Run("mesos", func(t *testing.T) { ours = append(ours, coreRate(t, c.agents, c.tasks, c.resources)) })
			}
			if t.Failed() {
				return
			}
			slices.Sort(raw)
			slices.Sort(ours)
			fmt.Printf("ceiling: agents=%d raw=%.0f mesos=%.0f ratio=%.2f\n", c.agents, raw[1], ours[1], ours[1]/raw[1])
		})
	}
}

// perAccept is how many tasks one ACCEPT launches at most, for both.
const perAccept = 100

func bareRate(t *testing.T, agents, tasks int, resources string) float64 {
	sim, _ := startSim(t, agents, resources)
	defer sim.Close()
	b, stop := startBare(t, sim.URL())
	defer stop()
	took := b.launch(tasks, perAccept)
	return rate(t, sim, tasks, time.Now().Add(-took))
}

func coreRate(t *testing.T, agents, tasks int, resources string) float64 {
	sim, nodes := startSim(t, agents, resources)
	defer sim.Close()
	c := startCore(t, sim.URL(), &memoryIdentity{}, nodes, nil)
	defer c.stop()
	await(t, "offers", func() bool { return c.book.AgentCount() == agents })
	pods := make([]*v1.Pod, tasks)
	for i := range pods {
		pods[i] = barePod(i)
	}
	begun := time.Now()
	c.launchAll(t, pods)
	return rate(t, sim, tasks, begun)
}

// rate waits until all tasks run and both updates of each, TASK_STARTING and TASK_RUNNING, are acknowledged: only then is
// nothing left to do for them. It returns how many tasks that made in a second.
func rate(t *testing.T, sim *mesossim.Cluster, tasks int, begun time.Time) float64 {
	await(t, "acknowledgements", func() bool { return sim.Counters().Acknowledged >= 2*tasks })
	took, counters := time.Since(begun), sim.Counters()
	if n := counters.Updates[mesos.TASK_RUNNING.String()]; n < tasks {
		t.Errorf("%d of %d tasks run", n, tasks)
	}
	t.Logf("%v, calls %v", took, counters.Calls)
	return float64(tasks) / took.Seconds()
}
