// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesosexec "github.com/mesos/mesos-go/api/v1/lib/executor"
)

type executorState int

const (
	executorRegistering executorState = iota
	executorRunning
	executorTerminating
	executorTerminated
)

func (s executorState) String() string {
	return [...]string{"REGISTERING", "RUNNING", "TERMINATING", "TERMINATED"}[s]
}

// An executor is the agent's record of an executor.
type executor struct {
	a         *agent
	framework *agentFramework
	id        string
	serial    uint64
	info      *mesos.ExecutorInfo
	container string
	directory string
	state     executorState
	builtin   bool // a command or default executor, played by the agent itself
	command   bool // of one command task
	synthetic *Script

	queue        []queued
	launched     map[string]*agentTask // not ended
	terminated   map[string]*agentTask // ended, end not acknowledged
	everLaunched int

	conn      *eventStream
	started   bool
	process   Process
	exited    bool // the process has ended while nobody looked
	exitCode  int
	doom      *doom
	stop      func() // registration, re-registration or shutdown timer
	runner    *builtinRunner
	awaitBack bool // the agent was restarted and the executor is not back yet
}

// doom is why the agent ends an executor itself.
type doom struct {
	state  mesos.TaskState
	reason mesos.TaskStatus_Reason
	text   string
}

// queued are tasks waiting for their executor to subscribe.
type queued struct {
	tasks []*mesos.TaskInfo
	group bool
}

// An agentTask is a task at its executor.
type agentTask struct {
	info   *mesos.TaskInfo
	state  mesos.TaskState
	last   *mesos.TaskStatus
	serial int
}

func (a *agent) newExecutor(f *agentFramework, r *runTask) *executor {
	info := r.executor
	e := &executor{a: a, framework: f, id: r.executorID(), serial: a.c.records.nextSerial(), launched: map[string]*agentTask{}, terminated: map[string]*agentTask{},
		container: uuid.NewString(), synthetic: a.synthetic}
	if info == nil {
		e.command = true
		info = &mesos.ExecutorInfo{Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: e.id}, FrameworkID: &mesos.FrameworkID{Value: f.id}, Command: r.tasks[0].Command}
	}
	e.info = info
	e.builtin = e.synthetic == nil && (e.command || info.Type == mesos.ExecutorInfo_DEFAULT)
	f.executors[e.id] = e
	if e.synthetic == nil {
		e.directory = filepath.Join(a.workDir, "slaves", a.id, "frameworks", f.id, "executors", safeName(e.id), "runs", e.container)
	}
	return e
}

// safeName keeps an executor id from being a path.
func safeName(id string) string {
	return filepath.Base("/" + filepath.Clean("/"+id))
}

// start starts the executor's process, on a goroutine of its own.
func (a *agent) start(e *executor) {
	e.started = true
	switch {
	case e.synthetic != nil:
		e.subscribeSynthetic()
		return
	case e.builtin:
		e.runner = newBuiltinRunner(e)
		return
	}
	e.stop = a.after(a.c.timing.ExecutorRegistration, func() {
		e.stop = nil
		if e.state == executorRegistering {
			a.doom(e, doom{mesos.TASK_FAILED, mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT,
				"Executor did not register within " + durationText(a.c.timing.ExecutorRegistration)}, 0)
		}
	})
	if len(e.info.Command.GetURIs()) > 0 {
		if !fetchable(e.info.Command.URIs) {
			a.launchFailed(e, "Failed to fetch all URIs for container '"+e.container+"': exited with status 1")
			return
		}
	}
	if err := os.MkdirAll(e.directory, 0o755); err != nil {
		a.launchFailed(e, err.Error())
		return
	}
	l := Launch{Agent: a.name, FrameworkID: e.framework.id, ExecutorID: e.id, ContainerID: e.container, Info: *e.info, Directory: e.directory, Environment: a.environment(e)}
	a.c.busy.enter()
	a.c.wg.Add(1)
	go func() {
		defer a.c.wg.Done()
		process, err := a.launcher.Launch(a.c.ctx, l)
		alive := a.c.do(func() {
			switch {
			case err != nil:
				a.launchFailed(e, err.Error())
			case e.state == executorTerminated:
				process.Kill()
			default:
				e.process = process
				if e.doom != nil {
					process.Kill()
				}
			}
		})
		a.c.busy.leave()
		if err != nil {
			return
		}
		if !alive {
			process.Kill()
		}
		status := process.Wait()
		a.c.do(func() { a.processEnded(e, status) })
		if p, ok := process.(interface{ reaped() }); ok {
			p.reaped()
		}
	}()
}

