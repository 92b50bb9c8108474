// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
)

// PreEnqueue holds a pod back for a moment when offers of its role have yet to be asked for: they come within
// milliseconds, and a first attempt without them would only be a failed one on record. It is called under the scheduling
// queue's lock and takes only short ones.
func (m *Mesos) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	need, err := m.system.needs.of(pod)
	if err != nil || !m.system.session.Cold(need.Role) {
		m.system.ledger.Enter(pod.UID)
		return nil
	}
	m.system.ledger.Expect(pod, need, corev1helpers.PodPriority(pod))
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "asking the Mesos master for offers")
}

// EventsToRegister names the changes in Kubernetes that can help a pod that this plugin has refused. Offers are no such
// change: pods that an offer can hold are activated.
func (m *Mesos) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, QueueingHintFn: m.nodeAdded},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodScaleDown}, QueueingHintFn: nil}, // it asks for less itself
	}, nil
}

// nodeAdded queues a pod when a node comes whose agent was known before and fits.
func (m *Mesos) nodeAdded(logger klog.Logger, pod *v1.Pod, _, added any) (fwk.QueueingHint, error) {
	node, ok := added.(*v1.Node)
	if !ok {
		return fwk.Queue, nil
	}
	need, err := m.system.needs.of(pod)
	if err != nil {
		return fwk.QueueSkip, nil
	}
	if m.system.ledger.Snapshot().Node(node.Name).Fit(need, m.system.lead, m.system.clock.Now()) == ledger.Fits {
		logger.V(5).Info("Node of a Mesos agent with room was added", "pod", klog.KObj(pod), "node", node.Name)
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}
