// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Update is one status update on its way to the agent.
type Update struct {
	// Seq orders all updates of the executor.
	Seq uint64 `json:"seq"`
	// UUID is 16 random bytes; the agent acknowledges by it.
	UUID []byte `json:"uuid"`
	// TaskID, State and Message are what is reported.
	TaskID  string          `json:"taskID"`
	State   mesos.TaskState `json:"state"`
	Message string          `json:"message,omitempty"`
	// Timestamp is in seconds since 1970.
	Timestamp float64 `json:"timestamp"`
	// Strikes counts the connections on which the agent had the update for strikeAfter and did not acknowledge it.
	Strikes int `json:"strikes,omitempty"`

	sentAt time.Time
}

// Sendable says whether an executor of ours may send state. The agent takes any state but TASK_STAGING, and some of
// the others, sent by an executor, make the master abort (recording E15).
func Sendable(state mesos.TaskState) bool {
	switch state {
	case mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_KILLING,
		mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED:
		return true
	default:
		return false
	}
}

const (
	// strikeAfter is how long a connection may last without acknowledgement of an update before that counts as a
	// strike; maxStrikes of them drop the update. The agent acknowledges within milliseconds, except updates of tasks
	// that it does not know, which it never does (recording E8).
	strikeAfter = 10 * time.Second
	maxStrikes  = 3
	// maxPending bounds the unacknowledged updates of one executor.
	maxPending = 20000
)
