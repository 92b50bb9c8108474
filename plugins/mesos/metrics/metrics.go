// SPDX-License-Identifier: Apache-2.0

// Package metrics declares every metric of the product once and registers them with kube-scheduler's own registry, so
// that they are served on its /metrics. docs/metrics.md is made from it.
package metrics

import (
	"slices"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "mesos"

// Doc describes a metric to people.
type Doc struct {
	Name, Type, Help string
	Labels           []string
}

var (
	all  []metrics.Registerable
	docs []Doc
)

// Docs returns the description of every metric, in the order of their declaration.
func Docs() []Doc { return docs }

func declare[M metrics.Registerable](m M, kind, name, help string, labels []string) M {
	all = append(all, m)
	docs = append(docs, Doc{Name: subsystem + "_" + name, Type: kind, Help: help, Labels: labels})
	return m
}

func counter(name, help string, labels ...string) *metrics.CounterVec {
	return declare(metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels), "counter", name, help, labels)
}

func gauge(name, help string, labels ...string) *metrics.GaugeVec {
	return declare(metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels), "gauge", name, help, labels)
}

func histogram(name, help string, buckets []float64) *metrics.Histogram {
	return declare(metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}), "histogram", name, help, nil)
}

func histogramVec(name, help string, buckets []float64, labels ...string) *metrics.HistogramVec {
	return declare(metrics.NewHistogramVec(&metrics.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}, labels), "histogram", name, help, labels)
}

var latency = metrics.ExponentialBuckets(0.002, 2, 15)

// The metrics. Label values come from fixed sets.
var (
	Subscribed      = gauge("subscribed", "1 while the framework is subscribed with a Mesos master.")
	Subscriptions   = counter("subscriptions_total", "Attempts to subscribe by outcome.", "outcome")
	StreamLag       = gauge("stream_lag_seconds", "Seconds since the master last sent an event; heartbeats come every 15 seconds.")
	Calls           = counter("calls_total", "Calls to the master by type and outcome.", "type", "outcome")
	Offers          = gauge("offers", "Offers by fate since this process leads; held ones are those in hand now.", "fate")
	OldestOffer     = gauge("oldest_offer_seconds", "Age of the offer that is held longest.")
	Suppressed      = gauge("suppressed", "1 while offers of a role are suppressed.", "role")
	Revives         = counter("revives_total", "REVIVE calls sent. SUPPRESS calls are in mesos_calls_total.")
	Agents          = gauge("agents", "Mesos agents that are known.")
	Resources       = gauge("resources", "Resources of all agents in cores, MiB and devices, by what is done with them: offered, claimed by pods without a task, headroom for new pods, running in tasks, unheld (used by pods that have lost their task).", "resource", "kind")
	Waiting         = gauge("waiting_pods", "Pods that wait for Mesos offers.")
	WaitingByReason = gauge("waiting_pods_by_reason", "Pods that wait for Mesos offers, by what most agents lack. The reasons are a fixed set.", "reason")
	Woken           = counter("woken_pods_total", "Pods woken because an offer could hold them.")
	Accepts         = counter("accepts_total", "ACCEPT calls by outcome.", "outcome")
	BatchTasks      = histogram("batch_tasks", "Tasks in one ACCEPT.", metrics.ExponentialBuckets(1, 2, 10))
	Launches        = counter("launches_total", "Launches of tasks for pods, by outcome.", "outcome")
	LaunchSeconds   = histogram("launch_duration_seconds", "Seconds from Bind to the first status of the task.", latency)
	BindSeconds     = histogram("binding_duration_seconds", "Seconds from the first status to the stored Binding.", latency)
	LegSeconds      = histogramVec("leg_duration_seconds", "Seconds of each leg of a pod's journey: reserve_to_accept, accept_to_status, status_to_bound, created_to_running (creation times are whole seconds).", latency, "leg")
	Tasks           = gauge("tasks", "Tasks by state.", "state")
	Updates         = counter("task_updates_total", "Status updates by state.", "state")
	Reasons         = counter("task_endings_total", "Ends of tasks by state and reason, as Mesos says them; reason is empty if it gives none.", "state", "reason")
	Acknowledged    = counter("acknowledgements_total", "ACKNOWLEDGE calls by outcome.", "outcome")
	Reconciliations = counter("reconciliations_total", "RECONCILE calls by kind.", "kind")
	Kills           = counter("kills_total", "KILL calls sent.")
	Removals        = counter("pod_removals_total", "Pods removed because of what Mesos said of their tasks, by cause.", "cause")
	Reholds         = counter("reholds_total", "Attempts to hold a bound pod's resources with a new task, by outcome.", "outcome")
	Exceeded        = gauge("exceeded_resources", "What pods ask for beyond what their Mesos tasks hold, in cores and MiB, after they were resized in place.", "resource")
	Strangers       = gauge("unknown_tasks", "Live tasks of the framework that no pod is known for.")
	OverNodes       = gauge("overcommitted_nodes", "Nodes whose Mesos agent gives away more than pods outside Mesos leave.")
	Overcommit      = gauge("overcommit", "What Mesos agents and pods outside Mesos together have too much of, in cores and MiB.", "resource")
	Stopped         = gauge("removals_stopped", "1 while a protective stop keeps pods from being removed.")
)

var register sync.Once

// Register registers every metric; it may be called more than once.
func Register() {
	register.Do(func() {
		legacyregistry.MustRegister(all...)
		begin()
	})
}

// begin shows counters before they count: of one that appears with its first increment, a rate misses that one.
func begin() {
	for i, d := range docs {
		var values [][]string
		switch {
		case len(d.Labels) == 0:
			values = [][]string{{}}
		case slices.Equal(d.Labels, []string{"resource"}):
			values = [][]string{{"cpus"}, {"mem"}}
		}
		for _, v := range values {
			switch m := all[i].(type) {
			case *metrics.CounterVec:
				m.WithLabelValues(v...)
			case *metrics.GaugeVec:
				m.WithLabelValues(v...)
			}
		}
	}
	for c, values := range map[*metrics.CounterVec][]string{
		Subscriptions: {"subscribed", "failed", "refused", "identity"}, Accepts: {"processed", "refused", "unclear", "not recorded"}, Launches: {"launched", "failed"},
		Acknowledged: {"ok", "failed"}, Reconciliations: {"explicit", "implicit"}, Reholds: {"held", "failed"},
		Removals: {"MesosTaskWithdrawn", "MesosTaskEnded", "MesosTaskLost", "MesosMaintenance"},
	} {
		for _, v := range values {
			c.WithLabelValues(v)
		}
	}
}
