// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"bytes"
	"sort"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

type streamKey struct{ framework, task string }

// An updateStream is the ordered status updates of one task: only the head is on its way, until it is acknowledged.
type updateStream struct {
	a        *agent
	key      streamKey
	serial   uint64
	executor *executor // nil if there is none
	pending  []*mesos.TaskStatus
	received [][16]byte // ids seen, to tell a repeated update
	latest   mesos.TaskState
	retry    time.Duration
	stop     func()
}

// forward puts an update into its stream. It returns false for one that is a repetition.
func (a *agent) forward(f *agentFramework, status *mesos.TaskStatus, e *executor) bool {
	key := streamKey{f.id, status.TaskID.Value}
	s := a.streams[key]
	if s == nil {
		s = &updateStream{a: a, key: key, executor: e, serial: a.c.records.nextSerial()}
		a.streams[key] = s
	}
	if s.executor == nil {
		s.executor = e
	}
	var id [16]byte
	copy(id[:], status.UUID)
	for _, seen := range s.received {
		if seen == id {
			return false
		}
	}
	s.received = append(s.received, id)
	if a.draining != nil && status.GetSource() == mesos.SOURCE_EXECUTOR {
		a.drained(f, status)
	}
	if !terminal(s.latest) || len(s.pending) == 0 {
		s.latest = status.GetState()
	}
	if e != nil {
		e.taskState(status)
	}
	s.pending = append(s.pending, status)
	if len(s.pending) == 1 {
		s.send()
	}
	return true
}

// send sends the head and sets the timer for the next try.
func (s *updateStream) send() {
	s.retry = s.a.c.timing.UpdateRetryMin
	s.transmit()
	s.arm()
}

func (s *updateStream) transmit() {
	u := agentUpdate{framework: s.key.framework, status: s.pending[0], latest: s.latest}
	s.a.toMaster(func(m *master, v *agentView) { m.statusUpdate(v, u) })
}

func (s *updateStream) arm() {
	s.stopRetry()
	s.stop = s.a.after(s.retry, func() {
		s.stop = nil
		if len(s.pending) == 0 {
			return
		}
		s.transmit()
		s.retry = min(s.retry*2, s.a.c.timing.UpdateRetryMax)
		s.arm()
	})
}

func (s *updateStream) stopRetry() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// resendAll sends the heads of all streams, or of one framework's, whatever their timers say.
func (a *agent) resendAll(framework string) {
	streams := make([]*updateStream, 0, len(a.streams))
	for _, s := range a.streams {
		if framework == "" || s.key.framework == framework {
			streams = append(streams, s)
		}
	}
	sort.Slice(streams, func(i, j int) bool { return streams[i].serial < streams[j].serial })
	for _, s := range streams {
		if len(s.pending) > 0 {
			s.send()
		}
	}
}

// acknowledged handles a framework's acknowledgement. One that does not name the head is ignored.
func (a *agent) acknowledged(framework, taskID string, id []byte) {
	key := streamKey{framework, taskID}
	s := a.streams[key]
	if s == nil || len(s.pending) == 0 || !bytes.Equal(s.pending[0].UUID, id) {
		return
	}
	s.stopRetry()
	head := s.pending[0]
	s.pending = s.pending[1:]
	a.c.records.acknowledged(framework, taskID, head.GetState())
	f := a.frameworks[framework]
	if !terminal(head.GetState()) {
		if len(s.pending) > 0 {
			s.send()
		} else if s.executor == nil || s.executor.unknown(taskID) {
			delete(a.streams, key) // an update of a task that the agent does not know leaves nothing behind
		}
		return
	}
	delete(a.streams, key)
	if f == nil {
		return
	}
	if e := s.executor; e != nil {
		delete(e.terminated, taskID)
		a.cleanUp(e)
	}
	a.forgetIdle(f)
}
