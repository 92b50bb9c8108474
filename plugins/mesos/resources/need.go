// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"math"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Need is what one pod asks of an agent, counted once.
type Need struct {
	Amounts
	// Ports are the host ports, sorted, each number once.
	Ports []int32
	// AnyPorts is how many more host ports are wanted, whichever they are. Once they are chosen they are among Ports, and
	// Chosen has them in the order in which the pod names them.
	AnyPorts int
	Chosen   []int32
	// Role is the Mesos role whose offers the pod may use.
	Role string
	// Revocable says that the pod takes revocable resources, and only those.
	Revocable bool
	// Limits are what Mesos is told of the pod's limits, 0 where there is none.
	Limits Amounts
}

// String writes the need as Mesos does: `cpus:0.5;mem:128;ports:[31000-31000]`.
func (n Need) String() string {
	s := n.Amounts.String()
	if len(n.Ports) > 0 {
		s += ";ports:" + PortsOf(n.Ports...).String()
	}
	if n.AnyPorts > 0 {
		s += ";ports:any " + strconv.Itoa(n.AnyPorts)
	}
	return s
}

// Choose returns the need with ports of a set in place of any ones; ok is false if the set has too few.
func (n Need) Choose(free PortSet) (chosen Need, ok bool) {
	if n.AnyPorts == 0 {
		return n, true
	}
	numbers := free.Minus(PortsOf(n.Ports...)).First(n.AnyPorts)
	if len(numbers) < n.AnyPorts {
		return n, false
	}
	return n.WithPorts(numbers), true
}

// WithPorts returns the need with chosen ports in place of any ones.
func (n Need) WithPorts(chosen []int32) Need {
	n.Chosen, n.AnyPorts = chosen, 0
	n.Ports = slices.Concat(n.Ports, chosen)
	slices.Sort(n.Ports)
	n.Ports = slices.Compact(n.Ports)
	return n
}

// NeedOf counts the requests of a pod as kube-scheduler and the kubelet do (init containers, sidecars, overhead,
// pod-level resources), rounded up to thousandths. Where less is asked of cpus or memory than floor, floor counts:
// Mesos refuses a task without resources. Ephemeral storage is disk; every other resource is Kubernetes' own business.
func NeedOf(pod *v1.Pod, floor Amounts) Need {
	need := Need{Amounts: AmountsOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true}))}
	need.CPUs, need.Mem = max(need.CPUs, floor.CPUs), max(need.Mem, floor.Mem)
	need.Ports = hostPorts(pod)
	return need
}

// AmountsOf returns what a list of Kubernetes has of cpu, memory and ephemeral storage, rounded up to thousandths.
func AmountsOf(list v1.ResourceList) Amounts {
	return Amounts{
		CPUs: milli(list[v1.ResourceCPU]),
		Mem:  milliMiB(list[v1.ResourceMemory]),
		Disk: milliMiB(list[v1.ResourceEphemeralStorage]),
	}
}

// gpuResource is the extended resource that stands for Mesos' gpus.
const gpuResource = "nvidia.com/gpu"

// GPUsOf returns the GPUs that a pod requests, in thousandths.
func GPUsOf(pod *v1.Pod) int64 {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return milli(requests[gpuResource])
}

// milli returns a quantity of whole units in thousandths, rounded up and held within what an offer can have.
func milli(q resource.Quantity) int64 {
	if q.Sign() <= 0 {
		return 0
	}
	if q.CmpInt64(maxMilli/1000) > 0 {
		return maxMilli
	}
	return q.MilliValue()
}

// milliMiB returns a quantity of bytes in thousandths of a MiB, rounded up. Mesos calls the unit MB and means MiB.
func milliMiB(q resource.Quantity) int64 {
	if q.Sign() <= 0 {
		return 0
	}
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return maxMilli
	}
	bytes := q.Value()
	whole, rest := bytes>>20, bytes&(1<<20-1)
	if whole > maxMilli/1000 {
		return maxMilli
	}
	return whole*1000 + int64(math.Ceil(float64(rest)*1000/(1<<20)))
}

// hostPorts returns the numbers that a pod takes on its host: those of its containers and of its sidecars, as
// kube-scheduler counts them. A plain init container's port is ignored.
func hostPorts(pod *v1.Pod) []int32 {
	var ports []int32
	add := func(c *v1.Container) {
		for _, p := range c.Ports {
			port := p.HostPort
			if port == 0 && pod.Spec.HostNetwork {
				port = p.ContainerPort
			}
			if port > 0 {
				ports = append(ports, port)
			}
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}
