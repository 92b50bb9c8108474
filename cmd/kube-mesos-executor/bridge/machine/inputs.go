// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// Launch is a LAUNCH event.
type Launch struct {
	// TaskID is the task's id.
	TaskID string
	// Info is the TaskInfo in protobuf.
	Info []byte
	// Data is TaskInfo.data.
	Data []byte
	// Grace is the grace of TaskInfo.kill_policy; nil if there is none.
	Grace *time.Duration
}

// Launch takes a LAUNCH. One for a task that lives, or whose end the agent does not know yet, is a repetition.
func (m *Machine) Launch(now time.Time, l Launch) {
	if old := m.tasks[l.TaskID]; old != nil {
		if !old.Ended() || len(old.Pending) > 0 {
			return
		}
		m.remove(old)
	}
	m.order++
	t := &Task{ID: l.TaskID, Order: m.order, Info: l.Info, waitFrom: m.syncedFor(now)}
	ref, err := taskinfo.ParseReference(l.Data)
	switch {
	case err != nil:
		t.Problem = clip(err.Error())
	case ref.Node != m.cfg.Node:
		t.Problem = clip(fmt.Sprintf("the task is for node %s, this executor serves node %s", ref.Node, m.cfg.Node))
	}
	t.Ref = ref
	if l.Grace != nil {
		g := wholeSeconds(*l.Grace)
		t.LaunchGrace = &g
	}
	m.add(t)
	m.touch(t)
	if pod, ok := m.pods[t.Ref.UID]; ok && t.Problem == "" {
		m.see(now, t, pod)
	}
	if m.shutdown {
		m.kill(now, t, m.shutdownGrace())
	}
}

// syncedFor is how long the view of the pods has been current in total.
func (m *Machine) syncedFor(now time.Time) time.Duration {
	if m.synced && !m.last.IsZero() && now.After(m.last) {
		return m.seenFor + now.Sub(m.last)
	}
	return m.seenFor
}

// Kill takes a KILL; grace is that of its kill_policy, or nil. A KILL for a task without a record (the sandbox was
// lost) still ends the pod that the task's id names.
func (m *Machine) Kill(now time.Time, taskID string, grace *time.Duration) {
	t := m.tasks[taskID]
	if t == nil {
		id, _, _ := taskinfo.ParseTaskID(taskID)
		uid := string(id)
		m.order++
		t = &Task{ID: taskID, Order: m.order, waitFrom: m.syncedFor(now)}
		t.Ref.UID, t.Ref.Node, t.Ref.GraceSeconds = uid, m.cfg.Node, defaultGrace
		if pod, ok := m.pods[uid]; ok {
			t.Ref.Namespace, t.Ref.Name, t.Ref.GraceSeconds = pod.Namespace, pod.Name, pod.SpecGrace
			m.add(t)
			m.see(now, t, pod)
		} else {
			m.add(t)
		}
	}
	m.kill(now, t, grace)
}

func (m *Machine) kill(now time.Time, t *Task, grace *time.Duration) {
	if t.Ended() {
		return
	}
	// A drain's cap must win over the pod's grace, and a task's own policy over what the pod says.
	seconds := max(1, t.Ref.GraceSeconds)
	if t.LaunchGrace != nil {
		seconds = *t.LaunchGrace
	}
	if grace != nil {
		seconds = wholeSeconds(*grace)
	}
	if t.Kill == nil {
		t.Kill = &Kill{At: now, Grace: seconds}
	} else {
		t.Kill.Grace = min(t.Kill.Grace, seconds)
	}
	m.touch(t)
}

// Shutdown takes a SHUTDOWN, or the news that the framework is gone: every task is to end, each with its own grace but
// within what the agent grants.
func (m *Machine) Shutdown(now time.Time) {
	m.shutdown = true
	for _, t := range m.sortedActive() {
		m.kill(now, t, nil)
		if limit := m.shutdownGrace(); limit != nil {
			m.kill(now, t, limit)
		}
	}
}

// ShuttingDown says that Shutdown was called.
func (m *Machine) ShuttingDown() bool { return m.shutdown }

func (m *Machine) shutdownGrace() *time.Duration {
	if m.cfg.ShutdownGrace <= 0 {
		return nil
	}
	return &m.cfg.ShutdownGrace
}

// Subscribed says whether the framework knows TASK_KILLING.
func (m *Machine) Subscribed(killing bool) { m.killing = killing }

// Unacknowledged returns what a SUBSCRIBE has to list: the TaskInfos of tasks of which no update was acknowledged, and
// all updates that were not, in order.
func (m *Machine) Unacknowledged() (tasks [][]byte, updates []*Update) {
	for _, t := range m.Tasks() {
		if t.Info != nil {
			tasks = append(tasks, t.Info)
		}
		updates = append(updates, t.Pending...)
	}
	slices.SortFunc(updates, func(a, b *Update) int { return cmp.Compare(a.Seq, b.Seq) })
	return tasks, updates
}

// Sent notes that the agent got an update.
func (m *Machine) Sent(now time.Time, taskID string, uuid []byte) {
	t := m.tasks[taskID]
	if t == nil {
		return
	}
	for _, u := range t.Pending {
		if u.sentAt.IsZero() && bytes.Equal(u.UUID, uuid) {
			u.sentAt = now
		}
	}
}

