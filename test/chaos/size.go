// SPDX-License-Identifier: Apache-2.0

package chaos

import "fmt"

// A size is what a world has of agents, and what its workload asks of them: on the whole the agents have far more, a single
// one can be filled.
type size struct {
	// kubelets names the kind of the kubelets: "kwok", or "hollow" for real kubelet code over a fake runtime.
	kubelets string
	agents   int
	// cpu and memory are those of an agent, in thousandths and in MiB.
	cpu, memory int64
	// deploymentPods and barePods bound the pods that there are at one time.
	deploymentPods, barePods int32
	// requests are what containers ask for, initCPU is what an init container does.
	requests []string
	initCPU  string
}

var (
	kwokSize   = size{"kwok", 6, 4000, 4096, 30, 14, []string{"1m", "50m", "100m", "250m", "400m"}, "300m"}
	hollowSize = size{"hollow", 3, 1000, 3400, 12, 8, []string{"1m", "20m", "50m", "100m"}, "100m"}
)

func (s size) resources() string {
	return fmt.Sprintf("cpus:%g;mem:%d;disk:20000;ports:[31000-31100]", float64(s.cpu)/1000, s.memory)
}
