// SPDX-License-Identifier: Apache-2.0

package resources

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// LimitsOf returns the limits of a pod's cpu and memory as Kubernetes counts them, 0 where the pod as a whole has none:
// a container without a limit may use all that is there. held is what the pod's task holds; Mesos wants no limit below it.
func LimitsOf(pod *v1.Pod, held Amounts) (limits Amounts) {
	sums := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	if limited(pod, v1.ResourceCPU) {
		limits.CPUs = max(milli(sums[v1.ResourceCPU]), held.CPUs)
	}
	if limited(pod, v1.ResourceMemory) {
		limits.Mem = max(milliMiB(sums[v1.ResourceMemory]), held.Mem)
	}
	return limits
}

// limited says whether the pod, or each of its containers, has a limit of a resource.
func limited(pod *v1.Pod, name v1.ResourceName) bool {
	if pod.Spec.Resources != nil {
		if _, ok := pod.Spec.Resources.Limits[name]; ok {
			return true
		}
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if _, ok := containers[i].Resources.Limits[name]; !ok {
				return false
			}
		}
	}
	return true
}

// TaskLimits writes limits as TaskInfo.limits has them; nil is none.
func (a Amounts) TaskLimits() map[string]mesos.Value_Scalar {
	var out map[string]mesos.Value_Scalar
	for name, amount := range map[string]int64{CPUs: a.CPUs, Mem: a.Mem} {
		if amount == 0 {
			continue
		}
		if out == nil {
			out = map[string]mesos.Value_Scalar{}
		}
		out[name] = mesos.Value_Scalar{Value: toScalar(amount)}
	}
	return out
}
