// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// faultState holds the faults in force. It is guarded by the cluster's lock.
type faultState struct {
	calls   []*CallFault
	updates []*UpdateFault
	streams []func(*eventStream)
	runs    []*runFault
	chunk   int
	delayed int // calls held back now
	onCall  func(SchedulerCall) bool
}

// A CallFault strikes calls of one kind.
type CallFault struct {
	// Call is the kind, as "ACCEPT"; empty means every kind.
	Call string
	// Times is how often it strikes; 0 means once, -1 always.
	Times int
	// LoseCall breaks the connection before the master sees the call.
	LoseCall bool
	// LoseAnswer lets the master handle the call and breaks the connection instead of answering.
	LoseAnswer bool
	// Delay holds the call back for this long before the master handles it.
	Delay time.Duration
}

// An UpdateFault strikes status updates on their way to a framework.
type UpdateFault struct {
	// Match chooses updates; nil means those that the master makes up itself (without uuid). It runs under the cluster's lock
	// and must not call the cluster.
	Match func(frameworkID string, status *mesos.TaskStatus) bool
	// Times is how often it strikes; 0 means once, -1 always.
	Times int
	// Exactly one of these says what happens.
	Lose, Double bool
	Delay        time.Duration
}

type runFault struct {
	agent string
	times int
}

// Faults sets faults. Every method may be called at any time.
type Faults struct{ c *Cluster }

// Faults returns the cluster's fault switchboard.
func (c *Cluster) Faults() *Faults { return &Faults{c} }

// Clear ends all faults that have not struck yet.
func (f *Faults) Clear() { f.c.do(func() { f.c.faults = faultState{delayed: f.c.faults.delayed} }) }

// Call adds a fault of scheduler calls.
func (f *Faults) Call(fault CallFault) {
	if fault.Times == 0 {
		fault.Times = 1
	}
	f.c.do(func() { f.c.faults.calls = append(f.c.faults.calls, &fault) })
}

// Update adds a fault of status updates.
func (f *Faults) Update(fault UpdateFault) {
	if fault.Times == 0 {
		fault.Times = 1
	}
	f.c.do(func() { f.c.faults.updates = append(f.c.faults.updates, &fault) })
}

// LoseLaunches makes the next launches for the agent get lost between master and agent: the tasks stay STAGING until
// the agent registers again. 0 ends that.
func (f *Faults) LoseLaunches(agent string, times int) {
	f.c.do(func() {
		f.c.faults.runs = slices.DeleteFunc(f.c.faults.runs, func(other *runFault) bool { return other.agent == agent })
		if times != 0 {
			f.c.faults.runs = append(f.c.faults.runs, &runFault{agent, times})
		}
	})
}

// CutStream breaks the event stream of a framework when n more bytes have been written, in the middle of whatever that
// is. An empty id means every framework.
func (f *Faults) CutStream(frameworkID string, n int64) {
	f.c.do(func() { f.c.eachStream(frameworkID, func(s *eventStream) { s.cut(n) }) })
}

// CutNextStream breaks the stream of the next SUBSCRIBE after n bytes of its body.
func (f *Faults) CutNextStream(n int64) {
	f.c.do(func() { f.c.faults.streams = append(f.c.faults.streams, func(s *eventStream) { s.cut(n) }) })
}

// ChunkStreams makes the streams of the frameworks, present and future, come in pieces of n bytes, whatever the borders
// of records; 0 ends that.
func (f *Faults) ChunkStreams(n int) {
	f.c.do(func() {
		f.c.faults.chunk = n
		f.c.eachStream("", func(s *eventStream) { s.setChunk(n) })
	})
}

// Silence makes the streams of a framework swallow every event, heartbeats too, while the connections stay open; with
// on false they speak again, from then on.
func (f *Faults) Silence(frameworkID string, on bool) {
	f.c.do(func() { f.c.eachStream(frameworkID, func(s *eventStream) { s.setSilent(on) }) })
}

// Rescind takes an outstanding offer back. It returns false if there is none of that id.
func (f *Faults) Rescind(offerID string) bool {
	found := false
	f.c.do(func() {
		if o := f.c.m.offers[offerID]; o != nil {
			found = true
			f.c.m.rescind(o)
		}
	})
	return found
}

// RescindAll takes back all outstanding offers of a framework, of all frameworks with an empty id; it returns how many.
func (f *Faults) RescindAll(frameworkID string) int {
	n := 0
	f.c.do(func() {
		for _, o := range sortedOffers(f.c.m.offers) {
			if frameworkID == "" || o.framework.id == frameworkID {
				f.c.m.rescind(o)
				n++
			}
		}
	})
	return n
}

// OfferTimeout changes the life of offers made from now on; 0 is no limit.
func (f *Faults) OfferTimeout(d time.Duration) { f.c.do(func() { f.c.timing.OfferTimeout = d }) }

func (c *Cluster) eachStream(frameworkID string, act func(*eventStream)) {
	for _, f := range c.m.sortedFrameworks() {
		if f.stream != nil && (frameworkID == "" || f.id == frameworkID) {
			act(f.stream)
		}
	}
}

type callVerdict struct {
	loseCall, loseAnswer bool
	delay                time.Duration
}

func (c *Cluster) callFault(kind string) (v callVerdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.faults.calls {
		if f.Times == 0 || f.Call != "" && f.Call != kind {
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		return callVerdict{f.LoseCall, f.LoseAnswer, f.Delay}
	}
	return callVerdict{}
}

type updateVerdict int

const (
	updatePassed updateVerdict = iota
	updateLost
	updateDoubled
	updateDelayed
)

func (s *faultState) updateAction(frameworkID string, status *mesos.TaskStatus) (updateVerdict, time.Duration) {
	for _, f := range s.updates {
		if f.Times == 0 {
			continue
		}
		if f.Match == nil && len(status.UUID) > 0 || f.Match != nil && !f.Match(frameworkID, status) {
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		switch {
		case f.Lose:
			return updateLost, 0
		case f.Double:
			return updateDoubled, 0
		default:
			return updateDelayed, f.Delay
		}
	}
	return updatePassed, 0
}

// launchLost says whether a launch for the agent gets lost.
func (s *faultState) launchLost(agent string) bool {
	for _, f := range s.runs {
		if f.agent == agent && f.times != 0 {
			if f.times > 0 {
				f.times--
			}
			return true
		}
	}
	return false
}

func (s *faultState) applyToStream(stream *eventStream) {
	stream.setChunk(s.chunk)
	if len(s.streams) > 0 {
		s.streams[0](stream)
		s.streams = s.streams[1:]
	}
}
