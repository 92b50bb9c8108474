// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"fmt"
	"strings"
)

// workload is one workload of scheduler_perf.
type workload struct {
	name string
	// nodes are created from node, pods from pod; warm pods are scheduled before the measured ones.
	nodes, pods, warm int
	node, pod         string
	// batch is how many pods in a row have the same labels, so that kube-scheduler may place them in batches.
	batch int
	// stuck is how many pods that fit nowhere are in the queue.
	stuck int
	// churn creates and deletes nodes, services and pods that fit nowhere all the while.
	churn bool
}

// workloads are measured in this order. They are as large as they must be to last some seconds.
var workloads = []workload{
	{name: "basic", nodes: 5000, pods: 1500, warm: 500},
	{name: "basic", nodes: 500, pods: 1500, warm: 500},
	{name: "one-pod-a-node", nodes: 2000, pods: 1500, warm: 100, pod: "pod-one-a-node", batch: 5000},
	{name: "node-affinity", nodes: 2000, pods: 1500, warm: 300, pod: "pod-affinity"},
	{name: "topology-spreading", nodes: 2000, pods: 1500, warm: 300, pod: "pod-spreading"},
	{name: "few-big-agents", nodes: 3, pods: 1000, warm: 30, node: "node-big"},
	{name: "mixed-churn", nodes: 1000, pods: 1500, warm: 300, churn: true},
	{name: "unschedulable-in-queue", nodes: 1000, pods: 1500, warm: 300, stuck: 500},
}

// id names a workload on the command line.
func (w workload) id() string { return fmt.Sprintf("%s-%d", w.name, w.nodes) }

// measured is the namespace of the pods that count.
const measured = "measured"

// definition writes the workload as the harness reads it.
func (w workload) definition(schedulerConfig string) string {
	or := func(name, fallback string) string {
		if name == "" {
			name = fallback
		}
		return "testdata/" + name + ".yaml"
	}
	var b strings.Builder
	op := func(lines ...string) { fmt.Fprintf(&b, "  - %s\n", strings.Join(lines, "\n    ")) }
	fmt.Fprintf(&b, "- name: %s\n  schedulerConfigPath: %s\n  workloadTemplate:\n", w.name, schedulerConfig)
	op("opcode: createNodes", fmt.Sprintf("count: %d", w.nodes), "nodeTemplatePath: "+or(w.node, "node"))
	pods := func(namespace string, count int, template string, more ...string) {
		op(append([]string{"opcode: createPods", fmt.Sprintf("count: %d", count), "namespace: " + namespace, "podTemplatePath: " + template,
			fmt.Sprintf("signatureBatchSize: %d", max(w.batch, 1))}, more...)...)
	}
	pods("warm-up", w.warm, or(w.pod, "pod"))
	if w.stuck > 0 {
		pods("stuck", w.stuck, "testdata/pod-too-large.yaml", "skipWaitToCompletion: true")
		op("opcode: barrier", "namespaces: [stuck]", "stageRequirement: Attempted")
	}
	if w.churn {
		op("opcode: churn", "mode: recreate", "number: 1", "intervalMilliseconds: 1000",
			"templatePaths: [testdata/churn-node.yaml, testdata/pod-too-large.yaml, testdata/churn-service.yaml]")
	}
	pods(measured, w.pods, or(w.pod, "pod"), "collectMetrics: true")
	fmt.Fprintf(&b, "  workloads:\n  - name: %d-nodes\n    labels: [performance]\n    params: {}\n", w.nodes)
	return b.String()
}
