// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"sort"
	"strconv"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// A task is the master's record of a task.
type task struct {
	info       *mesos.TaskInfo // as sent to the agent
	framework  *framework
	agentID    string
	executorID string // empty for command tasks
	resources  bag
	serial     uint64

	state       mesos.TaskState  // the latest state the agent told
	statusState *mesos.TaskState // of the last update forwarded
	statusUUID  []byte
	statuses    []*mesos.TaskStatus
	unreachable *mesos.TimeInfo

	rec *taskRecord
}

func (t *task) id() string { return t.info.TaskID.Value }

// terminal is the set of states that Mesos' master and agent treat as final.
func terminal(s mesos.TaskState) bool {
	switch s {
	case mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED, mesos.TASK_LOST, mesos.TASK_ERROR, mesos.TASK_DROPPED,
		mesos.TASK_GONE, mesos.TASK_GONE_BY_OPERATOR:
		return true
	}
	return false
}

func sortedTasks(tasks map[string]*task) []*task {
	out := make([]*task, 0, len(tasks))
	for _, t := range tasks {
		out = append(out, t)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].serial < out[j].serial })
	return out
}

func pad4(n int) string {
	s := strconv.Itoa(n)
	for len(s) < 4 {
		s = "0" + s
	}
	return s
}

// addTask puts a task into the master's tables.
func (m *master) addTask(f *framework, v *agentView, t *task) {
	f.tasks[t.id()] = t
	v.addTask(t)
}

// removeTask moves a task to the completed ones.
func (m *master) removeTask(t *task) {
	f := t.framework
	if f.tasks[t.id()] != t {
		return
	}
	delete(f.tasks, t.id())
	if v := m.agents[t.agentID]; v != nil {
		v.removeTask(t)
	}
	t.rec.removed()
	f.completed = append(f.completed, t)
	if len(f.completed) > maxCompletedTasks {
		f.completed = f.completed[1:]
	}
}

// recoverTask gives the task's resources back to the allocator.
func (m *master) recoverTask(t *task) {
	if v := m.agents[t.agentID]; v != nil {
		m.alloc.recover(t.framework, v, t.resources, nil)
	}
}

// removeExecutor forgets an executor and gives back its resources.
func (m *master) removeExecutor(f *framework, agentID, executorID string) {
	e := f.executors[agentID][executorID]
	if e == nil {
		return
	}
	delete(f.executors[agentID], executorID)
	if len(f.executors[agentID]) == 0 {
		delete(f.executors, agentID)
	}
	if v := m.agents[agentID]; v != nil {
		m.alloc.recover(f, v, e.resources, nil)
	}
}

func (f *framework) addExecutor(agentID string, info *mesos.ExecutorInfo, resources bag) {
	if f.executors[agentID] == nil {
		f.executors[agentID] = map[string]*executorView{}
	}
	f.executors[agentID][info.ExecutorID.Value] = &executorView{info: info, resources: resources}
}
