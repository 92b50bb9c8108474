// SPDX-License-Identifier: Apache-2.0

// Package metrics says in Prometheus' text format what an executor does, on a unix socket in its sandbox. It writes the
// format itself: the executor runs on every host, and a dozen numbers are no reason for it to carry a library.
package metrics

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const prefix = "kube_mesos_executor_"

// Identity says whose metrics they are.
type Identity struct {
	Version, Node, FrameworkID, AgentID, ExecutorID string
}

// Snapshot is what an executor does at one moment. Maps are counts by the value of the metric's label.
type Snapshot struct {
	Identity Identity
	// Started is when the bridge began, Restarts how often the supervisor has started it again after a crash.
	Started  time.Time
	Restarts int
	// Memory is what the bridge has taken of the operating system, in bytes.
	Memory uint64

	// Tasks are the live tasks by state, Kills those of them that are to end, LongestKill the age of the oldest such wish.
	Tasks       map[string]int
	Kills       int
	LongestKill time.Duration
	// Deletions are deletions of pods by outcome, Unconfirmed ends of tasks that nobody confirmed.
	Deletions   map[string]int
	Unconfirmed int

	// Updates are the status updates made, by state; Sends the attempts to send one, by outcome.
	Updates, Sends map[string]int
	Acknowledged   int
	Dropped        int
	// Unacknowledged are the updates that wait, OldestUpdate the age of the oldest of them.
	Unacknowledged int
	OldestUpdate   time.Duration

	// Subscribed says that the agent's stream is open; Away is for how long it has not been.
	Subscribed    bool
	Away          time.Duration
	Subscriptions int

	// PodsCurrent says that the view of the node's pods is current; PodsAge how long ago the API server last said anything.
	PodsCurrent bool
	PodsAge     time.Duration

	JournalFailures int
}

// A metric is one row of the table.
type metric struct {
	name, kind, help string
	// labels are the names of labels beside executor, which all have. values are the values of the one label that is
	// counted by; each is written, also at 0.
	labels []string
	values []string
	value  func(s *Snapshot) any // a number, a bool, or counts by label value
}

