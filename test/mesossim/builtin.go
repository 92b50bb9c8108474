// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// A builtinRunner plays Mesos' own command executor (one task with a command) and default executor (task groups): each
// task's command is a process.
type builtinRunner struct {
	e        *executor
	tasks    map[string]*builtinTask
	finished bool
}

type builtinTask struct {
	info     *mesos.TaskInfo
	group    int
	process  Process
	killed   bool
	overtime bool
	ended    bool
}

const (
	builtinStart    = 180 * time.Millisecond // until TASK_STARTING
	builtinLaunch   = 10 * time.Millisecond  // until TASK_RUNNING of a command executor
	builtinNested   = 70 * time.Millisecond  // until TASK_RUNNING of a default executor
	builtinLinger   = time.Second            // a command executor lives this long after its task
	builtinEscalate = 3 * time.Second        // from SIGTERM to SIGKILL
)

func newBuiltinRunner(e *executor) *builtinRunner {
	r := &builtinRunner{e: e, tasks: map[string]*builtinTask{}}
	e.a.c.after(builtinStart, func() {
		if e.state != executorRegistering {
			return
		}
		e.state = executorRunning
		queue := e.queue
		e.queue = nil
		for _, q := range queue {
			e.launch(q)
		}
	})
	return r
}

func (r *builtinRunner) launch(q queued) {
	group := len(r.tasks)
	for _, info := range q.tasks {
		r.tasks[info.TaskID.Value] = &builtinTask{info: info, group: group}
		r.e.tell(info.TaskID.Value, mesos.TASK_STARTING, "", nil)
	}
	pause := builtinNested
	if r.e.command {
		pause = builtinLaunch
	}
	r.e.a.c.after(pause, func() {
		for _, info := range q.tasks {
			if t := r.tasks[info.TaskID.Value]; !t.ended && !r.finished {
				r.start(t)
			}
		}
	})
}

// start runs the command of a task on a goroutine of its own.
func (r *builtinRunner) start(t *builtinTask) {
	e := r.e
	id := t.info.TaskID.Value
	dir := filepath.Join(e.directory, "tasks", safeName(id))
	l := Launch{Agent: e.a.name, FrameworkID: e.framework.id, ExecutorID: e.id, ContainerID: e.container, Builtin: true, Directory: dir,
		Info: mesos.ExecutorInfo{Command: t.info.Command}, Environment: e.a.environment(e)}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.end1(t, 1<<8)
		return
	}
	e.a.c.busy.enter()
	e.a.c.wg.Add(1)
	go func() {
		defer e.a.c.wg.Done()
		process, err := e.a.launcher.Launch(e.a.c.ctx, l)
		alive := e.a.c.do(func() {
			if err != nil {
				r.end1(t, 1<<8)
				return
			}
			t.process = process
			if t.ended || r.finished {
				process.Kill()
				return
			}
			e.tell(id, mesos.TASK_RUNNING, "", nil)
			if t.killed {
				r.terminate(t)
			}
			if limit := t.info.MaxCompletionTime; limit != nil {
				e.a.c.after(time.Duration(limit.Nanoseconds), func() {
					if !t.ended {
						t.overtime = true
						r.terminate(t)
					}
				})
			}
		})
		e.a.c.busy.leave()
		if err != nil {
			return
		}
		if !alive {
			process.Kill()
		}
		status := process.Wait()
		e.a.c.do(func() { r.end1(t, status) })
		if p, ok := process.(interface{ reaped() }); ok {
			p.reaped()
		}
	}()
}

// end1 reports the end of one task and what follows from it.
func (r *builtinRunner) end1(t *builtinTask, status int) {
	if t.ended || r.finished {
		return
	}
	t.ended = true
	state, reason := mesos.TASK_FAILED, (*mesos.TaskStatus_Reason)(nil)
	switch {
	case t.overtime:
		reason = mesos.REASON_MAX_COMPLETION_TIME_REACHED.Enum()
	case t.killed:
		state = mesos.TASK_KILLED
	case status == 0:
		state = mesos.TASK_FINISHED
	}
	r.e.tell(t.info.TaskID.Value, state, waitText(status), reason)
	if state != mesos.TASK_FINISHED {
		for _, other := range r.tasks {
			if other.group == t.group && !other.ended && !other.killed {
				r.killTask(other)
			}
		}
	}
	for _, other := range r.tasks {
		if !other.ended {
			return
		}
	}
	linger := time.Duration(0)
	if r.e.command {
		linger = builtinLinger
	}
	r.e.a.c.after(linger, func() { r.exit() })
}

func (r *builtinRunner) exit() {
	if !r.finished {
		r.finished = true
		r.e.a.terminated(r.e, 0)
	}
}

func (r *builtinRunner) kill(taskID string) {
	if t := r.tasks[taskID]; t != nil && !t.ended && !t.killed {
		r.killTask(t)
	}
}

func (r *builtinRunner) killTask(t *builtinTask) {
	t.killed = true
	for _, c := range r.e.framework.info.Capabilities {
		if c.Type == mesos.FrameworkInfo_Capability_TASK_KILLING_STATE {
			r.e.tell(t.info.TaskID.Value, mesos.TASK_KILLING, "", nil)
		}
	}
	if t.process != nil {
		r.terminate(t)
	}
}

// terminate sends SIGTERM, and SIGKILL when that has not helped.
func (r *builtinRunner) terminate(t *builtinTask) {
	if p, ok := t.process.(interface{ Terminate() }); ok {
		p.Terminate()
		r.e.a.c.after(builtinEscalate, func() {
			if !t.ended {
				t.process.Kill()
			}
		})
		return
	}
	t.process.Kill()
}

// shutdown ends all tasks; the executor exits after the last.
func (r *builtinRunner) shutdown() {
	live := false
	for _, t := range r.tasks {
		if !t.ended {
			live = true
			if !t.killed {
				r.killTask(t)
			}
		}
	}
	if !live {
		r.e.a.c.post(r.exit)
	}
}

// end kills everything without a word.
func (r *builtinRunner) end() {
	r.finished = true
	for _, t := range r.tasks {
		if t.process != nil {
			t.process.Kill()
		}
	}
}

// processes lists what runs.
func (r *builtinRunner) processes() []Process {
	var out []Process
	for _, t := range r.tasks {
		if t.process != nil && !t.ended {
			out = append(out, t.process)
		}
	}
	return out
}

// waitText prints a wait status as Mesos does.
func waitText(status int) string {
	ws := syscall.WaitStatus(status)
	if ws.Signaled() {
		name := ws.Signal().String()
		if name != "" {
			name = string(name[0]-'a'+'A') + name[1:]
		}
		return "Command terminated with signal " + name
	}
	return "Command exited with status " + strconv.Itoa(ws.ExitStatus())
}
