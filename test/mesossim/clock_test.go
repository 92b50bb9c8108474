// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"reflect"
	"testing"
	"time"
)

func TestTestClockFiresInOrder(t *testing.T) {
	c := NewTestClock(time.Unix(0, 0))
	var fired []string
	note := func(s string) func() { return func() { fired = append(fired, s) } }
	c.AfterFunc(2*time.Second, note("b"))
	c.AfterFunc(time.Second, note("a"))
	c.AfterFunc(2*time.Second, note("c"))
	stop := c.AfterFunc(time.Second, note("stopped"))
	stop()
	c.AfterFunc(time.Second, func() { c.AfterFunc(500*time.Millisecond, note("nested")) })
	c.Advance(5 * time.Second)
	if want := []string{"a", "nested", "b", "c"}; !reflect.DeepEqual(fired, want) {
		t.Errorf("fired %v, want %v", fired, want)
	}
	if c.Now() != time.Unix(5, 0) {
		t.Errorf("the clock stands at %v", c.Now())
	}
}

func TestLaneKeepsOrder(t *testing.T) {
	clock := NewTestClock(time.Unix(0, 0))
	c := startCluster(t, Options{Clock: clock})
	var got []int
	c.do(func() {
		l := &lane{c: c}
		for i, d := range []time.Duration{3, 1, 0, 2} {
			l.send(d*time.Second, func() { got = append(got, i) })
		}
	})
	clock.Advance(10 * time.Second)
	if want := []int{0, 1, 2, 3}; !reflect.DeepEqual(got, want) {
		t.Errorf("delivered %v, want %v", got, want)
	}
}

func TestDurationText(t *testing.T) {
	tests := []struct {
		d    time.Duration
		want string
	}{{5 * time.Second, "5secs"}, {time.Minute, "1mins"}, {15 * time.Minute, "15mins"}, {1500 * time.Millisecond, "1.5secs"}, {250 * time.Millisecond, "250ms"}, {0, "0ns"}, {7 * 24 * time.Hour, "1weeks"}}
	for _, tt := range tests {
		if got := durationText(tt.d); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.d, got, tt.want)
		}
	}
}