// fetchable says whether a fetcher would find all files. Only local files are looked at.
func fetchable(uris []mesos.CommandInfo_URI) bool {
	for i := range uris {
		path := uris[i].Value
		if len(path) > 7 && path[:7] == "file://" {
			path = path[7:]
		}
		if filepath.IsAbs(path) {
			if _, err := os.Stat(path); err != nil {
				return false
			}
		}
	}
	return true
}

func (a *agent) launchFailed(e *executor, text string) {
	e.doom = &doom{mesos.TASK_FAILED, mesos.REASON_CONTAINER_LAUNCH_FAILED, "Failed to launch container: " + text}
	a.terminated(e, 9)
}

// processEnded handles the end of an executor's process; if the agent process is not there to see it, its successor will.
func (a *agent) processEnded(e *executor, status int) {
	if e.framework.executors[e.id] != e {
		return
	}
	e.exited, e.exitCode = true, status
	if !a.running {
		return
	}
	a.awake(func() {
		if a.state == nodeLeading && e.state != executorTerminated && !(e.awaitBack && e.doom != nil) {
			a.terminated(e, status)
		}
	})
}

// doom kills an executor for a reason of the agent's own. The end is seen after a pause.
func (a *agent) doom(e *executor, d doom, pause time.Duration) {
	e.doom = &d
	if e.process != nil && pause <= 0 {
		e.process.Kill() // terminated follows when the process has ended
		return
	}
	if e.process != nil {
		e.process.Kill()
	}
	a.after(pause, func() { a.terminated(e, 9) })
}

// shutdown tells an executor to end and kills it if it does not.
func (a *agent) shutdown(e *executor) {
	e.state = executorTerminating
	e.stopTimer()
	if e.synthetic != nil || e.builtin {
		e.shutdownPlayed()
		return
	}
	e.send(&mesosexec.Event{Type: mesosexec.Event_SHUTDOWN})
	grace := a.c.timing.ExecutorShutdown
	if e.info.ShutdownGracePeriod != nil {
		grace = time.Duration(e.info.ShutdownGracePeriod.Nanoseconds)
	}
	e.stop = a.after(grace, func() {
		e.stop = nil
		if e.process != nil {
			e.process.Kill()
		} else {
			a.terminated(e, 9)
		}
	})
}

// terminated handles the end of an executor: the master is told of it before its tasks' updates.
func (a *agent) terminated(e *executor, status int) {
	if e.state == executorTerminated {
		return
	}
	e.state = executorTerminated
	e.stopTimer()
	e.conn.end()
	e.conn = nil
	f := e.framework
	if f.terminating {
		delete(f.executors, e.id)
		if len(f.executors) == 0 {
			delete(a.frameworks, f.id)
			a.c.post(a.leave)
		}
		return
	}
	a.tellExited(f, e.id, int32(status), !e.command)
	d := doom{mesos.TASK_FAILED, mesos.REASON_EXECUTOR_TERMINATED, "Executor terminated"}
	if e.doom != nil {
		d = *e.doom
	}
	executorID := e.id
	for _, t := range e.sortedLaunched() {
		a.forward(f, a.madeStatus(t.info.TaskID.Value, executorID, d.state, d.reason, d.text), e)
	}
	queue := e.queue
	e.queue = nil
	for _, q := range queue {
		for _, info := range q.tasks {
			a.forward(f, a.madeStatus(info.TaskID.Value, executorID, d.state, d.reason, d.text), e)
		}
	}
	a.cleanUp(e)
}

