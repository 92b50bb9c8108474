// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"

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

// Score ranks the agent of a node by the args' strategy.
func (m *Mesos) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	c, status := stateOf(state)
	if status != nil {
		return 0, status
	}
	v := c.view(nodeInfo)
	if v == nil {
		return 0, nil
	}
	return score(v, c.need, m.args.ScoringStrategy), nil
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
