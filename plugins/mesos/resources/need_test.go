// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

var floor = Amounts{CPUs: 10, Mem: 32_000}

func requests(pairs ...string) v1.ResourceRequirements {
	list := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return v1.ResourceRequirements{Requests: list}
}

func container(pairs ...string) v1.Container { return v1.Container{Resources: requests(pairs...)} }

func sidecar(c v1.Container) v1.Container {
	c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	return c
}

func ports(c v1.Container, ports ...v1.ContainerPort) v1.Container {
	c.Ports = ports
	return c
}

func TestNeedOfRounding(t *testing.T) {
	tests := []struct {
		name string
		pod  []string
		want Amounts
	}{
		{"whole", []string{"cpu", "2", "memory", "1Gi", "ephemeral-storage", "2Gi"}, Amounts{CPUs: 2000, Mem: 1024_000, Disk: 2048_000}},
		{"one byte is rounded up", []string{"cpu", "1", "memory", "67108865"}, Amounts{CPUs: 1000, Mem: 64_001}},
		{"a nano cpu is rounded up", []string{"cpu", "1000000001n", "memory", "32Mi"}, Amounts{CPUs: 1001, Mem: 32_000}},
		{"decimal megabytes are fewer MiB, rounded up", []string{"cpu", "1", "memory", "100M"}, Amounts{CPUs: 1000, Mem: 95_368}},
		{"the last byte of a MiB", []string{"cpu", "1", "memory", "134217727"}, Amounts{CPUs: 1000, Mem: 128_000}},
		{"less than the floor is the floor", []string{"cpu", "1m", "memory", "1Mi"}, floor},
		{"more than any offer can have", []string{"cpu", "9000000000000000000", "memory", "9223372036854775807"}, Amounts{CPUs: maxMilli, Mem: maxMilli}},
		{"negative counts as nothing", []string{"cpu", "-1", "memory", "-1Gi"}, floor},
		{"other resources are Kubernetes' own business", []string{"cpu", "1", "memory", "1Gi", "example.com/x", "3"}, Amounts{CPUs: 1000, Mem: 1024_000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := NeedOf(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container(tt.pod...)}}}, floor)
			if diff := cmp.Diff(tt.want, got.Amounts); diff != "" {
				t.Errorf("need (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestC04_PodsWithoutRequestsGetTheFloor(t *testing.T) {
	none := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{}}}}
	zero := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container("cpu", "0", "memory", "0")}}}
	limits := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"cpu": resource.MustParse("7")}}}}}}
	for name, pod := range map[string]*v1.Pod{"none": none, "zero": zero, "limits are no requests": limits} {
		if got := NeedOf(pod, floor).Amounts; got != floor {
			t.Errorf("%s: %v, want the floor %v", name, got, floor)
		}
	}
	// 200 such pods on cpus 2, mem 1024: the memory of the floor ends it at 32.
	offered, _ := ParseOffer(res(t, "cpus:2;mem:1024"))
	n := 0
	for ; n < 200; n++ {
		held, err := offered.Take(NeedOf(none, floor).Amounts, nil)
		if err != nil {
			break
		}
		if got := text(held); got != "cpus:0.01;mem:32" {
			t.Fatalf("task %d holds %s", n, got)
		}
	}
	if n != 32 {
		t.Errorf("%d pods fit, want 32", n)
	}
}

func TestC06_SidecarsInitContainersOverheadAndPodLevelRequests(t *testing.T) {
	tests := []struct {
		name string
		pod  v1.PodSpec
		cpus int64
	}{
		{"X: sidecar beside main", v1.PodSpec{Containers: []v1.Container{container("cpu", "4")}, InitContainers: []v1.Container{sidecar(container("cpu", "250m"))}}, 4250},
		{"Y: init is a maximum", v1.PodSpec{Containers: []v1.Container{container("cpu", "30m")}, InitContainers: []v1.Container{container("cpu", "3")}}, 3000},
		{"Z: init after a sidecar, and overhead", v1.PodSpec{
			Containers:     []v1.Container{container("cpu", "1")},
			InitContainers: []v1.Container{sidecar(container("cpu", "500m")), container("cpu", "2")},
			Overhead:       v1.ResourceList{"cpu": resource.MustParse("250m")},
		}, 2750},
		{"W: pod level replaces containers", v1.PodSpec{
			Containers: []v1.Container{container("cpu", "1"), container("cpu", "1")},
			Resources:  ptr.To(requests("cpu", "1500m")),
		}, 1500},
	}
	offer, _ := ParseOffer(res(t, "cpus:4;mem:8192"))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: tt.pod}
			need := NeedOf(pod, floor)
			if need.CPUs != tt.cpus {
				t.Errorf("cpus %d, want %d", need.CPUs, tt.cpus)
			}
			same := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
			if got := same[v1.ResourceCPU]; got.MilliValue() != need.CPUs {
				t.Errorf("cpus %d, kube-scheduler and the kubelet count %d", need.CPUs, got.MilliValue())
			}
			if fits := need.FitsIn(offer.Amounts); fits != (tt.cpus <= 4000) {
				t.Errorf("fits in 4 cpus: %v", fits)
			}
		})
	}
}

