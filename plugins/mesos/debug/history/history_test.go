// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func step(what ledger.What, name string, state, from ledger.State, at time.Duration) ledger.Step {
	t := &ledger.Task{Pod: ledger.Pod{UID: types.UID(name), Namespace: "ns", Name: name}, State: state, ClaimedAt: begin}
	return ledger.Step{What: what, At: begin.Add(at), Task: t, From: from}
}

func TestMemoryIsBounded(t *testing.T) {
	h := New(testingclock.NewFakePassiveClock(begin))
	for i := range maxPods + 10 {
		h.Observe(step(ledger.Added, fmt.Sprint("p", i), ledger.Claimed, 0, 0))
	}
	require.Len(t, h.pods, maxPods)
	require.Len(t, h.names, maxPods)
	require.Equal(t, maxPods, h.order.Len())
	require.Len(t, h.events, maxEvents)
	_, ok := h.Pod("ns", "p0")
	require.False(t, ok, "the one that was quiet longest is forgotten")

	for range 1000 {
		h.Observe(step(ledger.Moved, "p20", ledger.Running, ledger.Starting, time.Second))
	}
	j, ok := h.Pod("ns", "p20")
	require.True(t, ok)
	require.Len(t, j.Steps, firstSteps+lastSteps)
	require.Equal(t, "claimed", j.Steps[0].What, "the beginning is kept")
	require.Equal(t, 1001-firstSteps-lastSteps, j.Omitted)

	for i := range maxSamples + 5 {
		h.Sample(v1.Sample{Time: begin.Add(time.Duration(i) * SampleEvery), Waiting: i})
	}
	s := h.Series()
	require.Len(t, s, maxSamples)
	require.Equal(t, 5, s[0].Waiting)
	require.Equal(t, maxSamples+4, s[len(s)-1].Waiting)
}

func TestEvents(t *testing.T) {
	h := New(testingclock.NewFakePassiveClock(begin))
	require.Empty(t, h.Events(0, 10))
	for i := range maxEvents + 50 {
		h.Note("", "", "", "R", fmt.Sprint(i))
	}
	got := h.Events(0, 3)
	require.Equal(t, []string{"1047", "1048", "1049"}, []string{got[0].Message, got[1].Message, got[2].Message})
	require.Len(t, h.Events(0, 5000), maxEvents)
	require.Len(t, h.Events(got[1].Seq, 10), 1)
	require.Empty(t, h.Events(got[2].Seq, 10))
	require.Empty(t, h.Events(1<<60, 10))
}

func TestRatesAndLatencies(t *testing.T) {
	h := New(testingclock.NewFakePassiveClock(begin))
	h.Sample(v1.Sample{Time: begin})
	for i := 1; i <= 10; i++ {
		name := fmt.Sprint(i)
		h.Observe(step(ledger.Moved, name, ledger.Starting, ledger.Launching, time.Second))
		h.Observe(step(ledger.WasBound, name, ledger.Running, ledger.Running, time.Duration(i)*time.Second))
	}
	h.Observe(step(ledger.Dropped, "1", ledger.Terminal, ledger.Running, time.Second))
	h.Sample(v1.Sample{Time: begin.Add(5 * time.Second)})
	h.Sample(v1.Sample{Time: begin.Add(10 * time.Second)})
	s := h.Series()
	require.InDelta(t, 2, s[1].LaunchesPerSecond, 1e-9)
	require.InDelta(t, 0.2, s[1].EndsPerSecond, 1e-9)
	require.InDelta(t, 6, *s[1].LaunchP50, 1e-9)
	require.InDelta(t, 10, *s[1].LaunchP90, 1e-9)
	require.Nil(t, s[2].LaunchP50)
	require.Zero(t, s[2].LaunchesPerSecond)
}

func TestPodOfTheSameName(t *testing.T) {
	h := New(testingclock.NewFakePassiveClock(begin))
	for _, uid := range []types.UID{"old", "new"} {
		h.Observe(ledger.Step{What: ledger.Added, At: begin, Task: &ledger.Task{Pod: ledger.Pod{UID: uid, Namespace: "ns", Name: "p"}}})
	}
	j, ok := h.Pod("ns", "p")
	require.True(t, ok)
	require.Equal(t, types.UID("new"), j.UID)
}
