// SPDX-License-Identifier: Apache-2.0

package mesossim

import "time"

// A lane delivers messages in the order of sending, each after a delay. It is guarded by the cluster's lock.
type lane struct {
	c     *Cluster
	items []laneItem
	armed bool
}

type laneItem struct {
	at time.Time
	f  func()
}

// send runs f after d, and after everything sent before.
func (l *lane) send(d time.Duration, f func()) {
	if d <= 0 && len(l.items) == 0 {
		l.c.post(f)
		return
	}
	at := l.c.now().Add(d)
	if n := len(l.items); n > 0 && l.items[n-1].at.After(at) {
		at = l.items[n-1].at
	}
	l.items = append(l.items, laneItem{at, f})
	l.arm()
}

func (l *lane) arm() {
	if l.armed || len(l.items) == 0 {
		return
	}
	l.armed = true
	l.c.after(max(l.items[0].at.Sub(l.c.now()), time.Nanosecond), func() {
		l.armed = false
		now := l.c.now()
		for len(l.items) > 0 && !l.items[0].at.After(now) {
			f := l.items[0].f
			l.items[0].f = nil
			l.items = l.items[1:]
			l.c.post(f)
		}
		l.arm()
	})
}
