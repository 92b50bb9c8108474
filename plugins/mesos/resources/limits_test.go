// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestLimitsOf(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		l := v1.ResourceList{}
		if cpu != "" {
			l[v1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[v1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	container := func(cpu, memory string) v1.Container {
		return v1.Container{Resources: v1.ResourceRequirements{Limits: list(cpu, memory)}}
	}
	always := v1.ContainerRestartPolicyAlways
	sidecar := container("250m", "64Mi")
	sidecar.RestartPolicy = &always
	for _, test := range []struct {
		name string
		spec v1.PodSpec
		held Amounts
		want Amounts
	}{
		{"no limits", v1.PodSpec{Containers: []v1.Container{container("", "")}}, Amounts{CPUs: 100}, Amounts{}},
		{"both", v1.PodSpec{Containers: []v1.Container{container("500m", "1Gi"), container("1", "1Gi")}}, Amounts{}, Amounts{CPUs: 1500, Mem: 2048_000}},
		{"one container may use all memory", v1.PodSpec{Containers: []v1.Container{container("500m", "1Gi"), container("1", "")}}, Amounts{}, Amounts{CPUs: 1500}},
		{"an init container may", v1.PodSpec{InitContainers: []v1.Container{container("", "1Gi")}, Containers: []v1.Container{container("1", "1Gi")}}, Amounts{}, Amounts{Mem: 1024_000}},
		{"a greater init container", v1.PodSpec{InitContainers: []v1.Container{container("3", "1Gi")}, Containers: []v1.Container{container("1", "1Gi")}}, Amounts{}, Amounts{CPUs: 3000, Mem: 1024_000}},
		{"a sidecar", v1.PodSpec{InitContainers: []v1.Container{sidecar}, Containers: []v1.Container{container("1", "64Mi")}}, Amounts{}, Amounts{CPUs: 1250, Mem: 128_000}},
		{"overhead", v1.PodSpec{Containers: []v1.Container{container("1", "64Mi")}, Overhead: list("250m", "64Mi")}, Amounts{}, Amounts{CPUs: 1250, Mem: 128_000}},
		{"of the pod", v1.PodSpec{Containers: []v1.Container{container("", ""), container("1", "")}, Resources: &v1.ResourceRequirements{Limits: list("1500m", "1Gi")}}, Amounts{}, Amounts{CPUs: 1500, Mem: 1024_000}},
		{"below what the task holds at least", v1.PodSpec{Containers: []v1.Container{container("5m", "16Mi")}}, Amounts{CPUs: 10, Mem: 32_000}, Amounts{CPUs: 10, Mem: 32_000}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := LimitsOf(&v1.Pod{Spec: test.spec}, test.held); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestTaskLimits(t *testing.T) {
	if got := (Amounts{}).TaskLimits(); got != nil {
		t.Errorf("no limits are %v", got)
	}
	got := Amounts{CPUs: 1500, Mem: 128_500}.TaskLimits()
	if s := fmt.Sprint(got["cpus"].Value, got["mem"].Value, len(got)); s != "1.5 128.5 2" {
		t.Errorf("limits %s", s)
	}
}
