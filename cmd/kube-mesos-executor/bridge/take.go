// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/agent"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/machine"
)

// take hands one event to the machine.
func (b *bridge) take(ctx context.Context, event any) {
	logger := klog.FromContext(ctx)
	now := time.Now()
	switch e := event.(type) {
	case wantSubscribe:
		b.waiting = append(b.waiting, e)
	case wantStatus:
		e.answer <- b.status(now)
	case connected:
		b.unknown = 0
		logger.V(2).Info("Connected to the agent", "stream", e.stream)
	case fromAgent:
		b.takeAgentEvent(ctx, now, e.event)
	case disconnected:
		b.takeDisconnected(ctx, now, e)
	case updateSent:
		b.counts.sends[sendTaken]++
		b.machine.Sent(now, e.update.TaskID, e.update.UUID)
	case updateFailed:
		b.takeUpdateFailed(ctx, now, e)
	case identified:
		b.takeIdentified(ctx, now, e)
	case podsReplaced:
		b.machine.PodsReplaced(now, e.pods)
	case podSeen:
		b.machine.PodSeen(now, e.pod)
	case podGone:
		b.machine.PodGone(now, e.uid)
	case podsSynced:
		logger.V(2).Info("View of the pods", "current", e.synced)
		b.machine.Synced(now, e.synced)
	case podDeleted:
		if e.err != nil {
			logger.Error(e.err, "Cannot delete pod, trying again", "task", e.request.TaskID)
		}
		b.counts.deletions[e.result]++
		b.machine.Deleted(now, e.request, e.result)
	case podFound:
		if e.err != nil {
			logger.Error(e.err, "Cannot look for pod, trying again", "task", e.request.TaskID)
		}
		b.machine.LookedUp(now, e.request.TaskID, e.pod, e.err == nil)
	case observed:
		for uid, state := range e.states {
			b.machine.Observed(e.at, uid, state)
		}
	default:
		logger.Error(nil, "BUG: unknown event", "type", fmt.Sprintf("%T", event))
	}
}

func (b *bridge) takeAgentEvent(ctx context.Context, now time.Time, e *executor.Event) {
	logger := klog.FromContext(ctx)
	switch e.Type {
	case executor.Event_SUBSCRIBED:
		b.meta.Killing = knowsKilling(e.GetSubscribed().GetFrameworkInfo())
		b.machine.Subscribed(b.meta.Killing)
		if e.Subscribed != nil {
			b.reporter.told(e.Subscribed.AgentInfo.Resources)
		}
		logger.Info("Subscribed", "away", now.Sub(b.awaySince).Round(time.Millisecond), "listedUpdates", b.listed)
		b.awaySince, b.lastError, b.ready = time.Time{}, "", true
		b.counts.subscriptions++
		b.sendUnlisted(now)
	case executor.Event_LAUNCH:
		if e.Launch != nil {
			b.launch(ctx, now, e.Launch.Task)
		}
	case executor.Event_LAUNCH_GROUP:
		// A task group has no meaning of its own here: each task stands for one pod.
		if e.LaunchGroup != nil {
			for _, task := range e.LaunchGroup.TaskGroup.Tasks {
				b.launch(ctx, now, task)
			}
		}
	case executor.Event_KILL:
		if e.Kill != nil {
			logger.Info("Kill", "task", e.Kill.TaskID.Value, "policy", e.Kill.KillPolicy)
			b.machine.Kill(now, e.Kill.TaskID.Value, grace(e.Kill.KillPolicy))
		}
	case executor.Event_ACKNOWLEDGED:
		if e.Acknowledged != nil {
			if b.machine.Acknowledge(e.Acknowledged.TaskID.Value, e.Acknowledged.UUID) {
				b.counts.acknowledged++
			}
		}
	case executor.Event_SHUTDOWN:
		b.shutdown(ctx, now, "the agent asked for it")
	case executor.Event_ERROR:
		logger.Error(nil, "The agent reports an error", "message", e.GetError().GetMessage())
	case executor.Event_MESSAGE, executor.Event_HEARTBEAT:
		logger.V(4).Info("Event without a meaning here", "type", e.Type.String())
	default:
		logger.Info("Event of an unknown type", "type", int32(e.Type))
	}
}

