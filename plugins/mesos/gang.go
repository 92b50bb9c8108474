// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// gangs are the barriers of the pod groups whose members are in Bind. After Permit every member binds for itself; with a
// gang policy none must be bound before enough of them have a live task, or a part of the gang would run alone.
type gangs struct {
	mu    sync.Mutex
	gates map[types.NamespacedName]*gate
}

// gate is the barrier of one group.
type gate struct {
	members int // in Bind
	arrived map[types.UID]bool
	open    chan struct{}
	failed  chan struct{}
	cause   error
}

// errGang says that a pod is not bound because another member of its gang was not launched.
var errGang = errors.New("another member of the pod's gang was not launched")

// gangOf returns the group of a pod and how many of its members have to be live at once, 0 if the pod is in no gang.
// assigned counts the members that are bound already.
func gangOf(pod *v1.Pod, manager fwk.PodGroupManager) (group types.NamespacedName, minCount, assigned int) {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil || manager == nil {
		return group, 0, 0
	}
	group = types.NamespacedName{Namespace: pod.Namespace, Name: *pod.Spec.SchedulingGroup.PodGroupName}
	podGroup, err := manager.PodGroups().Get(group.Namespace, group.Name)
	if err != nil || podGroup.Spec.SchedulingPolicy.Gang == nil {
		return group, 0, 0
	}
	if state, err := manager.PodGroupStates().Get(group.Namespace, group.Name); err == nil {
		assigned = len(state.AssignedPods())
	}
	return group, int(podGroup.Spec.SchedulingPolicy.Gang.MinCount), assigned
}

// heldGang returns the UID of the gang whose claims are to be held by reservations; "" if the pod is in none, or they are not.
func (m *Mesos) heldGang(pod *v1.Pod) string {
	if !m.args.ReserveForGangs {
		return ""
	}
	group, minCount, assigned := gangOf(pod, m.handle.PodGroupManager())
	if minCount <= assigned {
		return ""
	}
	podGroup, err := m.handle.PodGroupManager().PodGroups().Get(group.Namespace, group.Name)
	if err != nil {
		return ""
	}
	return string(podGroup.UID)
}

// holdGangs tells the ledger in whose name room is reserved for gangs. Also without the option: what was reserved before it
// was switched off has to be given back.
func (s *System) holdGangs(ctx context.Context) {
	cluster, err := s.needs.namespaces.Get(metav1.NamespaceSystem)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot identify the cluster; no room is reserved for gangs")
		return
	}
	s.ledger.HoldAs(resources.Holder{Principal: s.args.Authentication.Principal, Cluster: string(cluster.UID)})
}

// enter joins the gate of a group; leave must follow.
func (g *gangs) enter(group types.NamespacedName) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gates == nil {
		g.gates = map[types.NamespacedName]*gate{}
	}
	b := g.gates[group]
	if b == nil {
		b = &gate{arrived: map[types.UID]bool{}, open: make(chan struct{}), failed: make(chan struct{})}
		g.gates[group] = b
	}
	b.members++
	return b
}

func (g *gangs) leave(group types.NamespacedName, b *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.members--; b.members == 0 && g.gates[group] == b {
		delete(g.gates, group)
	}
}

// arrive notes that a member has a live task, and opens the gate when that makes enough of them.
func (g *gangs) arrive(b *gate, uid types.UID, enough int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b.arrived[uid] = true
	if len(b.arrived) >= enough && !closed(b.open) {
		close(b.open)
	}
}

// fail has every member that waits fail, unless the gate is open: then enough members live without this one. Members that
// enter later meet a new gate.
func (g *gangs) fail(group types.NamespacedName, b *gate, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if closed(b.open) || closed(b.failed) {
		return
	}
	b.cause = fmt.Errorf("%w: %w", errGang, cause)
	close(b.failed)
	if g.gates[group] == b {
		delete(g.gates, group)
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// wait waits until the gate is open.
func (b *gate) wait(ctx context.Context, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-b.open:
		return nil
	case <-b.failed:
		return b.cause
	case <-timer.C:
		return fmt.Errorf("%w: not enough of them were live within %s", errGang, limit)
	case <-ctx.Done():
		return ctx.Err()
	}
}
