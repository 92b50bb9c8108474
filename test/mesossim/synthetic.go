// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// executorHeartbeat is the pause between heartbeats on an executor's stream.
const executorHeartbeat = 30 * time.Minute

var (
	defaultLaunch = []Step{{State: mesos.TASK_STARTING}, {State: mesos.TASK_RUNNING}}
	defaultKill   = []Step{{State: mesos.TASK_KILLED}}
)

// subscribeSynthetic makes a synthetic executor run at once.
func (e *executor) subscribeSynthetic() {
	e.state = executorRunning
	queue := e.queue
	e.queue = nil
	for _, q := range queue {
		e.launch(q)
	}
}

func (e *executor) script(info *mesos.TaskInfo) Script {
	s := *e.synthetic
	if s.For != nil {
		if own, ok := s.For(info); ok {
			return own
		}
	}
	return s
}

func (e *executor) playLaunch(info *mesos.TaskInfo) {
	steps := e.script(info).Launch
	if steps == nil {
		steps = defaultLaunch
	}
	e.play(info.TaskID.Value, steps)
}

func (e *executor) playKill(taskID string) {
	t := e.launched[taskID]
	if t == nil {
		return
	}
	steps := e.script(t.info).Kill
	if steps == nil {
		steps = defaultKill
	}
	e.play(taskID, steps)
}

// play makes the updates of a script one after the other, as long as the task has not ended.
func (e *executor) play(taskID string, steps []Step) {
	if len(steps) == 0 {
		return
	}
	step := func() {
		if e.launched[taskID] == nil || e.state == executorTerminated {
			return
		}
		e.tell(taskID, steps[0].State, steps[0].Message, nil)
		e.play(taskID, steps[1:])
	}
	if steps[0].After <= 0 {
		step()
		return
	}
	e.a.c.after(steps[0].After, step)
}

// tell makes an update as the executor would.
func (e *executor) tell(taskID string, state mesos.TaskState, message string, reason *mesos.TaskStatus_Reason) {
	id := uuid.New()
	status := &mesos.TaskStatus{TaskID: mesos.TaskID{Value: taskID}, State: state.Enum(), Source: mesos.SOURCE_EXECUTOR.Enum(), Reason: reason,
		AgentID: &mesos.AgentID{Value: e.a.id}, ExecutorID: &mesos.ExecutorID{Value: e.id}, Timestamp: proto.Float64(seconds(e.a.c.now())), UUID: id[:]}
	if message != "" {
		status.Message = proto.String(message)
	}
	status.ContainerStatus = e.containerStatus(taskID)
	e.a.forward(e.framework, status, e)
}

// shutdownPlayed ends a synthetic or built-in executor: its tasks are killed, then it exits.
func (e *executor) shutdownPlayed() {
	if e.runner != nil {
		e.runner.shutdown()
		return
	}
	if !e.framework.terminating {
		for _, t := range e.sortedLaunched() {
			e.tell(t.info.TaskID.Value, mesos.TASK_KILLED, "", nil)
		}
	}
	e.a.c.post(func() { e.a.terminated(e, 0) })
}
