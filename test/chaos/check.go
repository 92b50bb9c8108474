// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// A violation is a broken invariant. uid names the pod that it is about, if any.
type violation struct {
	invariant, uid, text string
}

// evidence is all that the checks work on.
type evidence struct {
	size      size
	pods      []*podHistory
	lives     []life
	incidents []incident
	requests  []request
}

// Allowances for what two records of one thing may differ by on a loaded machine.
const (
	slack = 500 * ms
	// lag is how much later than it was stored a state of a pod may be on record.
	lag = 2 * time.Second
	// hearing is what the scheduler needs at most to learn of a task's end when nothing disturbs the messages.
	hearing = time.Second
)

// check returns what the records show to be broken over the whole run.
func (e *evidence) check() []violation {
	var out []violation
	byUID := map[string][]life{}
	for _, l := range e.lives {
		byUID[l.uid] = append(byUID[l.uid], l)
	}
	out = append(out, e.twoTasks(byUID)...)
	out = append(out, e.overcommitted()...)
	for _, h := range e.pods {
		if h.events[0].pod.Spec.SchedulerName != cluster.SchedulerName {
			continue
		}
		mine := byUID[h.uid]
		out = append(out, e.binding(h, mine)...)
		out = append(out, e.removal(h, mine)...)
		for _, l := range mine {
			out = append(out, e.amounts(h, l)...)
			out = append(out, e.early(h, l)...)
		}
	}
	return out
}

// twoTasks is I2: no pod ever has two live tasks.
func (e *evidence) twoTasks(byUID map[string][]life) []violation {
	var out []violation
	for uid, lives := range byUID {
		for i, l := range lives {
			for _, before := range lives[:i] {
				if before.at(l.from) && (before.alive() || before.to.After(l.from)) && (l.alive() || l.to.After(l.from)) {
					out = append(out, violation{"I2", uid, fmt.Sprintf("task %s was launched while task %s of the same pod lived", l.task.ID, before.task.ID)})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b violation) int { return strings.Compare(a.text, b.text) })
	return out
}

// binding is the other half of I2: a Binding names a task that lives, as far as the scheduler can know.
func (e *evidence) binding(h *podHistory, lives []life) []violation {
	b := h.since(bound)
	if b == nil {
		return nil
	}
	id := b.pod.Annotations[wellknown.TaskIDAnnotation]
	i := slices.IndexFunc(lives, func(l life) bool { return l.task.ID == id })
	if i < 0 {
		return []violation{{"I2", h.uid, fmt.Sprintf("the pod was bound with task %q, which was never launched for it", id)}}
	}
	l := lives[i]
	if l.task.Agent != b.pod.Spec.NodeName {
		return []violation{{"I2", h.uid, fmt.Sprintf("the pod was bound to %s, its task is on %s", b.pod.Spec.NodeName, l.task.Agent)}}
	}
	sent := e.sent(h, *b)
	if l.at(sent) || !l.alive() && sent.Before(l.to.Add(hearing)) || e.hidden(l.to, sent) {
		return nil
	}
	return []violation{{"I2", h.uid, fmt.Sprintf("a Binding was sent at %s with task %s, which ended at %s", clockTime(sent), id, clockTime(l.to))}}
}

// sent is when the Binding was sent that made the pod bound; it may have been stored much later.
func (e *evidence) sent(h *podHistory, b podEvent) time.Time {
	at, made := b.at, h.events[0].at.Add(-lag)
	for _, r := range e.requests {
		if r.name == h.name() && r.sub == "binding" && r.scheduler() && !r.received.After(b.at) && r.received.After(made) {
			at = r.received
		}
	}
	return at
}

// hidden says whether something may have kept a message of that time from the scheduler until then.
func (e *evidence) hidden(since, until time.Time) bool {
	return slices.ContainsFunc(e.incidents, func(i incident) bool {
		return i.hides && i.at.After(since.Add(-10*time.Second)) && i.at.Before(until)
	})
}

// removal is I4: the scheduler and executors remove no healthy pod, unless an operator has taken its agent away.
func (e *evidence) removal(h *podHistory, lives []life) []violation {
	d := h.since(deleting)
	if d == nil {
		return nil
	}
	if s := h.since(stopped); s != nil && s.at.Before(d.at) {
		return nil
	}
	made := h.events[0].at
	for _, i := range e.incidents {
		if i.pod == h.uid && i.at.Before(d.at) && d.at.Sub(i.at) < 5*time.Second {
			return nil
		}
	}
	for _, r := range e.requests {
		if r.name != h.name() || r.code >= 300 || r.verb != "delete" && r.sub != "eviction" {
			continue
		}
		if r.received.After(d.at) || r.answered.Add(lag).Before(d.at) || r.received.Before(made) {
			continue
		}
		if e.operatorsWill(lives, d.at) {
			return nil
		}
		return []violation{{"I4", h.uid, fmt.Sprintf("a healthy pod was deleted by %s at %s", r.user, clockTime(d.at))}}
	}
	return nil
}

// operatorsWill says whether an operator had taken the agent or the framework of one of these tasks away before a time.
func (e *evidence) operatorsWill(lives []life, before time.Time) bool {
	return slices.ContainsFunc(e.incidents, func(i incident) bool {
		return i.at.Before(before) && slices.ContainsFunc(lives, func(l life) bool {
			taken := i.agentID != "" && l.task.AgentID == i.agentID || i.framework != "" && l.task.FrameworkID == i.framework
			return taken && l.from.Before(i.at.Add(2*time.Second))
		})
	})
}

// early is I6: an executor ends a task no earlier than the pod's containers have stopped.
func (e *evidence) early(h *podHistory, l life) []violation {
	for _, t := range l.task.History {
		if !final(t.State) || t.Source != "SOURCE_EXECUTOR" {
			continue
		}
		said := t.Said // the master may have heard of it long after
		if said.IsZero() {
			said = t.At
		}
		// The pod as it was when the executor said so. A Binding that was stored later is the ghost of a task that had ended.
		i := slices.IndexFunc(h.events, func(e podEvent) bool { return e.at.After(said) })
		if i < 0 {
			i = len(h.events)
		}
		if i == 0 {
			return nil
		}
		then := h.events[i-1]
		if !bound(then) || stopped(then) || then.pod.Annotations[wellknown.TaskIDAnnotation] != l.task.ID {
			return nil
		}
		if s := h.since(stopped); s != nil && containersStopped(*s).Before(said.Add(slack)) {
			return nil
		}
		if d := then.pod.DeletionTimestamp; d != nil && said.After(d.Add(killMargin-time.Second)) {
			return nil // nobody has said what became of it
		}
		return []violation{{"I6", h.uid, fmt.Sprintf("task %s was %s by its executor at %s, while the pod's containers ran", l.task.ID, t.State, clockTime(said))}}
	}
	return nil
}

// containersStopped is when the last container of a pod stopped, by what its kubelet says, in whole seconds, or by when that was
// on record if it says nothing.
func containersStopped(e podEvent) time.Time {
	if e.gone && !allTerminated(e.pod) {
		return e.at.Add(-lag) // it was taken out of the store at once: nobody says more
	}
	var last time.Time
	for _, c := range e.pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(last) {
			last = t.FinishedAt.Time
		}
	}
	if last.IsZero() || last.After(e.at) || !allTerminated(e.pod) {
		return e.at
	}
	return last
}

func allTerminated(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil })
}

