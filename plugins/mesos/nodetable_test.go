// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"slices"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// A table is made for a list that is seen twice, and never used for another list.
func TestNodeTables(t *testing.T) {
	_, nodes, book := benchmarkWorld()
	snapshot := book.Snapshot()
	tables := &nodeTables{}
	if tables.of(nodes, snapshot) != nil {
		t.Error("a table was made for a list that was seen once")
	}
	made := tables.of(nodes, snapshot)
	if made == nil || !made.all || tables.of(nodes, snapshot) != made {
		t.Fatal("a list that stays has one table")
	}
	c := &cycleState{snapshot: snapshot, table: made}
	for _, node := range nodes {
		if v := c.view(node); v == nil || v != snapshot.Node(node.Node().Name) {
			t.Fatalf("the table finds another agent for %s", node.Node().Name)
		}
	}
	// Preemption works on copies of nodes.
	if copied := nodes[7].Snapshot(); c.view(copied) != snapshot.Node(nodes[7].Node().Name) {
		t.Error("a copy of a node has another agent")
	}

	stranger := framework.NewNodeInfo()
	stranger.SetNode(st.MakeNode().Name("stranger").Obj())
	other := append(slices.Clone(nodes), fwk.NodeInfo(stranger))
	if tables.of(other, snapshot) != nil {
		t.Error("a table was used for another list")
	}
	made = tables.of(other, snapshot)
	if made == nil || made.all {
		t.Error("a node without an agent is part of a table that has all")
	}
	c.table = made
	if c.view(stranger) != nil {
		t.Error("a node without an agent has one")
	}
}
