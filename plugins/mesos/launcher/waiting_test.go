// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"testing"
	"time"
)

func TestWaiting(t *testing.T) {
	var w waiting
	begun := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	after := func(d time.Duration) time.Time { return begun.Add(d) }
	a, b, c := w.enter(), w.enter(), w.enter()
	w.until(a, after(time.Second))
	w.until(c, after(3*time.Second))
	woken := func(now time.Time, want ...*waiter) {
		t.Helper()
		w.wakeDue(now)
		for _, one := range []*waiter{a, b, c} {
			expected := 0
			for _, x := range want {
				if x == one {
					expected = 1
				}
			}
			if len(one.wake) != expected {
				t.Errorf("%v after the beginning: waiter %d has %d signals, want %d", now.Sub(begun), one.at, len(one.wake), expected)
			}
			for len(one.wake) > 0 {
				<-one.wake
			}
		}
	}
	woken(after(time.Second - 1))
	woken(after(time.Second), a)
	w.leave(a)
	woken(after(3*time.Second), c) // c is found where a was; b has no time
	again := w.enter()
	if again != a || !again.until.IsZero() {
		t.Errorf("a waiter is not used again, or has the time of before: %+v", again)
	}
	woken(after(time.Hour), c)
	for _, one := range []*waiter{c, again, b} {
		w.leave(one)
	}
	if len(w.all) != 0 || len(w.free) != 3 {
		t.Errorf("%d wait, %d are free", len(w.all), len(w.free))
	}
}