// need is what a pod holds, in thousandths of a cpu and of a MiB.
func need(pod *corev1.Pod) (cpu, memory int64) {
	const mi = 1 << 20
	for _, c := range pod.Spec.Containers {
		cpu += c.Resources.Requests.Cpu().MilliValue()
		memory += c.Resources.Requests.Memory().Value()
	}
	for _, c := range pod.Spec.InitContainers {
		cpu = max(cpu, c.Resources.Requests.Cpu().MilliValue())
		memory = max(memory, c.Resources.Requests.Memory().Value())
	}
	return max(cpu, 10), max((memory*1000+mi-1)/mi, 32000)
}

// amounts is the first half of I3: a task holds what its pod needs.
func (e *evidence) amounts(h *podHistory, l life) []violation {
	pod := h.events[0].pod
	cpu, memory := need(pod)
	var ports int64
	for _, r := range l.task.Resources.Ports {
		ports += int64(r.End-r.Begin) + 1
	}
	var wanted int64
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				wanted++
			}
		}
	}
	hasCPU, hasMemory := int64(math.Round(l.task.Resources.CPUs*1000)), int64(math.Round(l.task.Resources.Mem*1000))
	if hasCPU == 0 && hasMemory == 0 && !l.alive() {
		return nil // it had ended before the present master heard of it
	}
	if hasCPU == cpu && hasMemory == memory && ports == wanted {
		return nil
	}
	return []violation{{"I3", h.uid, fmt.Sprintf("task %s holds %dm cpu, %d thousandths of a MiB, %d ports; its pod needs %dm, %d, %d", l.task.ID, hasCPU, hasMemory, ports, cpu, memory, wanted)}}
}

// overcommitted is the other half of I3: what runs on a node never exceeds what its agent has, whether it has a task at
// that moment or not.
func (e *evidence) overcommitted() []violation {
	type step struct {
		at          time.Time
		uid         string
		cpu, memory int64
	}
	byNode := map[string][]step{}
	for _, h := range e.pods {
		b := h.since(bound)
		if b == nil || b.pod.Spec.SchedulerName != cluster.SchedulerName || stopped(*b) {
			continue
		}
		cpu, memory := need(b.pod)
		node := b.pod.Spec.NodeName
		byNode[node] = append(byNode[node], step{b.at, h.uid, cpu, memory})
		if s := h.since(stopped); s != nil {
			byNode[node] = append(byNode[node], step{s.at, h.uid, -cpu, -memory})
		}
	}
	var out []violation
	for _, node := range sortedKeys(byNode) {
		steps := byNode[node]
		slices.SortStableFunc(steps, func(a, b step) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.cpu, b.cpu)) })
		var cpu, memory int64
		for _, s := range steps {
			cpu, memory = cpu+s.cpu, memory+s.memory
			if cpu > e.size.cpu || memory > e.size.memory*1000 {
				out = append(out, violation{"I3", s.uid, fmt.Sprintf("at %s pods on %s need %dm cpu and %d thousandths of a MiB, more than its agent has", clockTime(s.at), node, cpu, memory)})
				break
			}
		}
	}
	return out
}

func clockTime(t time.Time) string { return t.Format("15:04:05.000") }
