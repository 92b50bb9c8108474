// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
)

// nodeTable relates the scheduler's nodes to places in the ledger's snapshots. It is made once for a list of nodes, so that
// Filter and Score need not look an agent up by its node's name each time.
type nodeTable struct {
	nodes  []fwk.NodeInfo // the list that it is of; kept, so that no other list can have its address
	places map[*framework.NodeInfo]int32
	count  uint64 // of the ledger's places
	all    bool   // every node has a place
}

// nodeTables keeps the table of the present list of nodes.
type nodeTables struct {
	table atomic.Pointer[nodeTable]
	last  atomic.Pointer[fwk.NodeInfo] // the first node of the list that the last cycle had
}

// of returns the table of a list of nodes, nil if it has not proved worth while yet to make one: while nodes come and go the
// scheduler has another list in each cycle. The scheduler replaces its list as a whole when a node comes or goes, and the
// NodeInfo of a name stays the same until then.
func (t *nodeTables) of(nodes []fwk.NodeInfo, snapshot *ledger.Snapshot) *nodeTable {
	if len(nodes) == 0 {
		return nil
	}
	known := t.table.Load()
	if known != nil && &known.nodes[0] == &nodes[0] && len(known.nodes) == len(nodes) && known.count == snapshot.Places() {
		return known
	}
	if t.last.Swap(&nodes[0]) != &nodes[0] {
		return nil
	}
	made := &nodeTable{nodes: nodes, places: make(map[*framework.NodeInfo]int32, len(nodes)), count: snapshot.Places(), all: true}
	for _, node := range nodes {
		info, ok := node.(*framework.NodeInfo)
		place, placed := int32(0), false
		if ok {
			place, placed = snapshot.Place(info.Node().Name)
		}
		if !placed {
			made.all = false
			continue
		}
		made.places[info] = place
	}
	t.table.Store(made)
	return made
}

// place returns where the cycle's snapshot has a node's agent; ok is false if it has never had one.
func (c *cycleState) place(node fwk.NodeInfo) (place int32, ok bool) {
	if c.table != nil {
		if info, is := node.(*framework.NodeInfo); is {
			if place, ok = c.table.places[info]; ok {
				return place, true
			}
		}
	}
	return c.snapshot.Place(node.Node().Name)
}

// view returns what the cycle's snapshot shows of a node's agent.
func (c *cycleState) view(node fwk.NodeInfo) *ledger.View {
	if place, ok := c.place(node); ok {
		return c.snapshot.At(place)
	}
	return nil
}
