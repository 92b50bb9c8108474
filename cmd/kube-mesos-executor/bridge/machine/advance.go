// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// repeatDelete is how long an accepted deletion may stay without effect on the pod's view before it is asked for again.
const repeatDelete = 30 * time.Second

// advance brings what was reported and asked for in line with what is known of t.
func (m *Machine) advance(t *Task, now time.Time) {
	switch {
	case t.Ended():
		m.mind(t, now)
		return
	case t.Problem != "":
		m.end(t, now, mesos.TASK_FAILED, t.Problem)
		return
	}
	if !t.Reported {
		m.report(t, now, mesos.TASK_STARTING, "")
	}
	if t.Kill != nil {
		if holder := m.holder(t); holder != "" {
			m.end(t, now, mesos.TASK_KILLED, "the pod stays: it is held by task "+holder)
			return
		}
	}
	if t.Pod == nil {
		m.await(t, now)
		return
	}
	if t.Pod.Started && t.State == mesos.TASK_STARTING {
		m.report(t, now, mesos.TASK_RUNNING, "")
	}
	m.reportKilling(t, now)
	if confirmed, stopped := m.stopped(t, now); stopped {
		state, message := t.verdict()
		if !confirmed {
			message = fmt.Sprintf("%s; neither kubelet nor cgroups confirmed that its containers have stopped within its grace and %v",
				message, m.cfg.KillMargin)
			m.warn(t, ReasonReleased, "The Mesos task was ended although nobody confirmed that the pod's containers have stopped: "+message)
		}
		m.end(t, now, state, message)
		m.mind(t, now)
		return
	}
	if t.Kill != nil && t.OwnEnd == "" {
		m.ensureDeleted(t, now, t.Kill.Grace)
	}
	m.ensureForced(t, now)
}

// await handles a task whose pod was never seen on this node.
func (m *Machine) await(t *Task, now time.Time) {
	if t.Kill != nil {
		switch {
		case t.lookup.absent || t.Ref.UID == "":
			m.end(t, now, mesos.TASK_KILLED, fmt.Sprintf("the pod was not bound to node %s", m.cfg.Node))
		case m.synced:
			m.lookFor(t, now)
		default:
			m.reportKilling(t, now)
		}
		return
	}
	if !m.synced {
		return
	}
	waited := m.syncedFor(now) - t.waitFrom
	if waited < m.cfg.BindTimeout {
		m.wake(now.Add(m.cfg.BindTimeout - waited))
		return
	}
	m.end(t, now, mesos.TASK_FAILED, fmt.Sprintf("pod %s/%s (UID %s) was not bound to node %s within %v",
		t.Ref.Namespace, t.Ref.Name, t.Ref.UID, m.cfg.Node, m.cfg.BindTimeout))
}

// lookFor asks whether the pod of a killed task is bound to this node. Its Binding may just have been stored, and then
// containers start although the view of the pods does not have it yet. One that is stored later is a ghost.
func (m *Machine) lookFor(t *Task, now time.Time) {
	switch l := &t.lookup; {
	case l.inFlight:
	case now.Before(l.next):
		m.wake(l.next)
	default:
		l.inFlight = true
		m.out.Lookups = append(m.out.Lookups, Lookup{TaskID: t.ID, Namespace: t.Ref.Namespace, Name: t.Ref.Name, UID: t.Ref.UID})
	}
}

// stopped says whether the pod's containers have stopped, and whether somebody who can know said so.
func (m *Machine) stopped(t *Task, now time.Time) (confirmed, stopped bool) {
	p, gone := t.Pod, !t.GoneAt.IsZero()
	said := p.final() || p.Deleting && p.Stopped // the kubelet's word, through the API server
	switch t.cgroup.state {
	case CgroupInvisible:
		if said || gone {
			return true, true
		}
	case CgroupEmpty:
		// A cgroup that is not there proves nothing while the kubelet may still be about to make it.
		if said || t.Populated && (gone || p.Deleting) {
			return true, true
		}
		if gone {
			if t.GoneAt.After(now) { // the clock was set back while the bridge was down
				t.GoneAt = now
			}
			settled := t.GoneAt.Add(m.cfg.Settle)
			if !t.cgroup.at.Before(settled) {
				return true, true
			}
			m.wake(settled)
		}
	default:
		return false, false
	}
	if t.StopBy.IsZero() {
		return false, false
	}
	if now.Before(t.StopBy) {
		m.wake(t.StopBy)
		return false, false
	}
	return false, true
}

// verdict is the final state of a task whose pod's containers have stopped.
func (t *Task) verdict() (mesos.TaskState, string) {
	switch {
	case t.OwnEnd == corev1.PodSucceeded:
		return mesos.TASK_FINISHED, ""
	case t.OwnEnd == corev1.PodFailed:
		return mesos.TASK_FAILED, t.Pod.Message
	case t.Kill != nil:
		return mesos.TASK_KILLED, "the pod was killed"
	default:
		return mesos.TASK_KILLED, "the pod was deleted"
	}
}

