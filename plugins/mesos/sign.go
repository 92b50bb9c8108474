// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// SignPod signs what Filter and Score read of a pod: its need and its role.
func (m *Mesos) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	need, err := m.system.needs.of(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	value := need.Role + "/" + need.String()
	if need.Revocable {
		value += "/revocable"
	}
	return []fwk.SignFragment{{Key: wellknown.Domain + "/need", Value: value}}, nil
}
