// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// An incident is something that was done to the system from outside, or that befell it: a fault, its end, an act of the
// workload, the end of a process.
type incident struct {
	at   time.Time
	text string
	// agentID is set when an operator took the agent away: its tasks may be lost and its pods removed.
	agentID string
	// framework is set when it was removed for good: its executors are shut down and take their pods along.
	framework string
	// dead says that the agent's executors were destroyed with it, without a word to the master.
	dead bool
	// newMaster says that the leading master ended, with what only it knew.
	newMaster bool
	// hides says that messages between Mesos and the scheduler may be late or lost from now on, or were until now.
	hides bool
	// pod is the UID of the pod that was acted on.
	pod string
}

// journal is the list of all incidents of a run.
type journal struct {
	mu   sync.Mutex
	list []incident
}

func (j *journal) add(i incident) {
	i.at = time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, i)
}

func (j *journal) notef(format string, args ...any) {
	j.add(incident{text: fmt.Sprintf(format, args...)})
}

// incidents returns a copy, oldest first.
func (j *journal) incidents() []incident {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.list)
}
