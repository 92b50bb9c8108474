// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"errors"
	"fmt"
	"time"
)

// FailOverOptions describe a change of the leader.
type FailOverOptions struct {
	// To is the index of the next leader; nil means the next master, which with one master is the same one restarted.
	To *int
	// WipeRegistry loses the registry: the new leader knows no agent.
	WipeRegistry bool
	// KeepOld lets the old leader's process live on as a standby. A real one exits.
	KeepOld bool
	// Vacancy is the time for which nobody leads (503 "No leader elected").
	Vacancy time.Duration
	// Recovery is the time for which the new leader answers 503 "Master has not finished recovery"; 0 means Timing.MasterRecovery.
	Recovery time.Duration
	// Down is the time for which a restarted process refuses connections.
	Down time.Duration
	// Starting is the time for which it answers 404 then.
	Starting time.Duration
}

// FailOver ends the leader as SIGKILL does and makes another master (or the same one, restarted) lead. Streams break,
// and agents register again. It returns when the change has begun.
func (c *Cluster) FailOver(o FailOverOptions) error {
	if o.Recovery == 0 {
		o.Recovery = c.timing.MasterRecovery
	}
	var err error
	ok := c.do(func() {
		old := c.m
		oldNode := old.node
		to := (oldNode.index + 1) % len(c.masters)
		if o.To != nil {
			to = *o.To
		}
		if to < 0 || to >= len(c.masters) {
			err = fmt.Errorf("there is no master %d", to)
			return
		}
		node := c.masters[to]
		old.end()
		oldNode.close()
		restarted := node == oldNode
		if o.KeepOld || !restarted {
			if err = oldNode.relisten(nodeStandby); err != nil {
				return
			}
		}
		c.leader = -1
		for _, a := range c.agents {
			a.registered = false
		}
		reg := old.registry
		if o.WipeRegistry {
			reg = newRegistry()
		}
		elect := func() {
			c.lead(to, reg)
			node.state = nodeRecovering
			c.after(o.Recovery, func() {
				if c.m.node == node && node.state == nodeRecovering {
					node.state = nodeLeading
				}
			})
			for _, a := range c.agents {
				a.masterChanged()
			}
		}
		start := func() {
			if restarted {
				c.after(o.Down, func() {
					if e := node.relisten(nodeStarting); e != nil {
						err = e
						c.logger.Error(e, "A master cannot listen again")
						return
					}
					c.after(o.Starting, func() {
						node.state = nodeStandby
						c.after(o.Vacancy, elect)
					})
				})
				return
			}
			c.after(o.Vacancy, elect)
		}
		start()
	})
	if !ok {
		return errors.New("the cluster is closed")
	}
	return err
}

// StopMaster ends the leader and lets nobody lead until StartMaster.
func (c *Cluster) StopMaster() {
	c.do(func() {
		c.m.end()
		c.m.node.close()
		c.leader = -1
		for _, a := range c.agents {
			a.registered = false
		}
	})
}

// StartMaster starts the master that StopMaster ended and makes it lead, with an empty registry if wipe is set.
func (c *Cluster) StartMaster(wipe bool) error {
	var err error
	c.do(func() {
		node, reg := c.m.node, c.m.registry
		if wipe {
			reg = newRegistry()
		}
		if node.state == nodeDown {
			if err = node.relisten(nodeLeading); err != nil {
				return
			}
		}
		c.lead(node.index, reg)
		node.state = nodeLeading
		for _, a := range c.agents {
			a.masterChanged()
		}
	})
	return err
}

// relisten opens the port of a process that has ended again.
func (n *masterNode) relisten(state nodeState) error {
	<-n.served // the port is free once the old listener is closed, which ends its server
	if err := n.listen(); err != nil {
		return fmt.Errorf("listener of the master: %w", err)
	}
	n.state = state
	return nil
}
