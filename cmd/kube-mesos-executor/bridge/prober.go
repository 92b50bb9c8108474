// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/cgroups"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/machine"
)

const (
	// probeEnding is how often the cgroups of ending pods are looked at, probeStarted those of pods that run.
	probeEnding  = 200 * time.Millisecond
	probeStarted = 2 * time.Second
)

// prober looks at the cgroups of pods, away from the loop: a busy kernel can make that slow.
type prober struct {
	reader *cgroups.Reader
	inbox  inbox
	wake   chan struct{}

	mu              sync.Mutex
	ending, started []string
}

func newProber(root string, in inbox) *prober {
	return &prober{reader: cgroups.NewReader(root), inbox: in, wake: make(chan struct{}, 1)}
}

// watch sets the pods to look at; at once says not to wait for the next round.
func (p *prober) watch(ending, started []string, atOnce bool) {
	p.mu.Lock()
	idle := len(p.ending) == 0 && len(ending) > 0 || len(p.started) == 0 && len(started) > 0
	p.ending, p.started = ending, started
	p.mu.Unlock()
	if atOnce || idle {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

func (p *prober) run(ctx context.Context) {
	var slow time.Time
	timer := time.NewTimer(probeStarted)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.wake:
		}
		p.mu.Lock()
		ending, started := p.ending, slices.Clone(p.started)
		p.mu.Unlock()
		now := time.Now()
		states := map[string]machine.Cgroup{}
		for _, uid := range ending {
			states[uid] = look(p.reader, uid)
		}
		if now.Sub(slow) >= probeStarted {
			slow = now
			for _, uid := range started {
				if state := look(p.reader, uid); state == machine.CgroupPopulated {
					states[uid] = state
				}
			}
		}
		if len(states) > 0 {
			p.inbox.put(observed{now, states})
		}
		next := probeStarted
		if len(ending) > 0 {
			next = probeEnding
		}
		timer.Reset(next)
	}
}

func look(r *cgroups.Reader, uid string) machine.Cgroup {
	switch r.Look(time.Now(), uid) {
	case cgroups.Populated:
		return machine.CgroupPopulated
	case cgroups.Empty:
		return machine.CgroupEmpty
	default:
		return machine.CgroupInvisible
	}
}
