// SPDX-License-Identifier: Apache-2.0

// Package metrics registers every metric of the product once, with kube-scheduler's own registry, so that they are
// served on its /metrics.
package metrics

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "mesos"

func counter(name, help string, labels ...string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
}

func gauge(name, help string, labels ...string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
}

func histogram(name, help string, buckets []float64) *metrics.Histogram {
	return metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA})
}

var latency = metrics.ExponentialBuckets(0.002, 2, 15)

// The metrics. Label values come from fixed sets.
var (
	Subscribed      = gauge("subscribed", "1 while the framework is subscribed with a Mesos master.")
	Offers          = gauge("offers", "Offers by fate since this process leads; held ones are those in hand now.", "fate")
	Accepts         = counter("accepts_total", "ACCEPT calls by outcome.", "outcome")
	BatchTasks      = histogram("batch_tasks", "Tasks in one ACCEPT.", metrics.ExponentialBuckets(1, 2, 10))
	Launches        = counter("launches_total", "Launches of tasks for pods, by outcome.", "outcome")
	LaunchSeconds   = histogram("launch_duration_seconds", "Seconds from Bind to the first status of the task.", latency)
	BindSeconds     = histogram("binding_duration_seconds", "Seconds from the first status to the stored Binding.", latency)
	Updates         = counter("task_updates_total", "Status updates by state.", "state")
	Acknowledged    = counter("acknowledgements_total", "ACKNOWLEDGE calls by outcome.", "outcome")
	Calls           = counter("calls_total", "Calls to the master by type and outcome.", "type", "outcome")
	Subscriptions   = counter("subscriptions_total", "Attempts to subscribe by outcome.", "outcome")
	Reconciliations = counter("reconciliations_total", "RECONCILE calls by kind.", "kind")
	Kills           = counter("kills_total", "KILL calls sent.")
	Removals        = counter("pod_removals_total", "Pods removed because of what Mesos said of their tasks, by cause.", "cause")
	Reholds         = counter("reholds_total", "Attempts to hold a bound pod's resources with a new task, by outcome.", "outcome")
	Tasks           = gauge("tasks", "Tasks by state.", "state")
	Waiting         = gauge("waiting_pods", "Pods that wait for Mesos offers.")
	Strangers       = gauge("unknown_tasks", "Live tasks of the framework that no pod is known for.")
	Stopped         = gauge("removals_stopped", "1 while a protective stop keeps pods from being removed.")
	Suppressed      = gauge("suppressed", "1 while offers of a role are suppressed.", "role")
	Revives         = counter("revives_total", "REVIVE calls sent.")
	Woken           = counter("woken_pods_total", "Pods woken because an offer could hold them.")
)

var register sync.Once

// Register registers every metric; it may be called more than once.
func Register() {
	register.Do(func() {
		legacyregistry.MustRegister(Subscribed, Offers, Accepts, BatchTasks, Launches, LaunchSeconds, BindSeconds, Updates, Acknowledged,
			Calls, Subscriptions, Reconciliations, Kills, Removals, Reholds, Tasks, Waiting, Strangers, Stopped, Suppressed, Revives, Woken)
	})
}
