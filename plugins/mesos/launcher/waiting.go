// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"sync"
	"time"
)

// lookEvery is how often is looked for launches whose time is over.
const lookEvery = 100 * time.Millisecond

// waiting is the launches that wait. Thousands may come and go in a second, so they have no timers of their own, and what they
// wait with is used again.
type waiting struct {
	mu   sync.Mutex
	all  []*waiter
	free []*waiter // up to maxFree
}

const maxFree = 4096

// waiter is one that waits.
type waiter struct {
	wake  chan struct{} // of one. It may be readable without a cause, so who is woken looks
	at    int           // place in all
	until time.Time     // when it is to be woken in any case; zero while that is not said
}

// enter adds a waiter, which is not woken before until says when.
func (w *waiting) enter() *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	var one *waiter
	if last := len(w.free) - 1; last >= 0 {
		one, w.free = w.free[last], w.free[:last]
	} else {
		one = &waiter{wake: make(chan struct{}, 1)}
	}
	one.at, one.until = len(w.all), time.Time{}
	w.all = append(w.all, one)
	return one
}

// leave takes a waiter out. Whoever still sends to it wakes the next one that it is used for once too often.
func (w *waiting) leave(one *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.all) - 1
	w.all[one.at] = w.all[last]
	w.all[one.at].at = one.at
	w.all[last] = nil
	w.all = w.all[:last]
	if len(w.free) < maxFree {
		w.free = append(w.free, one)
	}
}

// until says when a waiter is to be woken in any case: at the first look after that.
func (w *waiting) until(one *waiter, t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.until = t
}

// wakeDue wakes those whose time has come.
func (w *waiting) wakeDue(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.all {
		if !one.until.IsZero() && !now.Before(one.until) {
			nudge(one.wake)
		}
	}
}
