// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// Shares of the score, in points: how full the agent is, whether the pod could be launched there at once or has to wait for
// the rest of an accepted offer to come back, whether a launch batch is open on it, and whether a maintenance window is
// announced or GPUs would be kept from pods that want them.
const (
	sharePoints = 50
	readyPoints = 30
	openPoints  = 10
	calmPoints  = 10
)

// PreScore skips scoring when the cycle has no snapshot, or when there is nothing to choose from.
func (m *Mesos) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if _, status := stateOf(state); status != nil || len(nodes) < 2 {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score ranks the agent of a node by the args' strategy. What came out is noted in the snapshot beside the agent, so that
// the next pod that asks for the same need not look at agents that have not changed: with thousands of nodes most of the
// time would go into reaching for them.
func (m *Mesos) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	c, status := stateOf(state)
	if status != nil {
		return 0, status
	}
	place, ok := c.place(nodeInfo)
	if !ok {
		return 0, nil
	}
	note := c.snapshot.Note(place)
	if n := atomic.LoadUint64(note); n>>noteBits == c.scoring {
		return int64(n & (1<<noteBits - 1)), nil
	}
	points := int64(0)
	if v := c.snapshot.At(place); v != nil {
		points = score(v, c.need, m.args.ScoringStrategy)
	}
	atomic.StoreUint64(note, c.scoring<<noteBits|uint64(points))
	return points, nil
}

// noteBits is how many bits of a note are points; the others are a number that stands for what was asked for.
const noteBits = 8

// scorings numbers what Score is asked for.
type scorings struct {
	mu      sync.Mutex
	last    uint64
	numbers map[scoring]uint64
}

// scoring is all that points depend on, beside the agent.
type scoring struct {
	amounts   resources.Amounts
	role      string
	revocable bool
	strategy  config.ScoringStrategyType
}

// maxScorings bounds the numbers that are kept. A number is never given twice.
const maxScorings = 1 << 10

func (s *scorings) of(need resources.Need, strategy config.ScoringStrategyType) uint64 {
	key := scoring{need.Amounts, need.Role, need.Revocable, strategy}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, known := s.numbers[key]
	if !known {
		if len(s.numbers) >= maxScorings || s.numbers == nil {
			s.numbers = map[scoring]uint64{}
		}
		s.last++
		n = s.last
		s.numbers[key] = n
	}
	return n
}

func score(v *ledger.View, need resources.Need, strategy config.ScoringStrategyType) int64 {
	total, free, open := v.Room(need)
	free = free.Sub(need.Amounts)
	share := sharePoints * (part(free.CPUs, total.CPUs) + part(free.Mem, total.Mem)) / (2 * whole)
	if strategy == config.MostAllocated {
		share = sharePoints - share
	}
	if v.Ready(need) {
		share += readyPoints
	}
	if open {
		share += openPoints
	}
	if v.Unavailable.Start.IsZero() && (!v.GPUs || need.GPUs > 0) {
		share += calmPoints
	}
	return share
}

// whole is 1 in the fixed-point numbers of part.
const whole = 1 << 10

func part(of, total int64) int64 {
	if total <= 0 || of <= 0 {
		return 0
	}
	return min(of*whole/total, whole)
}

// ScoreExtensions returns the plugin.
func (m *Mesos) ScoreExtensions() fwk.ScoreExtensions { return m }

// NormalizeScore stretches the scores to the framework's range.
func (m *Mesos) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	return helper.DefaultNormalizeScore(fwk.MaxScore, false, scores)
}
