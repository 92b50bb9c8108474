// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"slices"

	"github.com/gogo/protobuf/proto"
	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// runTask is RunTaskMessage or RunTaskGroupMessage.
type runTask struct {
	framework      string
	info           *mesos.FrameworkInfo
	tasks          []*mesos.TaskInfo
	executor       *mesos.ExecutorInfo // nil for command tasks
	launchExecutor bool
	group          bool
}

// killTask is KillTaskMessage.
type killTask struct {
	framework, task string
	policy          *mesos.KillPolicy
}

func (r *runTask) executorID() string {
	if r.executor != nil {
		return r.executor.ExecutorID.Value
	}
	return r.tasks[0].TaskID.Value // a command executor is named as its task
}

// run handles a launch.
func (a *agent) run(r runTask) {
	if a.state != nodeLeading {
		return // silently: the task stays STAGING at the master until the agent registers again
	}
	f := a.frameworks[r.framework]
	if f != nil && f.terminating {
		return
	}
	if f == nil {
		f = &agentFramework{id: r.framework, info: r.info, executors: map[string]*executor{}}
		a.frameworks[f.id] = f
	}
	f.info = r.info
	executorID := "" // named only in the updates of the executor id race
	drop := func(reason mesos.TaskStatus_Reason, text string) {
		for _, info := range r.tasks {
			status := a.madeStatus(info.TaskID.Value, executorID, f.lost(mesos.TASK_DROPPED), reason, text)
			a.forward(f, status, nil)
		}
		a.forgetIdle(f)
	}
	if a.draining != nil {
		drop(mesos.REASON_AGENT_DRAINING, "Task was received while agent was already draining")
		return
	}
	for _, info := range r.tasks {
		if _, ok := info.Limits["cpus"]; ok && !slices.Contains(a.opts.Isolation, "cgroups/cpu") {
			drop(mesos.REASON_GC_ERROR, "CPU limits can only be set on tasks launched in Mesos containers when the agent has loaded the 'cgroups/cpu' isolator")
			return // the executor stays charged at the master: so it does on a real agent
		}
		if _, ok := info.Limits["mem"]; ok && !slices.Contains(a.opts.Isolation, "cgroups/mem") {
			drop(mesos.REASON_GC_ERROR, "Memory limits can only be set on tasks launched in Mesos containers when the agent has loaded the 'cgroups/mem' isolator")
			return // the executor stays charged at the master: so it does on a real agent
		}
	}
	e := f.executors[r.executorID()]
	switch {
	case r.launchExecutor && e != nil:
		executorID = r.executorID()
		a.tellExited(f, executorID, -1, true)
		drop(mesos.REASON_EXECUTOR_TERMINATED, "Master wants to launch executor, but one already exists")
		return
	case !r.launchExecutor && e == nil:
		executorID = r.executorID()
		drop(mesos.REASON_EXECUTOR_TERMINATED, "No executor is expected to launch and there is none running")
		return
	case e != nil && e.state == executorTerminating:
		drop(mesos.REASON_EXECUTOR_TERMINATED, "Executor terminating")
		return
	case e != nil && e.state == executorTerminated:
		drop(mesos.REASON_EXECUTOR_TERMINATED, "Executor terminated")
		return
	}
	if len(r.tasks) == 0 {
		a.forgetIdle(f)
		return // an empty group: the master has charged the executor, the agent launches nothing
	}
	if e == nil {
		e = a.newExecutor(f, &r)
	}
	batch := queued{tasks: r.tasks, group: r.group}
	if e.state == executorRegistering {
		e.queue = append(e.queue, batch)
	} else {
		e.launch(batch)
	}
	if e.process == nil && e.state == executorRegistering && !e.started {
		a.start(e)
	}
}

// kill handles KILL.
func (a *agent) kill(k killTask) {
	f := a.frameworks[k.framework]
	if f == nil || f.terminating {
		return
	}
	e, batch := f.find(k.task)
	if e == nil {
		a.forward(f, a.madeStatus(k.task, "", f.lost(mesos.TASK_DROPPED), mesos.REASON_EXECUTOR_TERMINATED, "Cannot find executor"), nil)
		return
	}
	switch e.state {
	case executorRegistering:
		a.killQueued(f, e, batch)
	case executorRunning:
		if batch >= 0 {
			a.killQueued(f, e, batch)
			return
		}
		e.kill(k.task, k.policy)
	}
}

