// SPDX-License-Identifier: Apache-2.0

package ledger

import "time"

// What says what happened to a pod's hold on Mesos resources.
type What int

const (
	// Added: the pod has a record now, by a claim or because it was found bound.
	Added What = iota
	// Moved: the record's state changed.
	Moved
	// WasBound: the pod is bound with its task.
	WasBound
	// KillWanted: the task is to be killed.
	KillWanted
	// Left: the pod was deleted, or it is complete.
	Left
	// Dropped: the record is gone; nothing is held any more.
	Dropped
)

// Step is one step of a pod's journey.
type Step struct {
	What What
	At   time.Time
	// Task is the record after the step. It may be read only during the call.
	Task *Task
	// From is the state before a Moved or Dropped, and Since when that began. For Added, Since is when the pod began to
	// wait, zero if that is not known.
	From  State
	Since time.Time
}

// observe tells the observer of a step. It is called under the ledger's lock.
func (l *Ledger) observe(what What, t *Task, from State, since time.Time) {
	if l.options.Observe != nil {
		l.options.Observe(Step{What: what, At: l.options.Clock.Now(), Task: t, From: from, Since: since})
	}
}
