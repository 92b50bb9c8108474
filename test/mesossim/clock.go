// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"container/heap"
	"sync"
	"time"
)

// A Clock tells the time and calls back.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once, d from now, on a goroutine that holds no lock. The function it returns stops the timer.
	AfterFunc(d time.Duration, f func()) (stop func())
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// A TestClock moves only when it is told to.
type TestClock struct {
	mu     sync.Mutex
	now    time.Time
	serial uint64
	timers timerHeap
}

// NewTestClock returns a clock that stands at start.
func NewTestClock(start time.Time) *TestClock { return &TestClock{now: start} }

// Now returns the time at which the clock stands.
func (c *TestClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc calls f when the clock has been advanced by d.
func (c *TestClock) AfterFunc(d time.Duration, f func()) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	t := &testTimer{at: c.now.Add(max(d, 0)), serial: c.serial, f: f}
	heap.Push(&c.timers, t)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.index >= 0 {
			heap.Remove(&c.timers, t.index)
		}
	}
}

// Next returns the time of the earliest timer.
func (c *TestClock) Next() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.timers) == 0 {
		return time.Time{}, false
	}
	return c.timers[0].at, true
}

// AdvanceTo moves the clock to t, calling in order of time, on the caller's goroutine, every timer that is due by then.
func (c *TestClock) AdvanceTo(t time.Time) {
	for {
		c.mu.Lock()
		if len(c.timers) == 0 || c.timers[0].at.After(t) {
			if t.After(c.now) {
				c.now = t
			}
			c.mu.Unlock()
			return
		}
		timer := heap.Pop(&c.timers).(*testTimer)
		if timer.at.After(c.now) {
			c.now = timer.at
		}
		c.mu.Unlock()
		timer.f()
	}
}

// Advance moves the clock by d; see AdvanceTo.
func (c *TestClock) Advance(d time.Duration) { c.AdvanceTo(c.Now().Add(d)) }

type testTimer struct {
	at     time.Time
	serial uint64
	f      func()
	index  int
}

type timerHeap []*testTimer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].serial < h[j].serial
	}
	return h[i].at.Before(h[j].at)
}
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	t := x.(*testTimer)
	t.index = len(*h)
	*h = append(*h, t)
}
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}
