// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim/simprocess"
)

// simulator is a running bin/mesos-sim.
type simulator struct{ *simprocess.Process }

// startSimulator starts a master without agents.
func startSimulator() (*simulator, error) {
	p, err := simprocess.Start("../../../bin/mesos-sim")
	return &simulator{p}, err
}

// addAgents gives each node that can take pods an agent that gives away what pods may use of the node.
func (s *simulator) addAgents(ctx context.Context, nodes []v1.Node) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range nodes {
		node := &nodes[i]
		if node.Status.Allocatable.Pods().IsZero() {
			continue
		}
		group.Go(func() error {
			text := fmt.Sprintf("cpus:%g;mem:%d;ports:[20000-21000]", node.Status.Allocatable.Cpu().AsApproximateFloat64(), node.Status.Allocatable.Memory().Value()>>20)
			return s.Do(ctx, map[string]string{"action": "add-agent", "agent": node.Name, "resources": text})
		})
	}
	return group.Wait()
}

// simulatorState is what is read of the simulator's state.
type simulatorState struct {
	Tasks []struct {
		Name    string
		History []struct {
			At    time.Time
			State json.RawMessage
		}
	}
	Counters struct {
		Calls       map[string]int
		Allocations int
	}
}

// running returns when each task whose pod is in a namespace began to run.
func (s *simulatorState) running(namespace string) []time.Time {
	var out []time.Time
	for _, t := range s.Tasks {
		if !strings.HasPrefix(t.Name, namespace+"/") {
			continue
		}
		for _, h := range t.History {
			if state := strings.Trim(string(h.State), `"`); state == "TASK_RUNNING" || state == "1" {
				out = append(out, h.At)
				break
			}
		}
	}
	return out
}
