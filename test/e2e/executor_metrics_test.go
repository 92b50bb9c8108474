// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	executormetrics "github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/metrics"
)

// executorSamples reads the metrics of all executors of the world from their sockets.
func (w *world) executorSamples() ([]sample, error) {
	var samples []sample
	for _, e := range w.sim.Executors() {
		var text bytes.Buffer
		if err := executormetrics.Collect(w.ctx, &text, e.Directory); err != nil {
			return nil, err
		}
		if text.Len() == 0 {
			return nil, fmt.Errorf("executor %s serves no metrics in %s", e.ID, e.Directory)
		}
		samples = append(samples, parseScrape(w.T, text.String())...)
	}
	return samples, nil
}

// TestExecutorMetrics reads what executors say of themselves while a pod runs, ends, and after a bridge was killed.
func TestExecutorMetrics(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1})
	w.pod("a", "100m", "64Mi")
	w.pod("b", "100m", "64Mi")
	w.waitRunning("a")
	w.waitRunning("b")
	// each wants `name value` or `name label=value value`.
	await := func(wants ...string) {
		t.Helper()
		w.waitFor("metrics of the executor", func() error {
			samples, err := w.executorSamples()
			if err != nil {
				return err
			}
			for _, want := range wants {
				fields := strings.Fields(want)
				if !slices.ContainsFunc(samples, func(s sample) bool {
					if s.name != "kube_mesos_executor_"+fields[0] || s.value != fields[len(fields)-1] {
						return false
					}
					for _, l := range fields[1 : len(fields)-1] {
						if name, v, _ := strings.Cut(l, "="); s.labels[name] != v {
							return false
						}
					}
					return true
				}) {
					return fmt.Errorf("no %s in %v", want, samples)
				}
			}
			return nil
		})
	}
	await("tasks state=RUNNING 2", "agent_subscribed 1", "pods_current 1", "unacknowledged_updates 0", "bridge_restarts_total 0", "info node="+w.nodes[0]+" 1")
	w.remove("a")
	// The node may be quicker and say that the pod has ended: then its end is FINISHED, not KILLED.
	await("tasks state=RUNNING 1", "acknowledgements_total 5", "unacknowledged_updates 0", "kills_in_progress 0")

	executor := w.sim.Executors()[0]
	bridge := children(t, executor.Pid)
	if len(bridge) != 1 {
		t.Fatalf("the supervisor has the children %v", bridge)
	}
	w.ok(kill9(bridge[0]))
	await("bridge_restarts_total 1", "tasks state=RUNNING 1", "agent_subscribed 1")
	w.settle()

	samples, err := w.executorSamples()
	w.ok(err)
	for _, d := range executormetrics.Docs() {
		if !slices.ContainsFunc(samples, func(s sample) bool { return s.name == d.Name && s.labels["executor"] == executor.ID }) {
			t.Errorf("%s is not served", d.Name)
		}
	}
	for _, s := range samples {
		for label, value := range s.labels {
			if strings.Contains(value, w.namespace) {
				t.Errorf("%s has the name of something in label %s: %s", s.name, label, value)
			}
		}
	}
}
