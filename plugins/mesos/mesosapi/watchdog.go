// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"fmt"
	"io"
	"time"

	"k8s.io/utils/clock"
)

// A watchdog times how long a reader waits for the master. Only waiting counts, so a consumer that reads late is not
// taken for a silent master. All times are timers, which run on monotonic time: a step of the wall clock means nothing.
type watchdog struct {
	r       io.Reader
	clock   clock.WithDelayedExecution
	cut     func(error)
	missed  int
	limit   time.Duration // without a byte
	opening bool          // until the first event
}

// slowest bounds one event, from the moment it is waited for, in limits: 10 minutes by default. It ends a stream whose bytes
// trickle, which the limit without a byte does not.
const slowest = 8

// maxHeartbeat bounds the interval that a master may announce.
const maxHeartbeat = time.Hour

func newWatchdog(r io.Reader, c clock.WithDelayedExecution, missed int, cut func(error)) *watchdog {
	return &watchdog{r: r, clock: c, cut: cut, missed: missed, limit: time.Duration(missed) * defaultHeartbeat, opening: true}
}

// Read reads and cuts the connection when no byte comes within the limit.
func (w *watchdog) Read(p []byte) (int, error) {
	limit := w.limit
	timer := w.clock.AfterFunc(limit, func() { w.cut(fmt.Errorf("%w: nothing came for %v", ErrSilent, limit)) })
	defer timer.Stop()
	return w.r.Read(p)
}

// event begins the wait for one event and returns what ends it. The first event must be there within one limit.
func (w *watchdog) event() func() bool {
	limit := w.limit * slowest
	if w.opening {
		limit = w.limit
	}
	return w.clock.AfterFunc(limit, func() { w.cut(fmt.Errorf("%w: no whole event came for %v", ErrSilent, limit)) }).Stop
}

// subscribed takes the heartbeat interval, in seconds, that the master announced. What is not a usable interval leaves
// the default.
func (w *watchdog) subscribed(seconds float64) {
	w.opening = false
	if interval := time.Duration(min(seconds, maxHeartbeat.Seconds()) * float64(time.Second)); seconds > 0 && interval > 0 {
		w.limit = time.Duration(w.missed) * interval
	}
}
