// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	runtimemetrics "runtime/metrics"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/machine"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/metrics"
)

// counts are what the loop counts for the metrics.
type counts struct {
	started                                                            time.Time
	updates                                                            map[mesos.TaskState]int
	sends                                                              map[string]int
	deletions                                                          map[machine.DeleteResult]int
	unconfirmed, acknowledged, dropped, subscriptions, journalFailures int
}

// How an attempt to send an update went.
const (
	sendTaken   = "taken"
	sendFailed  = "failed"
	sendInvalid = "invalid"
)

func newCounts(now time.Time) counts {
	return counts{started: now, updates: map[mesos.TaskState]int{}, sends: map[string]int{}, deletions: map[machine.DeleteResult]int{}}
}

// askStatus asks the loop how things are.
func (i inbox) askStatus(ctx context.Context) (*metrics.Snapshot, error) {
	answer := make(chan *metrics.Snapshot, 1)
	select {
	case i.ch <- wantStatus{answer}:
	case <-ctx.Done():
		return nil, errors.New("its loop is busy")
	case <-i.ctx.Done():
		return nil, errors.New("it is about to end")
	}
	select {
	case s := <-answer:
		return s, nil
	case <-ctx.Done():
		return nil, errors.New("its loop is busy")
	case <-i.ctx.Done():
		return nil, errors.New("it is about to end")
	}
}

// status is how things are now.
func (b *bridge) status(now time.Time) *metrics.Snapshot {
	s := &metrics.Snapshot{
		Identity: metrics.Identity{
			Version: b.opts.Version, Node: b.opts.NodeName,
			FrameworkID: b.env.FrameworkID, AgentID: b.env.AgentID, ExecutorID: b.env.ExecutorID,
		},
		Started: b.counts.started, Restarts: b.env.Restarts, Memory: memory(),
		Tasks: map[string]int{}, Updates: map[string]int{}, Sends: map[string]int{},
		Deletions: map[string]int{
			"accepted": b.counts.deletions[machine.DeleteAccepted], "gone": b.counts.deletions[machine.DeleteGone], "failed": b.counts.deletions[machine.DeleteFailed],
		},
		Unconfirmed: b.counts.unconfirmed, Acknowledged: b.counts.acknowledged, Dropped: b.counts.dropped,
		Subscribed: b.ready, Subscriptions: b.counts.subscriptions, JournalFailures: b.counts.journalFailures,
	}
	for _, t := range b.machine.Tasks() {
		for _, u := range t.Pending {
			s.Unacknowledged++
			s.OldestUpdate = max(s.OldestUpdate, now.Sub(time.UnixMicro(int64(u.Timestamp*1e6))))
		}
		if t.Ended() || !t.Reported {
			continue
		}
		s.Tasks[stateLabel(t.State)]++
		if t.Kill != nil {
			s.Kills++
			s.LongestKill = max(s.LongestKill, now.Sub(t.Kill.At))
		}
	}
	for state, n := range b.counts.updates {
		s.Updates[stateLabel(state)] = n
	}
	for outcome, n := range b.counts.sends {
		s.Sends[outcome] = n
	}
	if !b.awaySince.IsZero() {
		s.Away = now.Sub(b.awaySince)
	}
	s.PodsCurrent = b.machine.Current()
	heard := b.node.Heard()
	if heard.IsZero() {
		heard = b.counts.started
	}
	s.PodsAge = now.Sub(heard)
	return s
}

func stateLabel(state mesos.TaskState) string { return strings.TrimPrefix(state.String(), "TASK_") }

// memory is what the Go runtime has of the operating system, in bytes: what GOMEMLIMIT bounds.
func memory() uint64 {
	const total, released = "/memory/classes/total:bytes", "/memory/classes/heap/released:bytes"
	samples := []runtimemetrics.Sample{{Name: total}, {Name: released}}
	runtimemetrics.Read(samples)
	for _, sample := range samples {
		if sample.Value.Kind() != runtimemetrics.KindUint64 {
			return 0
		}
	}
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
