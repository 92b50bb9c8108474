// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// newGangWorld is newWorld for a scheduler with gang scheduling switched on.
func newGangWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	root, err := cluster.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Apply(t.Context(), filepath.Join(root, "manifests", "optional", "gangs-rbac.yaml")); err != nil {
		t.Fatal(err)
	}
	o.args = append(o.args, "--feature-gates=GenericWorkload=true")
	return newWorld(t, o)
}

// gang makes a PodGroup whose n pods NAME-0, NAME-1 and so on are placed together or not at all.
func (w *world) gang(name string, n int, cpu string) *schedulingv1beta1.PodGroup {
	w.Helper()
	group, err := shared.Client.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(n)},
		}},
	}, metav1.CreateOptions{})
	w.ok(err)
	for i := range n {
		w.pod(fmt.Sprintf("%s-%d", name, i), cpu, "64Mi", func(p *corev1.Pod) {
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		})
	}
	return group
}

// reserved returns the cpus that agents have reserved dynamically, by the UID of the pod group that they are for.
func (w *world) reserved() map[string]float64 {
	out := map[string]float64{}
	for _, agent := range w.sim.Agents() {
		for _, r := range agent.Total.Raw {
			if n := len(r.Reservations); r.Name == "cpus" && n > 0 && r.Reservations[n-1].GetType() == mesos.Resource_ReservationInfo_DYNAMIC {
				for _, l := range r.Reservations[n-1].GetLabels().GetLabels() {
					if l.Key == wellknown.GangReservationLabel {
						out[l.GetValue()] += r.GetScalar().GetValue()
					}
				}
			}
		}
	}
	return out
}

func (w *world) waitReserved(what string, want map[string]float64) {
	w.Helper()
	w.waitFor(what, func() error {
		if got := w.reserved(); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("reserved are %v, want %v", got, want)
		}
		return nil
	})
}

// TestGangIsReserved launches a gang one by one on an agent of which another framework wants whatever is given back: what
// the waiting members claim is reserved, and nothing is when all run.
func TestGangIsReserved(t *testing.T) {
	w := newGangWorld(t, worldOptions{agents: 1, resources: "cpus:4;mem:8192;disk:2000", timing: mesossim.Timing{AllocationInterval: 2 * time.Second}, mesos: map[string]any{
		"maxBatchTasks": 1, "reserveForGangs": true, "authentication": map[string]any{"principal": "kube"}, "idleAfter": "5m",
	}})
	// What is given back is offered again only when the allocator next looks at all agents.
	w.sim.Faults().Call(mesossim.CallFault{Call: "REVIVE", Times: -1, LoseCall: true})
	// While the first launch is on its way to the master the other framework comes. It has nothing yet, so it is next in turn.
	w.sim.Faults().Call(mesossim.CallFault{Call: "ACCEPT", Delay: 800 * time.Millisecond})
	group := w.gang("gang", 3, "1")
	w.waitFor("the agent to be offered", func() error {
		if offers := w.sim.Offers(); len(offers) != 1 || offers[0].Role != "kubernetes" {
			return fmt.Errorf("the offers are %v", offers)
		}
		return nil
	})
	rival, err := w.sim.StartRival(w.ctx, mesossim.RivalOptions{Role: "rival", Hold: true})
	w.ok(err)
	t.Cleanup(rival.Stop)
	w.waitReserved("the room of two members to be reserved", map[string]float64{string(group.UID): 2})
	for i := range 3 {
		pod := w.waitRunning(fmt.Sprintf("gang-%d", i))
		for _, r := range w.taskOf(pod).Resources.Raw {
			if len(r.Reservations) > 0 {
				t.Errorf("a task holds reserved %v", r)
			}
		}
	}
	w.waitReserved("reservations to be given back", map[string]float64{})
	w.settle()
}

// TestGangReservationsEnd gives reservations back when the gang gives up, and those that a scheduler leaves which is killed.
func TestGangReservationsEnd(t *testing.T) {
	w := newGangWorld(t, worldOptions{agents: 2, resources: "cpus:4;mem:8192;disk:2000", timing: mesossim.Timing{AllocationInterval: 10 * time.Second}, mesos: map[string]any{
		"maxBatchTasks": 1, "reserveForGangs": true, "idleAfter": "5m",
	}})
	// What the first launches leave over is not offered again for long: the gang waits for it, and at last gives up.
	w.sim.Faults().Call(mesossim.CallFault{Call: "REVIVE", Times: -1, LoseCall: true})
	group := w.gang("gang", 6, "1")
	w.waitReserved("the room of those that wait to be reserved", map[string]float64{string(group.UID): 4})
	remove := func() {
		zero := int64(0)
		w.ok(shared.Client.CoreV1().Pods(w.namespace).DeleteCollection(w.ctx, metav1.DeleteOptions{GracePeriodSeconds: &zero}, metav1.ListOptions{}))
	}
	remove()
	w.waitReserved("the reservations of a gang that is gone to be given back", map[string]float64{})

	group = w.gang("other", 6, "1")
	w.waitReserved("room to be reserved again", map[string]float64{string(group.UID): 4})
	w.ok(w.scheduler.Kill())
	remove()
	if got := w.reserved(); len(got) == 0 {
		t.Fatal("nobody was there to give reservations back, and yet they are gone")
	}
	w.sim.Faults().Clear()
	w.ok(w.scheduler.Start())
	w.waitReserved("the next leader to give back what it finds", map[string]float64{})
	w.waitFor("the tasks of the gang to end", func() error {
		if n := w.sim.CountLive(); n > 0 {
			return fmt.Errorf("%d live", n)
		}
		return nil
	})
	w.pod("alone", "3", "64Mi")
	w.waitRunning("alone")
	w.settle()
}

// TestC52_TwoGangsThatDoNotBothFit makes two gangs of four at one time with room for six pods: one runs as a whole, the other
// holds nothing until that is gone.
func TestC52_TwoGangsThatDoNotBothFit(t *testing.T) {
	w := newGangWorld(t, worldOptions{agents: 3, resources: "cpus:4.1;mem:8192;disk:2000", mesos: map[string]any{"reserveForGangs": true}})
	names := []string{"g1", "g2"}
	for _, name := range names {
		w.gang(name, 4, "2")
	}
	running := func(gang string) (n int) {
		for i := range 4 {
			if pod, err := w.get(fmt.Sprintf("%s-%d", gang, i)); err == nil && pod.Status.Phase == corev1.PodRunning {
				n++
			}
		}
		return n
	}
	var first, second string
	w.waitAtMost(30*time.Second, "one gang to run", func() error {
		a, b := running(names[0]), running(names[1])
		if a != 4 && b != 4 {
			return fmt.Errorf("%d and %d pods run", a, b)
		}
		first, second = names[0], names[1]
		if b == 4 {
			first, second = second, first
		}
		return nil
	})
	w.waitReason(second+"-0", "minCount")
	if n := w.sim.CountLive(); n != 4 {
		t.Errorf("%d tasks live, want the 4 of the gang that runs", n)
	}
	w.waitReserved("nothing to be reserved", map[string]float64{})
	for i := range 4 {
		w.remove(fmt.Sprintf("%s-%d", first, i))
	}
	for i := range 4 {
		w.waitRunning(fmt.Sprintf("%s-%d", second, i))
	}
	w.settle()
}
