// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"os"
	"slices"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// recover is what a restarted agent process does with what it finds on disk. Executors of frameworks that do not
// checkpoint are unknown to it and are destroyed. Those that checkpoint may subscribe again for a time, and only when
// it is over does the agent register with the master.
func (a *agent) recover(register time.Duration) {
	waiting := false
	for _, f := range a.sortedFrameworks() {
		if !f.info.GetCheckpoint() {
			a.forgetFramework(f)
			continue
		}
		for _, e := range f.sortedExecutors() {
			switch {
			case e.state == executorTerminated:
			case e.exited:
				// The end is not reported as FAILURE: the master is not there to be told when it is found out.
				e.state, waiting = executorRegistering, true
				a.after(0, func() { a.terminated(e, e.exitCode) })
			default:
				waiting = true
				if e.synthetic == nil && !e.builtin {
					e.recovered()
				}
			}
		}
	}
	if !waiting {
		a.after(register, a.register)
		return
	}
	timeout := a.c.timing.ExecutorReregister
	if a.opts.ExecutorReregister > 0 {
		timeout = a.opts.ExecutorReregister
	}
	a.after(timeout, func() {
		for _, f := range a.sortedFrameworks() {
			for _, e := range f.sortedExecutors() {
				if e.awaitBack && e.state == executorRegistering {
					a.doom(e, doom{f.lost(mesos.TASK_GONE), mesos.REASON_EXECUTOR_REREGISTRATION_TIMEOUT,
						"Executor did not reregister within " + durationText(timeout)}, a.c.timing.ContainerDestroy)
				}
			}
		}
		a.after(register, a.register)
	})
}

// recovered is an executor as a new agent process finds it: it must subscribe again, whatever it was about to do. A
// task that was queued for it counts as sent, so it is dropped if the executor does not know it.
func (e *executor) recovered() {
	e.state, e.awaitBack = executorRegistering, true
	queue := e.queue
	e.queue = nil
	for _, q := range queue {
		for _, info := range q.tasks {
			e.everLaunched++
			e.launched[info.TaskID.Value] = &agentTask{info: info, state: mesos.TASK_STAGING, serial: e.everLaunched}
		}
	}
}

// forgetFramework drops a framework that the agent keeps nothing of on disk.
func (a *agent) forgetFramework(f *agentFramework) {
	for _, e := range f.executors {
		if e.process != nil {
			e.process.Kill()
		}
		e.stopTimer()
		e.state = executorTerminated
		if e.runner != nil {
			e.runner.end()
		}
	}
	for key, s := range a.streams {
		if key.framework == f.id {
			s.stopRetry()
			delete(a.streams, key)
		}
	}
	delete(a.frameworks, f.id)
}

// wipe forgets everything, as an agent with an empty work folder has.
func (a *agent) wipe() {
	a.c.records.lose(a.c, a.id, func(streamKey) bool { return false })
	for _, f := range a.sortedFrameworks() {
		a.forgetFramework(f)
	}
	a.id = ""
	a.draining = nil
}

// An agentTaskReport is what a re-registering agent tells of a task.
type agentTaskReport struct {
	framework   *agentFramework
	executor    *executor
	info        *mesos.TaskInfo
	state       mesos.TaskState
	statusState *mesos.TaskState
	statusUUID  []byte
	statuses    []*mesos.TaskStatus
}

// report lists all tasks that the agent still answers for.
func (a *agent) report() []agentTaskReport {
	var out []agentTaskReport
	for _, f := range a.sortedFrameworks() {
		for _, e := range f.sortedExecutors() {
			add := func(info *mesos.TaskInfo, state mesos.TaskState, last *mesos.TaskStatus) {
				r := agentTaskReport{framework: f, executor: e, info: info, state: state}
				if last != nil {
					r.statuses, r.statusState, r.statusUUID = []*mesos.TaskStatus{last}, last.State, last.UUID
				}
				if s := a.streams[streamKey{f.id, info.TaskID.Value}]; s != nil && len(s.pending) > 0 {
					r.statusState, r.statusUUID = s.pending[0].State, s.pending[0].UUID
				}
				out = append(out, r)
			}
			for _, t := range e.sortedLaunched() {
				add(t.info, t.state, t.last)
			}
			for _, id := range sortedKeys(e.terminated) {
				add(e.terminated[id].info, e.terminated[id].state, e.terminated[id].last)
			}
			for _, q := range e.queue {
				for _, info := range q.tasks {
					add(info, mesos.TASK_STAGING, nil)
				}
			}
		}
	}
	return out
}

// knows says whether the agent or the leading master has a task that was launched here.
func (a *agent) knows(key streamKey) bool {
	if a.streams[key] != nil {
		return true
	}
	if f := a.frameworks[key.framework]; f != nil {
		if e, _ := f.find(key.task); e != nil {
			return true
		}
	}
	f := a.c.m.frameworks[key.framework]
	return f != nil && (f.tasks[key.task] != nil || slices.ContainsFunc(f.unreachable, func(t *task) bool { return t.id() == key.task }))
}

// reconcileTask answers the master's question for a task that it believes in and the agent may not know.
func (a *agent) reconcileTask(framework, taskID string, info *mesos.FrameworkInfo) {
	f := a.frameworks[framework]
	if f == nil {
		f = &agentFramework{id: framework, info: info, executors: map[string]*executor{}}
		a.frameworks[framework] = f
	}
	if e, _ := f.find(taskID); e != nil {
		return
	}
	if s := a.streams[streamKey{framework, taskID}]; s != nil && len(s.pending) > 0 {
		return
	}
	status := a.madeStatus(taskID, "", f.lost(mesos.TASK_DROPPED), mesos.REASON_RECONCILIATION, "Reconciliation: task unknown to the agent")
	a.forward(f, status, nil)
}

// containerStatus is what the agent adds to the updates of its executors.
func (e *executor) containerStatus(taskID string) *mesos.ContainerStatus {
	ip, _ := splitEndpoint(e.a.endpoint)
	status := &mesos.ContainerStatus{ContainerID: e.containerID(taskID),
		NetworkInfos: []mesos.NetworkInfo{{IPAddresses: []mesos.NetworkInfo_IPAddress{{Protocol: mesos.IPv4.Enum(), IPAddress: proto.String(ip)}}}}}
	if e.process != nil {
		pid := uint32(e.process.Pid())
		status.ExecutorPID = &pid
	} else if e.builtin {
		pid := uint32(os.Getpid()) // the executor is played here
		status.ExecutorPID = &pid
	}
	return status
}

// containerID is the executor's container; tasks of a default executor have containers of their own in it.
func (e *executor) containerID(taskID string) *mesos.ContainerID {
	id := &mesos.ContainerID{Value: e.container}
	if !e.builtin || e.command {
		return id
	}
	return &mesos.ContainerID{Value: uuid.NewSHA1(uuid.MustParse(e.container), []byte(taskID)).String(), Parent: id}
}
