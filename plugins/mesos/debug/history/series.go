// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
)

// SampleEvery is the time between two samples; an hour of them is kept.
const SampleEvery = 5 * time.Second

const (
	maxSamples   = int(time.Hour / SampleEvery)
	maxLatencies = 4096 // of one interval
)

// series is the samples and what is counted for the next one.
type series struct {
	samples        []v1.Sample // a ring; next is where the next one goes once it is full
	next           int
	began          time.Time
	launched, ends int
	latencies      []float64
}

func (s *series) observe(step ledger.Step) {
	t := step.Task
	switch {
	case step.What == ledger.Moved && step.From == ledger.Launching && t.State.Live():
		s.launched++
	case step.What == ledger.Dropped && step.From.Sent(), step.What == ledger.Moved && t.State == ledger.Terminal:
		s.ends++
	case step.What == ledger.WasBound && !t.ClaimedAt.IsZero() && len(s.latencies) < maxLatencies:
		s.latencies = append(s.latencies, step.At.Sub(t.ClaimedAt).Seconds())
	}
}

// Sample adds a sample; rates and latencies are filled in.
func (h *History) Sample(sample v1.Sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.series
	if took := sample.Time.Sub(s.began).Seconds(); !s.began.IsZero() && took > 0 {
		sample.LaunchesPerSecond, sample.EndsPerSecond = round(float64(s.launched)/took), round(float64(s.ends)/took)
	}
	if len(s.latencies) > 0 {
		slices.Sort(s.latencies)
		p50, p90 := quantile(s.latencies, 0.5), quantile(s.latencies, 0.9)
		sample.LaunchP50, sample.LaunchP90 = &p50, &p90
	}
	s.began, s.launched, s.ends, s.latencies = sample.Time, 0, 0, s.latencies[:0]
	if len(s.samples) < maxSamples {
		s.samples = append(s.samples, sample)
		return
	}
	s.samples[s.next] = sample
	s.next = (s.next + 1) % maxSamples
}

// Series returns the samples in order.
func (h *History) Series() []v1.Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Concat(h.series.samples[h.series.next:], h.series.samples[:h.series.next])
}

// quantile is the smallest value that a share of the sorted ones does not exceed.
func quantile(sorted []float64, share float64) float64 {
	return round(sorted[min(len(sorted)-1, int(share*float64(len(sorted))))])
}

func round(v float64) float64 { return float64(int64(v*1e4+0.5)) / 1e4 }