func (b *bridge) launch(ctx context.Context, now time.Time, task mesos.TaskInfo) {
	klog.FromContext(ctx).V(2).Info("Launch", "task", task.TaskID.Value, "name", task.Name)
	info, err := task.Marshal()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot keep the TaskInfo", "task", task.TaskID.Value)
	}
	b.machine.Launch(now, machine.Launch{
		TaskID: task.TaskID.Value, Info: info, Data: task.Data, Grace: grace(task.KillPolicy),
	})
}

func (b *bridge) shutdown(ctx context.Context, now time.Time, why string) {
	if !b.meta.Shutdown {
		klog.FromContext(ctx).Info("Shutting down: deleting the pods of all tasks", "why", why, "tasks", b.machine.Live())
	}
	b.meta.Shutdown = true
	b.subscription.leaving.Store(true)
	b.machine.Shutdown(now)
}

func (b *bridge) takeDisconnected(ctx context.Context, now time.Time, e disconnected) {
	logger := klog.FromContext(ctx)
	b.endStream()
	if b.awaySince.IsZero() {
		b.awaySince = now
	}
	for _, u := range b.machine.Disconnected(now) {
		b.counts.dropped++
		logger.Error(nil, "Dropping an update that the agent never acknowledged", "task", u.TaskID, "state", u.State.String())
	}
	if text := fmt.Sprint(e.err); text != b.lastError && ctx.Err() == nil {
		b.lastError = text
		logger.Info("Not subscribed, trying again", "reason", text)
	}
	if !agent.Unknown(e.err) {
		b.unknown = 0
		return
	}
	if b.unknown++; b.unknown == 1 {
		b.unknownFrom = now
	}
	if b.unknown < unknownTimes || now.Sub(b.unknownFrom) < unknownFor || b.asking || b.meta.Orphaned {
		return
	}
	b.asking = true
	b.workers.Go(func() {
		id, err := b.client.Identity(ctx)
		b.inbox.put(identified{id, err})
	})
}

// takeIdentified decides what it means that the agent does not know the executor. If it is another agent than the one
// that started the executor (its work directory was lost), the framework lives on and looks after the pods: they are
// left alone. Otherwise the framework, or the executor, was removed: the pods go.
func (b *bridge) takeIdentified(ctx context.Context, now time.Time, e identified) {
	b.asking = false
	if b.unknown == 0 {
		return
	}
	if e.err == nil && b.env.AgentID != "" && e.id != b.env.AgentID {
		klog.FromContext(ctx).Info("Another Mesos agent serves this host now, leaving the pods to the scheduler", "was", b.env.AgentID, "is", e.id, "tasks", b.machine.Live())
		b.endWith(ExitAgentGone)
		return
	}
	b.meta.Orphaned = true
	b.shutdown(ctx, now, b.lastError)
}

func (b *bridge) takeUpdateFailed(ctx context.Context, now time.Time, e updateFailed) {
	logger := klog.FromContext(ctx)
	logger.Error(e.err, "The agent did not take an update", "task", e.update.TaskID, "state", e.update.State.String())
	if agent.Invalid(e.err) {
		b.counts.sends[sendInvalid]++
		// It is not going to take it another time either. It counts as sent, so that strikes end it.
		b.machine.Sent(now, e.update.TaskID, e.update.UUID)
		return
	}
	b.counts.sends[sendFailed]++
	if e.stream == b.stream && b.ready {
		// The next SUBSCRIBE lists it.
		b.endStream()
	}
}

func knowsKilling(info mesos.FrameworkInfo) bool {
	for _, c := range info.Capabilities {
		if c.Type == mesos.FrameworkInfo_Capability_TASK_KILLING_STATE {
			return true
		}
	}
	return false
}

// grace is the grace of a kill policy; nil if there is none.
func grace(p *mesos.KillPolicy) *time.Duration {
	if p == nil || p.GracePeriod == nil {
		return nil
	}
	return ptr(time.Duration(max(0, p.GracePeriod.Nanoseconds)))
}

// decodeTask reads a TaskInfo of the journal.
func decodeTask(raw []byte) (task mesos.TaskInfo, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("decode TaskInfo: %v", r)
		}
	}()
	err = task.Unmarshal(raw)
	return task, err
}