// holder returns the id of a newer task that holds t's pod: one of this executor, or one that the pod's annotation
// names. The pod's resources are accounted for by that task, so that ending t must not end the pod. A forged
// annotation gains little: the scheduler sees a bound pod without a live task and holds or removes it.
func (m *Machine) holder(t *Task) string {
	for _, o := range m.byUID[t.Ref.UID] {
		if o.Order > t.Order && !o.Ended() && o.Problem == "" {
			return o.ID
		}
	}
	if t.Pod == nil {
		return ""
	}
	uid, attempt, ok := taskinfo.ParseTaskID(t.Pod.TaskID)
	_, own, ownOK := taskinfo.ParseTaskID(t.ID)
	if ok && ownOK && string(uid) == t.Ref.UID && attempt > own {
		return t.Pod.TaskID
	}
	return ""
}

// ensureDeleted asks for the deletion of t's pod until its view shows one with at most the given grace.
func (m *Machine) ensureDeleted(t *Task, now time.Time, grace int64) {
	p, del := t.Pod, &t.deletion
	if del.inFlight || !t.GoneAt.IsZero() || p.final() || p.Deleting && p.DeletionGrace <= grace {
		return
	}
	if !del.askedAt.IsZero() && del.asked <= grace {
		if again := del.askedAt.Add(repeatDelete); now.Before(again) {
			m.wake(again)
			return
		}
	}
	m.deletePod(t, now, grace)
}

// ensureForced removes the object of a pod that stays long after the end of its grace, if that is wanted.
func (m *Machine) ensureForced(t *Task, now time.Time) {
	if m.cfg.ForceDeleteAfter <= 0 || t.Pod == nil || !t.Pod.Deleting || t.StopBy.IsZero() || !t.GoneAt.IsZero() || t.deletion.inFlight {
		return
	}
	due := t.StopBy.Add(m.cfg.ForceDeleteAfter - m.cfg.KillMargin)
	if again := t.deletion.forcedAt.Add(repeatDelete); !t.deletion.forcedAt.IsZero() && again.After(due) {
		due = again
	}
	if now.Before(due) {
		m.wake(due)
		return
	}
	t.deletion.forcedAt = now
	m.deletePod(t, now, 0)
}

func (m *Machine) deletePod(t *Task, now time.Time, grace int64) {
	del := &t.deletion
	if now.Before(del.next) {
		m.wake(del.next)
		return
	}
	del.inFlight = true
	m.out.Deletes = append(m.out.Deletes, Delete{
		TaskID: t.ID, Namespace: t.Pod.Namespace, Name: t.Pod.Name, UID: t.Pod.UID, Grace: grace,
	})
}

// mind looks after what an ended task left behind: a pod that was bound for it after its end (a ghost: the scheduler's
// Binding was stored late), and an object that is to be removed by force. A ghost is known by the annotation that the
// Binding carries: a pod bound by anybody else, or for a newer task, is left alone.
func (m *Machine) mind(t *Task, now time.Time) {
	if t.Pod == nil || !t.GoneAt.IsZero() {
		delete(m.active, t.ID)
		return
	}
	switch {
	case t.Unseen && t.Pod.TaskID == t.ID && !t.Pod.final() && m.holder(t) == "":
		m.ensureDeleted(t, now, max(1, t.Pod.SpecGrace))
		m.ensureForced(t, now)
	case m.cfg.ForceDeleteAfter > 0 && t.Pod.Deleting:
		m.ensureForced(t, now)
	default:
		delete(m.active, t.ID)
	}
}

func (m *Machine) reportKilling(t *Task, now time.Time) {
	if t.Kill != nil && m.killing && t.State != mesos.TASK_KILLING {
		m.report(t, now, mesos.TASK_KILLING, "")
	}
}

func (m *Machine) end(t *Task, now time.Time, state mesos.TaskState, message string) {
	t.Unseen = t.Pod == nil && t.Problem == ""
	t.EndedAt = now
	m.report(t, now, state, message)
	if t.Pod == nil {
		delete(m.active, t.ID)
	}
}

func (m *Machine) report(t *Task, now time.Time, state mesos.TaskState, message string) {
	if !Sendable(state) {
		panic(fmt.Sprintf("BUG: an executor must not send %v", state))
	}
	m.seq++
	u := &Update{
		Seq: m.seq, UUID: m.cfg.NewUUID(), TaskID: t.ID, State: state, Message: clip(message),
		Timestamp: float64(now.UnixMicro()) / 1e6,
	}
	t.Reported, t.State = true, state
	t.Pending = append(t.Pending, u)
	m.out.Updates = append(m.out.Updates, u)
	m.touch(t)
}

func (m *Machine) warn(t *Task, reason, message string) {
	m.out.Warnings = append(m.out.Warnings, Warning{
		Namespace: t.Pod.Namespace, Name: t.Pod.Name, UID: t.Pod.UID, Reason: reason, Message: clip(message),
	})
}
