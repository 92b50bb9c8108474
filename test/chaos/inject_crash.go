// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// Crash points: the leading scheduler is killed with SIGKILL right before a call leaves it, or right after the call was
// handled and before it hears so.

// crashPatience is how long a crash waits for its call.
const crashPatience = 6 * time.Second

var errNoCall = errors.New("no such call was made")

// crashOnCall kills the scheduler at its nth call to Mesos of a kind.
func (in *injector) crashOnCall(ctx context.Context, f fault) error {
	point := &crashPoint{injector: in, f: f, skip: f.n - 1, done: make(chan struct{})}
	in.hooks.add(point)
	defer in.hooks.remove(point)
	return point.wait(ctx)
}

// crashOnRequest kills the scheduler at its nth request to the API server of a kind.
func (in *injector) crashOnRequest(ctx context.Context, f fault) error {
	point := &crashPoint{injector: in, f: f, done: make(chan struct{})}
	for _, s := range in.schedulers {
		do := &apiFault{request: f.call, client: clientOf(s.Name), skip: f.n - 1, times: 1}
		do.act = func(_ string, w http.ResponseWriter, r *http.Request, next http.Handler) {
			if f.variant == "after" {
				next.ServeHTTP(httptest.NewRecorder(), r)
			}
			point.strike(s)
			cluster.Break(r)
		}
		in.api.add(do)
		defer in.api.remove(do)
	}
	return point.wait(ctx)
}

// A crashPoint strikes once.
type crashPoint struct {
	*injector
	f    fault
	skip int
	once sync.Once
	done chan struct{}
	// killed and err are valid once done is closed.
	killed *cluster.Scheduler
	err    error
}

// strike kills a scheduler; it returns when the process is gone.
func (p *crashPoint) strike(s *cluster.Scheduler) {
	p.once.Do(func() {
		p.begin(p.f, incident{text: ": SIGKILL of " + s.Name, hides: true})
		p.setBenched(s, true)
		p.killed, p.err = s, s.Kill()
		close(p.done)
	})
}

func (p *crashPoint) wait(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, crashPatience)
	defer cancel()
	select {
	case <-p.done:
	case <-limited.Done():
		missed := false
		p.once.Do(func() { missed = true })
		if missed {
			return errNoCall
		}
		<-p.done
	}
	pause(ctx, p.f.lasts)
	p.setBenched(p.killed, false)
	return p.err
}

// callHooks spreads what the simulator tells of calls to the crash points that wait.
type callHooks struct {
	mu     sync.Mutex
	points []*crashPoint
}

func (h *callHooks) add(p *crashPoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.points = append(h.points, p)
}

func (h *callHooks) remove(p *crashPoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.points[:0]
	for _, other := range h.points {
		if other != p {
			kept = append(kept, other)
		}
	}
	h.points = kept
}

// onCall gets each call of a framework, and breaks its connection if the scheduler was killed for it.
func (h *callHooks) onCall(call mesossim.SchedulerCall) (cut bool) {
	if call.Framework != frameworkName {
		return false
	}
	var struck *crashPoint
	h.mu.Lock()
	for i, p := range h.points {
		if p.f.call != call.Kind || call.Handled != (p.f.variant == "after") {
			continue
		}
		if p.skip > 0 {
			p.skip--
			continue
		}
		struck = p
		h.points = append(h.points[:i:i], h.points[i+1:]...)
		break
	}
	h.mu.Unlock()
	if struck == nil {
		return false
	}
	for _, s := range struck.schedulers {
		if s.Name == call.Hostname {
			struck.strike(s)
			return true
		}
	}
	struck.journal.notef("a call of %q, which is no scheduler of ours: %s", call.Hostname, fmt.Sprint(call))
	return false
}