func TestC07_AResizeCountsTheMostOfWantedAllocatedAndActual(t *testing.T) {
	resized := func(spec, allocated, actual string, infeasible bool) *v1.Pod {
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: requests("cpu", spec)}}}}
		actualRequests := requests("cpu", actual)
		pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", AllocatedResources: requests("cpu", allocated).Requests, Resources: &actualRequests}}
		if infeasible {
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonInfeasible}}
		}
		return pod
	}
	for name, tt := range map[string]struct {
		pod  *v1.Pod
		want int64
	}{
		"growth that is deferred":   {resized("1500m", "500m", "500m", false), 1500},
		"shrink not yet done":       {resized("500m", "2", "2", false), 2000},
		"shrink done":               {resized("500m", "500m", "500m", false), 500},
		"growth that is infeasible": {resized("100", "500m", "500m", true), 500},
	} {
		if got := NeedOf(tt.pod, floor).CPUs; got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

func TestC09_OneNumberForTCPAndUDP(t *testing.T) {
	port := func(n int32, p v1.Protocol) v1.ContainerPort {
		return v1.ContainerPort{HostPort: n, ContainerPort: n, Protocol: p}
	}
	a := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{ports(container("cpu", "1"),
		port(8300, v1.ProtocolTCP), port(8301, v1.ProtocolTCP), port(8301, v1.ProtocolUDP), port(8302, v1.ProtocolTCP),
		port(8302, v1.ProtocolUDP), port(8400, v1.ProtocolTCP), port(53, v1.ProtocolUDP), port(53, v1.ProtocolTCP))}}}
	need := NeedOf(a, floor)
	if diff := cmp.Diff([]int32{53, 8300, 8301, 8302, 8400}, need.Ports); diff != "" {
		t.Fatalf("ports (-want,+got):\n%s", diff)
	}
	offer, _ := ParseOffer(res(t, "cpus:4;mem:4096;ports:[53-53, 8000-9000]"))
	held, err := offer.Take(need.Amounts, need.Ports)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(held); got != "cpus:1;mem:32;ports:[53-53, 8300-8302, 8400-8400]" {
		t.Errorf("the task holds %s", got)
	}
	// Another pod's 8301/UDP is the same number.
	if _, err := offer.Take(floor, []int32{8301}); err == nil {
		t.Error("port 8301 was given out twice")
	}
}

func TestC10_WhichPortsCount(t *testing.T) {
	tests := []struct {
		name string
		spec v1.PodSpec
		want []int32
	}{
		{"container", v1.PodSpec{Containers: []v1.Container{ports(container(), v1.ContainerPort{HostPort: 80})}}, []int32{80}},
		{"sidecar", v1.PodSpec{Containers: []v1.Container{{}}, InitContainers: []v1.Container{sidecar(ports(container(), v1.ContainerPort{HostPort: 31081}))}}, []int32{31081}},
		{"init container is ignored", v1.PodSpec{Containers: []v1.Container{{}}, InitContainers: []v1.Container{ports(container(), v1.ContainerPort{HostPort: 31081})}}, nil},
		{"no host port", v1.PodSpec{Containers: []v1.Container{ports(container(), v1.ContainerPort{ContainerPort: 8080})}}, nil},
		{"host network", v1.PodSpec{HostNetwork: true, Containers: []v1.Container{ports(container(), v1.ContainerPort{ContainerPort: 8080})}}, []int32{8080}},
		{"ephemeral containers have none", v1.PodSpec{Containers: []v1.Container{{}}, EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Ports: []v1.ContainerPort{{HostPort: 9}}}}}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := NeedOf(&v1.Pod{Spec: tt.spec}, floor).Ports
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ports (-want,+got):\n%s", diff)
			}
		})
	}
	offer, _ := ParseOffer(res(t, "cpus:4;mem:4096;ports:[31000-32000]"))
	if _, err := offer.Take(floor, []int32{80}); err == nil {
		t.Error("port 80 is not in the offered ports")
	}
}

func TestNeedString(t *testing.T) {
	n := Need{Amounts: Amounts{CPUs: 500, Mem: 128_250, GPUs: 1000}, Ports: []int32{31000, 31001}}
	if got, want := n.String(), "cpus:0.5;mem:128.25;gpus:1;ports:[31000-31001]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