// killQueued ends a task that its executor has not been sent. If the executor has nothing else it is shut down.
func (a *agent) killQueued(f *agentFramework, e *executor, batch int) {
	if batch < 0 {
		return // launched before the agent was restarted, and the executor is not back yet
	}
	q := e.queue[batch]
	e.queue = append(e.queue[:batch:batch], e.queue[batch+1:]...)
	for _, info := range q.tasks {
		text := "Killed before delivery to the executor"
		if q.group {
			text = "A task within the task group was killed before delivery to the executor"
		}
		status := a.madeStatus(info.TaskID.Value, e.id, mesos.TASK_KILLED, mesos.REASON_TASK_KILLED_DURING_LAUNCH, text)
		a.forward(f, status, e)
	}
	if len(e.queue) == 0 && len(e.launched) == 0 && e.everLaunched == 0 && e.state == executorRunning {
		a.shutdown(e)
	}
}

// find looks for the executor of a task, and the index of the queued batch if it is still queued, else -1.
func (f *agentFramework) find(taskID string) (*executor, int) {
	for _, e := range f.executors {
		if _, ok := e.launched[taskID]; ok {
			return e, -1
		}
		if _, ok := e.terminated[taskID]; ok {
			return e, -1
		}
		for i, q := range e.queue {
			for _, info := range q.tasks {
				if info.TaskID.Value == taskID {
					return e, i
				}
			}
		}
	}
	return nil, -1
}

// madeStatus makes a status of the agent's own.
func (a *agent) madeStatus(taskID, executorID string, state mesos.TaskState, reason mesos.TaskStatus_Reason, text string) *mesos.TaskStatus {
	id := uuid.New()
	status := &mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: taskID}, State: state.Enum(), Source: mesos.SOURCE_AGENT.Enum(), Reason: reason.Enum(), Message: proto.String(text),
		AgentID: &mesos.AgentID{Value: a.id}, Timestamp: proto.Float64(seconds(a.c.now())), UUID: id[:],
	}
	if executorID != "" {
		status.ExecutorID = &mesos.ExecutorID{Value: executorID}
	}
	return status
}

// tellExited tells the master that an executor has ended.
func (a *agent) tellExited(f *agentFramework, executorID string, status int32, tell bool) {
	framework := f.id
	a.toMaster(func(m *master, v *agentView) { m.exitedExecutor(v, framework, executorID, status, tell) })
}

// forgetIdle drops a framework without executors and pending updates.
func (a *agent) forgetIdle(f *agentFramework) {
	if len(f.executors) > 0 {
		return
	}
	for key := range a.streams {
		if key.framework == f.id {
			return
		}
	}
	delete(a.frameworks, f.id)
}

// shutdownFramework ends all executors of a framework; nobody is told of its tasks any more.
func (a *agent) shutdownFramework(id string) {
	f := a.frameworks[id]
	if f == nil || f.terminating {
		return
	}
	f.terminating = true
	for key, s := range a.streams {
		if key.framework == id {
			s.stopRetry()
			delete(a.streams, key)
		}
	}
	for _, e := range f.sortedExecutors() {
		switch e.state {
		case executorRegistering, executorRunning:
			a.shutdown(e)
		case executorTerminated:
			delete(f.executors, e.id)
		}
	}
	if len(f.executors) == 0 {
		delete(a.frameworks, id)
	}
}

// shutdownExecutor handles SHUTDOWN of one executor.
func (a *agent) shutdownExecutor(framework, id string) {
	f := a.frameworks[framework]
	if f == nil || f.terminating {
		return
	}
	if e := f.executors[id]; e != nil && (e.state == executorRegistering || e.state == executorRunning) {
		a.shutdown(e)
	}
}

// shutdownAll is the agent's own end: every framework's executors are shut down.
func (a *agent) shutdownAll() {
	for _, f := range a.sortedFrameworks() {
		a.shutdownFramework(f.id)
	}
}
