// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// example is what a file of manifests/examples needs and shows.
type example struct {
	pods    int    // 1 by default
	rights  string // a file of manifests/optional
	options worldOptions
	before  func(w *world)
	check   func(w *world, pods []corev1.Pod)
}

// examples are those that need more than a Mesos cluster and their args, or that show more than running pods.
var examples = map[string]example{
	"deployment.yaml": {pods: 3},
	"job.yaml":        {pods: 4},
	"attributes.yaml": {
		options: worldOptions{sim: func(o *mesossim.Options) { o.Agents[2].Attributes = "rack:r1" }},
		check: func(w *world, pods []corev1.Pod) {
			if node := pods[0].Spec.NodeName; node != w.nodes[2] {
				w.Errorf("it runs on %s, want %s", node, w.nodes[2])
			}
		},
	},
	"gang.yaml": {
		pods:    3,
		rights:  "gangs-rbac.yaml",
		options: worldOptions{args: []string{"--feature-gates=GenericWorkload=true"}},
	},
	"gang-reserved.yaml": {
		pods:    3,
		rights:  "gangs-rbac.yaml",
		options: worldOptions{args: []string{"--feature-gates=GenericWorkload=true"}},
	},
	"gpu.yaml": {
		options: worldOptions{agents: 1, resources: "cpus:4;mem:8192;disk:2000;gpus(kubernetes):2"},
		before: func(w *world) {
			for _, node := range w.nodes {
				_, err := shared.Client.CoreV1().Nodes().Patch(w.ctx, node, types.MergePatchType,
					[]byte(`{"status":{"capacity":{"nvidia.com/gpu":"2"},"allocatable":{"nvidia.com/gpu":"2"}}}`), metav1.PatchOptions{}, "status")
				w.ok(err)
			}
		},
		check: func(w *world, pods []corev1.Pod) {
			held := 0.0
			for _, r := range w.taskOf(&pods[0]).Resources.Raw {
				if r.Name == "gpus" {
					held += r.GetScalar().GetValue()
				}
			}
			if held != 1 {
				w.Errorf("the task holds %v GPUs", held)
			}
		},
	},
	"host-port.yaml": {check: func(w *world, pods []corev1.Pod) {
		if ports := fmt.Sprint(w.taskOf(&pods[0]).Resources.Ports); ports != "[{31080 31080}]" {
			w.Errorf("the task holds ports %s", ports)
		}
	}},
	"host-ports-by-name.yaml": {check: func(w *world, pods []corev1.Pod) {
		// What the downward API hands over is there, and is what the task holds.
		ports := map[string]bool{}
		for _, v := range pods[0].Spec.Containers[0].Env {
			key := strings.TrimSuffix(strings.TrimPrefix(v.ValueFrom.FieldRef.FieldPath, "metadata.annotations['"), "']")
			ports[pods[0].Annotations[key]] = true
		}
		n := 0
		for _, r := range w.taskOf(&pods[0]).Resources.Ports {
			for port := r.Begin; port <= r.End; port++ {
				n++
				if !ports[fmt.Sprint(port)] {
					w.Errorf("the task holds port %d, the pod is told %v", port, ports)
				}
			}
		}
		if n != 2 || len(ports) != 2 {
			w.Errorf("the task holds %d ports, the pod is told %v", n, ports)
		}
	}},
	"maintenance.yaml": {pods: 2, rights: "drain-rbac.yaml"},
	"preemption.yaml": {
		options: worldOptions{agents: 1, edit: preemptionOn},
		before: func(w *world) {
			w.pod("victim", "3500m", "64Mi")
			w.waitRunning("victim")
		},
		check: func(w *world, _ []corev1.Pod) {
			if _, err := w.get("victim"); err == nil {
				w.Error("the victim is still there")
			}
			w.ok(shared.Client.SchedulingV1().PriorityClasses().Delete(w.ctx, "important", metav1.DeleteOptions{}))
		},
	},
	"revocable.yaml": {
		options: worldOptions{agents: 1, resources: "cpus:0.5;mem:512;disk:2000;cpus{REV}:4;mem{REV}:4096"},
		check: func(w *world, pods []corev1.Pod) {
			for _, r := range w.taskOf(&pods[0]).Resources.Raw {
				if r.Revocable == nil {
					w.Errorf("the task holds %v, which is not revocable", r)
				}
			}
		},
	},
	"role.yaml": {check: func(w *world, pods []corev1.Pod) {
		for _, r := range w.taskOf(&pods[0]).Resources.Raw {
			if role := r.AllocationInfo.GetRole(); role != "batch" {
				w.Errorf("%s is charged to role %s", r.Name, role)
			}
		}
	}},
}

// taskOf returns the live task of a pod.
func (w *world) taskOf(pod *corev1.Pod) mesossim.Task {
	w.Helper()
	return w.waitTask(pod.Annotations[wellknown.TaskIDAnnotation], "TASK_RUNNING")
}

// neededArgs reads the args that an example asks for in its comment.
func neededArgs(text string) (map[string]any, error) {
	_, after, ok := strings.Cut(text, "these args:\n")
	if !ok {
		return nil, nil
	}
	var block strings.Builder
	for line := range strings.Lines(after) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		if arg, ok := strings.CutPrefix(line, "#     "); ok {
			block.WriteString(arg)
		}
	}
	args := map[string]any{}
	return args, yaml.UnmarshalStrict([]byte(block.String()), &args)
}

// TestExamples applies every file of manifests/examples with the args that it asks for, and waits until its pods run.
func TestExamples(t *testing.T) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "manifests", "examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			e := examples[name]
			if e.options.mesos, err = neededArgs(string(text)); err != nil {
				t.Fatalf("the args in its comment: %v", err)
			}
			if e.rights != "" { // before the scheduler starts
				if _, err := shared.Apply(t.Context(), filepath.Join(root, "manifests", "optional", e.rights)); err != nil {
					t.Fatal(err)
				}
			}
			w := newWorld(t, e.options)
			if e.before != nil {
				e.before(w)
			}
			_, err = shared.Kubectl(w.ctx, "apply", "--server-side", "--validate=strict", "--namespace="+w.namespace, "--filename="+file)
			w.ok(err)
			pods := w.waitExample(max(e.pods, 1))
			if e.check != nil {
				e.check(w, pods)
			}
			w.settle()
		})
	}
}

// waitExample waits until so many pods of an example run, and returns them.
func (w *world) waitExample(n int) (running []corev1.Pod) {
	w.Helper()
	w.waitFor(fmt.Sprintf("%d pods of the example running", n), func() error {
		pods, err := shared.Client.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		running = nil
		var waiting []string
		for i := range pods.Items {
			p := &pods.Items[i]
			switch {
			case p.Name == "victim":
			case p.Status.Phase == corev1.PodRunning && p.Annotations[wellknown.TaskIDAnnotation] != "":
				running = append(running, *p)
			default:
				waiting = append(waiting, fmt.Sprintf("%s %s: %s", p.Name, p.Status.Phase, conditions(p)))
			}
		}
		if len(running) != n {
			return fmt.Errorf("%d run, these wait: %v", len(running), waiting)
		}
		return nil
	})
	return running
}
