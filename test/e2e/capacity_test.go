// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// TestOvercommit shows on a node that its agent gives away what a pod outside Mesos uses, and takes it back when that
// pod is gone.
func TestOvercommit(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, resources: "cpus:64;mem:8192;disk:2000;ports:[31000-32000]"}) // the node has 64 cpus
	outside := w.pod("outside", "1500m", "64Mi", func(p *corev1.Pod) {
		p.Spec.SchedulerName = "nobody"
		p.Spec.NodeName = w.nodes[0]
	})
	w.pod("ours", "1", "64Mi")
	w.waitRunning("ours")
	w.waitOvercommit("cpus:1.5")
	event := func(reason, part string) {
		w.Helper()
		w.waitFor("event "+reason, func() error {
			events, err := shared.Client.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{FieldSelector: "reason=" + reason + ",involvedObject.name=" + w.nodes[0]})
			if err != nil {
				return err
			}
			for _, e := range events.Items {
				if contains(e.Message, part) {
					return nil
				}
			}
			return fmt.Errorf("%d events", len(events.Items))
		})
	}
	event("MesosOvercommit", "--resources of at most cpus:62.5")
	event("MesosPortsOverlap", "31000-32000")
	w.remove(outside.Name)
	w.waitOvercommit("")
}

// waitOvercommit waits until the first node shows by how much it is overcommitted.
func (w *world) waitOvercommit(want string) {
	w.Helper()
	w.waitFor("overcommit "+want, func() error {
		node, err := shared.Client.CoreV1().Nodes().Get(w.ctx, w.nodes[0], metav1.GetOptions{})
		if err == nil && node.Annotations[wellknown.NodeOvercommitAnnotation] != want {
			err = fmt.Errorf("it is %q", node.Annotations[wellknown.NodeOvercommitAnnotation])
		}
		return err
	})
}

// TestOvercommitOfWhatOthersUse counts what another framework has used for as long as this scheduler has lived: the executor
// tells what the agent has in all.
func TestOvercommitOfWhatOthersUse(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 1, resources: "cpus:64;mem:8192;disk:2000"}) // the node has 64 cpus
	rival, err := w.sim.StartRival(w.ctx, mesossim.RivalOptions{Role: "rival", CPUs: 40, MaxTasks: 1})
	w.ok(err)
	t.Cleanup(rival.Stop)
	w.waitFor("the other framework to use the agent", func() error {
		if n := rival.Live(); n != 1 {
			return fmt.Errorf("it has %d tasks", n)
		}
		return nil
	})
	w.ok(w.scheduler.Kill()) // it has seen the agent before
	w.ok(w.scheduler.Start())
	w.pod("outside", "1500m", "64Mi", func(p *corev1.Pod) {
		p.Spec.SchedulerName = "nobody"
		p.Spec.NodeName = w.nodes[0]
	})
	w.pod("ours", "1", "64Mi")
	w.waitRunning("ours")
	w.waitOvercommit("cpus:1.5")
}