// cleanUp forgets an executor that has ended when the ends of all its tasks are acknowledged.
func (a *agent) cleanUp(e *executor) {
	if e.state == executorTerminated && len(e.terminated) == 0 && len(e.launched) == 0 && e.framework.executors[e.id] == e {
		delete(e.framework.executors, e.id)
		a.forgetIdle(e.framework)
	}
}

func (e *executor) stopTimer() {
	if e.stop != nil {
		e.stop()
		e.stop = nil
	}
}

func (e *executor) send(event *mesosexec.Event) {
	if e.conn != nil {
		e.conn.send(event)
	}
}

func (e *executor) sortedLaunched() []*agentTask {
	out := make([]*agentTask, 0, len(e.launched))
	for _, t := range e.launched {
		out = append(out, t)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].serial < out[j].serial })
	return out
}

// unknown says that the executor has no such task.
func (e *executor) unknown(taskID string) bool {
	return e.launched[taskID] == nil && e.terminated[taskID] == nil
}

// launch hands tasks to an executor that runs.
func (e *executor) launch(q queued) {
	for _, info := range q.tasks {
		e.everLaunched++
		e.launched[info.TaskID.Value] = &agentTask{info: info, state: mesos.TASK_STAGING, serial: e.everLaunched}
	}
	switch {
	case e.synthetic != nil:
		for _, info := range q.tasks {
			e.playLaunch(info)
		}
	case e.builtin:
		e.runner.launch(q)
	case q.group:
		group := mesos.TaskGroupInfo{}
		for _, info := range q.tasks {
			group.Tasks = append(group.Tasks, *info)
		}
		e.send(&mesosexec.Event{Type: mesosexec.Event_LAUNCH_GROUP, LaunchGroup: &mesosexec.Event_LaunchGroup{TaskGroup: group}})
	default:
		for _, info := range q.tasks {
			e.send(&mesosexec.Event{Type: mesosexec.Event_LAUNCH, Launch: &mesosexec.Event_Launch{Task: *info}})
		}
	}
}

// kill passes KILL on; ending the task is the executor's business.
func (e *executor) kill(taskID string, policy *mesos.KillPolicy) {
	switch {
	case e.synthetic != nil:
		e.playKill(taskID)
	case e.builtin:
		e.runner.kill(taskID)
	default:
		e.send(&mesosexec.Event{Type: mesosexec.Event_KILL, Kill: &mesosexec.Event_Kill{TaskID: mesos.TaskID{Value: taskID}, KillPolicy: policy}})
	}
}

func (e *executor) message(data []byte) {
	e.send(&mesosexec.Event{Type: mesosexec.Event_MESSAGE, Message: &mesosexec.Event_Message{Data: data}})
}

// taskState moves a task according to an update that the agent takes.
func (e *executor) taskState(status *mesos.TaskStatus) {
	id := status.TaskID.Value
	t := e.launched[id]
	if t == nil {
		if terminal(status.GetState()) && e.terminated[id] == nil {
			e.terminated[id] = &agentTask{info: &mesos.TaskInfo{TaskID: status.TaskID}, state: status.GetState(), last: status}
		}
		return
	}
	t.state, t.last = status.GetState(), status
	if terminal(t.state) {
		delete(e.launched, id)
		e.terminated[id] = t
	}
}

// taskIDs lists what is queued for or runs on the executor.
func (e *executor) taskIDs() []string {
	var out []string
	for _, t := range e.sortedLaunched() {
		out = append(out, t.info.TaskID.Value)
	}
	for _, q := range e.queue {
		for _, info := range q.tasks {
			out = append(out, info.TaskID.Value)
		}
	}
	return slices.Clip(out)
}