var table = []metric{
	{name: "info", kind: "gauge", labels: []string{"version", "node", "framework_id", "agent_id"}, help: "1, with what the executor is."},
	{name: "start_time_seconds", kind: "gauge", help: "When the bridge started, in seconds since 1970.", value: func(s *Snapshot) any { return float64(s.Started.UnixMilli()) / 1e3 }},
	{name: "bridge_restarts_total", kind: "counter", help: "How often the supervisor started the bridge again after it had crashed or was killed.", value: func(s *Snapshot) any { return s.Restarts }},
	{name: "memory_bytes", kind: "gauge", help: "Memory that the bridge has from the operating system.", value: func(s *Snapshot) any { return s.Memory }},
	{name: "tasks", kind: "gauge", labels: []string{"state"}, values: []string{"STARTING", "RUNNING", "KILLING"}, help: "Live tasks by the state that was reported last.", value: func(s *Snapshot) any { return s.Tasks }},
	{name: "kills_in_progress", kind: "gauge", help: "Live tasks that are to end: their pods are being deleted, or their containers have not stopped yet.", value: func(s *Snapshot) any { return s.Kills }},
	{name: "longest_kill_seconds", kind: "gauge", help: "How long ago the oldest of the kills in progress was asked for.", value: func(s *Snapshot) any { return s.LongestKill }},
	{name: "pod_deletions_total", kind: "counter", labels: []string{"outcome"}, values: []string{"accepted", "gone", "failed"}, help: "Deletions of pods by what the API server answered. Failed ones are repeated.", value: func(s *Snapshot) any { return s.Deletions }},
	{name: "unconfirmed_ends_total", kind: "counter", help: "Tasks that were ended though neither kubelet nor cgroups confirmed that the pod's containers have stopped.", value: func(s *Snapshot) any { return s.Unconfirmed }},
	{name: "updates_total", kind: "counter", labels: []string{"state"}, values: []string{"STARTING", "RUNNING", "KILLING", "FINISHED", "FAILED", "KILLED"}, help: "Status updates made, by state.", value: func(s *Snapshot) any { return s.Updates }},
	{name: "update_sends_total", kind: "counter", labels: []string{"outcome"}, values: []string{"taken", "failed", "invalid"}, help: "Attempts to send an update, by what the agent answered.", value: func(s *Snapshot) any { return s.Sends }},
	{name: "acknowledgements_total", kind: "counter", help: "Updates that the agent acknowledged.", value: func(s *Snapshot) any { return s.Acknowledged }},
	{name: "dropped_updates_total", kind: "counter", help: "Updates given up because the agent never acknowledged them.", value: func(s *Snapshot) any { return s.Dropped }},
	{name: "unacknowledged_updates", kind: "gauge", help: "Updates that the agent has not acknowledged.", value: func(s *Snapshot) any { return s.Unacknowledged }},
	{name: "oldest_unacknowledged_update_seconds", kind: "gauge", help: "Age of the oldest update that the agent has not acknowledged.", value: func(s *Snapshot) any { return s.OldestUpdate }},
	{name: "agent_subscribed", kind: "gauge", help: "1 while the executor is subscribed with its agent.", value: func(s *Snapshot) any { return s.Subscribed }},
	{name: "agent_away_seconds", kind: "gauge", help: "For how long the executor has not been subscribed; 0 while it is.", value: func(s *Snapshot) any { return s.Away }},
	{name: "agent_subscriptions_total", kind: "counter", help: "Subscriptions that the agent accepted.", value: func(s *Snapshot) any { return s.Subscriptions }},
	{name: "pods_current", kind: "gauge", help: "1 while the watch of the node's pods is open.", value: func(s *Snapshot) any { return s.PodsCurrent }},
	{name: "pod_watch_age_seconds", kind: "gauge", help: "Seconds since the API server last said anything of the node's pods. It sends a bookmark about every minute.", value: func(s *Snapshot) any { return s.PodsAge }},
	{name: "journal_failures_total", kind: "counter", help: "Failed writes of the journal in the sandbox, without which a crash may lose something.", value: func(s *Snapshot) any { return s.JournalFailures }},
}

// Doc describes a metric to people.
type Doc struct {
	Name, Type, Help string
	Labels           []string
}

// Docs returns the description of every metric, in the order in which they are served.
func Docs() []Doc {
	out := make([]Doc, 0, len(table))
	for _, m := range table {
		out = append(out, Doc{Name: prefix + m.name, Type: m.kind, Help: m.help, Labels: append([]string{"executor"}, m.labels...)})
	}
	return out
}

// Text writes a snapshot in Prometheus' text format.
func Text(s *Snapshot) []byte {
	var b bytes.Buffer
	for _, m := range table {
		fmt.Fprintf(&b, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, m.name, m.help, prefix, m.name, m.kind)
		line := func(value string, labels ...string) {
			fmt.Fprintf(&b, "%s%s{executor=%s", prefix, m.name, quote(s.Identity.ExecutorID))
			for i, l := range labels {
				fmt.Fprintf(&b, ",%s=%s", m.labels[i], quote(l))
			}
			fmt.Fprintf(&b, "} %s\n", value)
		}
		if m.value == nil {
			line("1", s.Identity.Version, s.Identity.Node, s.Identity.FrameworkID, s.Identity.AgentID)
			continue
		}
		counts, ok := m.value(s).(map[string]int)
		if !ok {
			line(number(m.value(s)))
			continue
		}
		all := map[string]int{}
		for _, v := range m.values {
			all[v] = 0
		}
		maps.Copy(all, counts)
		for _, v := range slices.Sorted(maps.Keys(all)) {
			line(strconv.Itoa(all[v]), v)
		}
	}
	return b.Bytes()
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func quote(label string) string {
	return `"` + escaper.Replace(strings.ToValidUTF8(label, "?")) + `"`
}

func number(v any) string {
	switch v := v.(type) {
	case bool:
		if v {
			return "1"
		}
		return "0"
	case time.Duration:
		return strconv.FormatFloat(max(0, v.Seconds()), 'f', -1, 64)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}
