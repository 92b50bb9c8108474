// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// A Cluster is a running set of masters and agents.
//
// One lock guards the state of all of them. Whatever one part tells another is posted and runs, in order, before the
// lock is given up (see do), so that no part is entered again while it works. Encoding and writing happen outside.
type Cluster struct {
	opts    Options
	timing  Timing
	clock   Clock
	logger  klog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	workDir string
	ownsDir bool
	wg      sync.WaitGroup

	mu      sync.Mutex
	posted  []func()
	closed  bool
	changed chan struct{} // nil while nobody waits
	rng     *rand.Rand

	masters []*masterNode
	leader  int // index in masters; -1: nobody leads
	m       *master
	agents  []*agent
	byName  map[string]*agent
	records records
	faults  faultState
	busy    activity
}

// Start starts a cluster; it is ready when Start returns. The cluster ends with Close, at the latest when ctx ends.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options = options.withDefaults()
	c := &Cluster{
		opts: options, timing: options.Timing, clock: options.Clock, logger: klog.FromContext(ctx).WithName("mesossim"),
		byName: map[string]*agent{}, rng: rand.New(rand.NewSource(options.Seed)),
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.records.init()
	c.workDir = options.WorkDir
	if c.workDir == "" {
		dir, err := os.MkdirTemp("", "mesos-sim-")
		if err != nil {
			c.cancel()
			return nil, fmt.Errorf("work folder: %w", err)
		}
		c.workDir, c.ownsDir = dir, true
	} else if dir, err := filepath.Abs(c.workDir); err != nil {
		c.cancel()
		return nil, fmt.Errorf("work folder: %w", err)
	} else {
		c.workDir = dir
	}
	if err := c.startMasters(); err != nil {
		c.Close()
		return nil, err
	}
	for _, a := range options.Agents {
		if _, err := c.AddAgent(a); err != nil {
			c.Close()
			return nil, err
		}
	}
	context.AfterFunc(c.ctx, c.Close)
	return c, nil
}

// Close ends the cluster: every stream is closed and every executor's process group is killed and waited for.
// It may be called more than once.
func (c *Cluster) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.wg.Wait()
		return
	}
	c.closed = true
	var processes []Process
	for _, a := range c.agents {
		processes = append(processes, a.processes()...)
		a.closeListener()
		a.stopTimers()
	}
	if c.m != nil {
		c.m.end()
	}
	for _, node := range c.masters {
		node.close()
	}
	c.broadcast()
	c.mu.Unlock()
	c.cancel()
	for _, p := range processes {
		p.Kill()
	}
	c.wg.Wait()
	if c.ownsDir {
		_ = os.RemoveAll(c.workDir)
	}
}

// do runs f under the cluster's lock, then what f and its successors posted. After Close it does nothing and returns false.
func (c *Cluster) do(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	f()
	for i := 0; i < len(c.posted); i++ {
		next := c.posted[i]
		c.posted[i] = nil
		next()
	}
	c.posted = c.posted[:0]
	c.broadcast()
	return true
}

// post makes f run after what runs now, under the same hold of the lock. The caller holds the lock.
func (c *Cluster) post(f func()) { c.posted = append(c.posted, f) }

// after runs f under the lock, d from now. d <= 0 posts it. The caller holds the lock.
func (c *Cluster) after(d time.Duration, f func()) (stop func()) {
	if d <= 0 {
		stopped := false
		c.post(func() {
			if !stopped {
				f()
			}
		})
		return func() { stopped = true }
	}
	stopped := false // guarded by the lock: a timer that has fired but waits for the lock can still be stopped
	stopTimer := c.clock.AfterFunc(d, func() {
		c.do(func() {
			if !stopped {
				f()
			}
		})
	})
	return func() {
		stopped = true
		stopTimer()
	}
}

func (c *Cluster) now() time.Time { return c.clock.Now() }

func (c *Cluster) broadcast() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// watch returns what is closed at the next change. The caller holds the lock.
func (c *Cluster) watch() <-chan struct{} {
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// Wait returns when condition holds; it is evaluated first at once and then whenever the state of the cluster has changed,
// without any lock held; changes within a millisecond count as one. The error tells that ctx or the cluster ended before.
func (c *Cluster) Wait(ctx context.Context, condition func() bool) error {
	for {
		c.mu.Lock()
		changed := c.watch()
		c.mu.Unlock()
		if condition() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for a state of the cluster: %w", context.Cause(ctx))
		case <-c.ctx.Done():
			return errors.New("waiting for a state of the cluster: it was closed")
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		case <-c.ctx.Done():
		}
	}
}
