// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

type line struct {
	at   time.Time
	text string
}

// most histories that are printed in full; the rest is in the run's folder all the same.
const maxHistories = 5

// report prints the violations of a run, each pod's with the history of the pod, its tasks, and all that was done.
func report(out io.Writer, seed uint64, dir string, violations []violation, e *evidence) {
	told := map[string]bool{}
	for _, v := range violations {
		fmt.Fprintf(out, "VIOLATION seed=%d %s: %s\n", seed, v.invariant, v.text)
	}
	for _, v := range violations {
		if told[v.uid] || len(told) >= maxHistories {
			continue
		}
		told[v.uid] = true
		fmt.Fprintf(out, "--- seed %d, %s: %s\n", seed, v.invariant, v.text)
		writeHistory(out, v.uid, e)
	}
	fmt.Fprintf(out, "logs and records of seed %d are in %s\n", seed, dir)
}

// writeHistory prints in time order what happened to a pod and its tasks, and what was done to the system. Without a
// pod it is only the latter.
func writeHistory(out io.Writer, uid string, e *evidence) {
	var lines []line
	for _, i := range e.incidents {
		lines = append(lines, line{i.at, i.text})
	}
	for _, h := range e.pods {
		if h.uid == uid {
			lines = append(lines, podLines(h)...)
			for _, r := range e.requests {
				if r.name == h.name() {
					lines = append(lines, line{r.received, fmt.Sprintf("    request  %s (answered %s)", r, clockTime(r.answered))})
				}
			}
		}
	}
	for _, l := range e.lives {
		if l.uid != uid {
			continue
		}
		id := l.task.ID
		for _, t := range l.task.History {
			lines = append(lines, line{t.At, fmt.Sprintf("    task     %s on %s (%s): %s %s %s %q delivered=%t acknowledged=%t", id, l.task.Agent, l.task.AgentID, t.State, t.Source, t.Reason, t.Message, t.Delivered, t.Acknowledged)})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	for _, l := range lines {
		fmt.Fprintf(out, "%s %s\n", clockTime(l.at), l.text)
	}
}

func podLines(h *podHistory) []line {
	var lines []line
	for _, e := range h.events {
		p := e.pod
		text := fmt.Sprintf("    pod      %s (%s): %s node=%q task=%q", p.Name, p.UID, p.Status.Phase, p.Spec.NodeName, p.Annotations[wellknown.TaskIDAnnotation])
		if p.DeletionTimestamp != nil {
			text += fmt.Sprintf(" deleting by %s grace=%d", clockTime(p.DeletionTimestamp.Time), *p.DeletionGracePeriodSeconds)
		}
		for _, c := range p.Status.Conditions {
			if c.Type == "DisruptionTarget" || c.Type == "PodScheduled" && c.Status == "False" {
				text += fmt.Sprintf(" %s: %s", c.Type, firstLine(c.Message))
			}
		}
		if e.gone {
			text += " GONE"
		}
		lines = append(lines, line{e.at, text})
	}
	return lines
}