// Disconnected notes that the connection to the agent ended. Updates that the agent had for long enough and did not
// acknowledge get a strike, and are dropped at the last one.
func (m *Machine) Disconnected(now time.Time) (dropped []*Update) {
	for _, t := range m.tasks {
		kept := t.Pending[:0]
		for _, u := range t.Pending {
			if !u.sentAt.IsZero() && now.Sub(u.sentAt) >= strikeAfter {
				u.Strikes++
				m.touch(t)
			}
			u.sentAt = time.Time{}
			if u.Strikes >= maxStrikes {
				dropped = append(dropped, u)
				continue
			}
			kept = append(kept, u)
		}
		t.Pending = kept
	}
	slices.SortFunc(dropped, func(a, b *Update) int { return cmp.Compare(a.Seq, b.Seq) })
	return dropped
}

// Acknowledge takes an ACKNOWLEDGED, and says whether it was waited for.
func (m *Machine) Acknowledge(taskID string, uuid []byte) bool {
	t := m.tasks[taskID]
	if t == nil {
		return false
	}
	for i, u := range t.Pending {
		if bytes.Equal(u.UUID, uuid) {
			t.Pending = slices.Delete(t.Pending, i, i+1)
			t.Info = nil
			m.touch(t)
			return true
		}
	}
	return false
}

// Synced says whether the view of the pods is current from now on.
func (m *Machine) Synced(now time.Time, synced bool) {
	m.seenFor = m.syncedFor(now)
	m.last = now
	if synced && !m.synced {
		// What failed while the API server was away is worth another try at once.
		for _, t := range m.active {
			t.deletion.next, t.lookup.next = time.Time{}, time.Time{}
		}
	}
	m.synced = synced
}

// PodsReplaced takes the complete list of the pods of this node.
func (m *Machine) PodsReplaced(now time.Time, pods []Pod) {
	fresh := make(map[string]Pod, len(pods))
	for _, p := range pods {
		fresh[p.UID] = p
	}
	for uid := range m.pods {
		if _, ok := fresh[uid]; !ok {
			m.PodGone(now, uid)
		}
	}
	// After a restart a task may know of a pod that went while nobody looked.
	for _, t := range m.active {
		if _, ok := fresh[t.Ref.UID]; !ok && t.Pod != nil {
			m.lose(now, t)
		}
	}
	for _, p := range pods {
		m.PodSeen(now, p)
	}
}

// PodSeen takes a new view of a pod of this node.
func (m *Machine) PodSeen(now time.Time, p Pod) {
	m.pods[p.UID] = p
	for _, t := range m.byUID[p.UID] {
		m.see(now, t, p)
	}
}

func (m *Machine) see(now time.Time, t *Task, p Pod) {
	if t.Problem != "" || t.Ended() && !t.Unseen && m.cfg.ForceDeleteAfter <= 0 {
		return
	}
	if t.Pod != nil && *t.Pod == p && t.GoneAt.IsZero() && (!p.Deleting || !t.StopBy.IsZero()) {
		return
	}
	t.Pod, t.GoneAt = &p, time.Time{}
	t.cgroup = observation{}
	if p.Deleting {
		by := now.Add(time.Duration(p.DeletionGrace)*time.Second + m.cfg.KillMargin)
		if t.StopBy.IsZero() || by.Before(t.StopBy) {
			t.StopBy = by
		}
	}
	if p.final() && t.OwnEnd == "" && t.Kill == nil && (!p.Deleting || p.FinishedFirst) {
		t.OwnEnd = p.Phase
	}
	m.active[t.ID] = t
	m.touch(t)
}

// PodGone takes the news that a pod's object is gone.
func (m *Machine) PodGone(now time.Time, uid string) {
	delete(m.pods, uid)
	for _, t := range m.byUID[uid] {
		m.lose(now, t)
	}
}

func (m *Machine) lose(now time.Time, t *Task) {
	if t.Pod == nil || !t.GoneAt.IsZero() {
		return
	}
	t.GoneAt = now
	t.cgroup = observation{}
	m.active[t.ID] = t
	m.touch(t)
}

// Observed takes what the cgroups said of a pod at the given time.
func (m *Machine) Observed(at time.Time, uid string, state Cgroup) {
	for _, t := range m.byUID[uid] {
		if t.Ended() {
			continue
		}
		t.cgroup = observation{state: state, at: at}
		if state == CgroupPopulated && !t.Populated {
			t.Populated = true
			m.touch(t)
		}
	}
}

// Deleted takes the result of a Delete.
func (m *Machine) Deleted(now time.Time, d Delete, result DeleteResult) {
	t := m.tasks[d.TaskID]
	if t == nil {
		return
	}
	del := &t.deletion
	del.inFlight = false
	switch result {
	case DeleteAccepted:
		del.failures, del.asked, del.askedAt = 0, d.Grace, now
	case DeleteGone:
		del.failures = 0
		m.lose(now, t)
	default:
		del.next = now.Add(backoff(del.failures))
		del.failures++
	}
}

// LookedUp takes the answer to a Lookup: the pod if it is bound to this node, nil if it is not; !ok if nobody knows.
func (m *Machine) LookedUp(now time.Time, taskID string, pod *Pod, ok bool) {
	t := m.tasks[taskID]
	if t == nil {
		return
	}
	t.lookup.inFlight = false
	switch {
	case !ok:
		t.lookup.next = now.Add(backoff(t.lookup.failures))
		t.lookup.failures++
	case pod == nil:
		t.lookup.absent = true
	default:
		m.PodSeen(now, *pod)
	}
}

// backoff is the time to the next attempt after the given number of earlier failures.
func backoff(failures int) time.Duration {
	const first, most = 200 * time.Millisecond, 10 * time.Second
	return min(most, first<<min(failures, 6))
}
