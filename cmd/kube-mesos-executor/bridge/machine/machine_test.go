// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

func TestMachine(t *testing.T) {
	const (
		pending   = corev1.PodPending
		run       = corev1.PodRunning
		succeeded = corev1.PodSucceeded
		failed    = corev1.PodFailed
	)
	tests := []struct {
		name    string
		force   time.Duration
		steps   []do
		want    []string
		message string // a part of the last update's message
	}{
		{
			name:  "a task is STARTING from its LAUNCH on",
			steps: []do{launch()},
			want:  []string{"STARTING"},
		},
		{
			name:  "a pod that is bound but not started changes nothing",
			steps: []do{launch(), pod(pending)},
			want:  []string{"STARTING"},
		},
		{
			name:  "a pod that runs makes the task RUNNING, once",
			steps: []do{launch(), pod(pending), runningPod, runningPod, populated},
			want:  []string{"STARTING", "RUNNING"},
		},
		{
			name:  "the pod can be there before the LAUNCH",
			steps: []do{runningPod, launch(func(r *taskinfo.Reference, _ *Launch) { r.Bound = true })},
			want:  []string{"STARTING", "RUNNING"},
		},
		{
			name:  "success",
			steps: []do{launch(), runningPod, pod(succeeded), invisible},
			want:  []string{"STARTING", "RUNNING", "FINISHED"},
		},
		{
			name:  "a pod that was never seen running still ends right",
			steps: []do{launch(), pod(succeeded), empty},
			want:  []string{"STARTING", "RUNNING", "FINISHED"},
		},
		{
			name:    "failure carries the pod's message",
			steps:   []do{launch(), runningPod, pod(failed, func(p *Pod) { p.Message = "container c ended with exit code 3" }), empty},
			want:    []string{"STARTING", "RUNNING", "FAILED"},
			message: "exit code 3",
		},
		{
			name:    "an evicted pod fails, and not before its processes are gone",
			steps:   []do{launch(), runningPod, pod(failed, func(p *Pod) { p.Message = "Evicted: The node was low on memory" }), populated, empty},
			want:    []string{"STARTING", "RUNNING", "FAILED"},
			message: "Evicted",
		},
		{
			name:  "a pod that the kubelet refused fails without having run",
			steps: []do{launch(), pod(pending), pod(failed, func(p *Pod) { p.Started = false }), empty},
			want:  []string{"STARTING", "FAILED"},
		},
		{
			name:  "a final phase is not the end while processes exist",
			steps: []do{launch(), runningPod, pod(succeeded), populated, after(time.Hour), populated},
			want:  []string{"STARTING", "RUNNING"},
		},
		{
			name:  "a final phase is not the end before anybody looked at the cgroups",
			steps: []do{launch(), runningPod, pod(succeeded)},
			want:  []string{"STARTING", "RUNNING"},
		},
		{
			name:    "malformed data",
			steps:   []do{launch(func(_ *taskinfo.Reference, l *Launch) { l.Data = []byte("{") })},
			want:    []string{"FAILED"},
			message: "task data is no pod reference",
		},
		{
			name:    "a task for another node",
			steps:   []do{launch(func(r *taskinfo.Reference, _ *Launch) { r.Node = "node-2" })},
			want:    []string{"FAILED"},
			message: "for node node-2",
		},
		{
			name:  "a LAUNCH that comes twice is one",
			steps: []do{launch(), launch(), runningPod, launch()},
			want:  []string{"STARTING", "RUNNING"},
		},
		{
			name:    "a pod that never comes",
			steps:   []do{launch(), after(10*time.Minute - time.Second), after(time.Second)},
			want:    []string{"STARTING", "FAILED"},
			message: "was not bound to node node-1 within 10m0s",
		},
		{
			name:  "time without a view of the pods does not count as waiting",
			steps: []do{launch(), after(9 * time.Minute), synced(false), after(time.Hour), synced(true), after(59 * time.Second)},
			want:  []string{"STARTING"},
		},
		{
			name:  "waiting goes on after the API server came back",
			steps: []do{launch(), after(9 * time.Minute), synced(false), after(time.Hour), synced(true), after(time.Minute)},
			want:  []string{"STARTING", "FAILED"},
		},
		{
			name:  "another pod of the same name is not ours",
			steps: []do{launch(), pod(run, func(p *Pod) { p.UID = "other" }), after(10 * time.Minute)},
			want:  []string{"STARTING", "FAILED"},
		},

		// The end by a KILL.
		{
			name:  "a KILL deletes the pod; the task ends with its containers",
			steps: []do{launch(), runningPod, populated, kill(), result(DeleteAccepted), pod(run, deleting(30)), populated, gone(), populated, empty},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 30", "KILLED"},
		},
		{
			name:  "without TASK_KILLING_STATE there is no KILLING",
			steps: []do{noKilling(), launch(), runningPod, kill(), gone(), invisible},
			want:  []string{"STARTING", "RUNNING", "delete p grace 30", "KILLED"},
		},
		{
			name:  "the KILL's grace wins over the task's and the pod's",
			steps: []do{launch(policy(20 * time.Second)), runningPod, kill(3 * time.Second)},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 3"},
		},
		{
			name:  "without one the task's policy counts",
			steps: []do{launch(policy(20 * time.Second)), runningPod, kill()},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 20"},
		},
		{
			name:  "a grace of zero is one second: the kubelet has to confirm the end",
			steps: []do{launch(), runningPod, kill(0)},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 1"},
		},
		{
			name:  "a part of a second is rounded up",
			steps: []do{launch(), runningPod, kill(2500 * time.Millisecond)},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 3"},
		},
		{
			name:  "a later KILL shortens, and never lengthens",
			steps: []do{launch(), runningPod, kill(20 * time.Second), result(DeleteAccepted), pod(run, deleting(20)), kill(), kill(60 * time.Second), kill(3 * time.Second)},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 20", "delete p grace 3"},
		},
		{
			name:  "a KILL repeated before the deletion shows is no second deletion",
			steps: []do{launch(), runningPod, kill(), kill(), result(DeleteAccepted), kill()},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 30"},
		},
		{
			name:  "a pod that is being deleted already is not deleted again",
			steps: []do{launch(), runningPod, pod(run, deleting(10)), kill()},
			want:  []string{"STARTING", "RUNNING", "KILLING"},
		},
		{
			name:  "a pod that is being deleted slowly is hurried",
			steps: []do{launch(), runningPod, pod(run, deleting(3600)), kill()},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 30"},
		},
		{
			name:  "an accepted deletion without effect is asked for again",
			steps: []do{launch(), runningPod, kill(), result(DeleteAccepted), after(repeatDelete)},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 30", "delete p grace 30"},
		},
		{
			name: "a refused deletion is tried again, with growing waits",
			steps: []do{launch(), runningPod, kill(), result(DeleteFailed), after(100 * time.Millisecond), after(100 * time.Millisecond),
				result(DeleteFailed), after(200 * time.Millisecond), after(200 * time.Millisecond), result(DeleteFailed), after(time.Second)},
			want: []string{"STARTING", "RUNNING", "KILLING", "delete p grace 30", "delete p grace 30", "delete p grace 30", "delete p grace 30"},
		},
		{
			name:  "a failed deletion is tried at once when the API server is back",
			steps: []do{launch(), runningPod, kill(), synced(false), result(DeleteFailed), synced(true)},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 30", "delete p grace 30"},
		},
		{
			name:  "no such pod, or another UID, is the end of the object",
			steps: []do{launch(), runningPod, kill(), result(DeleteGone), invisible},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 30", "KILLED"},
		},
		{
			name:    "a KILL before the pod is bound ends the task at once",
			steps:   []do{launch(), kill(), absent()},
			want:    []string{"STARTING", "KILLED"},
			message: "was not bound to node node-1",
		},
		{
			name:  "but not before the API server said that it is not bound",
			steps: []do{launch(), kill(), after(time.Hour)},
			want:  []string{"STARTING"},
		},
		{
			name:  "which may have to be asked for again",
			steps: []do{launch(), kill(), lookupFails(), absent(), after(200 * time.Millisecond), lookupFails(), after(400 * time.Millisecond), absent()},
			want:  []string{"STARTING", "KILLED"},
		},
		{
			name:  "the view of the pods lags behind: the pod is bound",
			steps: []do{launch(), kill(), bound(), result(DeleteGone), invisible},
			want:  []string{"STARTING", "KILLING", "delete p grace 30", "KILLED"},
		},
		{
			name:  "unless nobody knows whether the pod is bound",
			steps: []do{synced(false), launch(), kill(), after(time.Hour)},
			want:  []string{"STARTING", "KILLING"},
		},
		{
			name:  "the pod turns up after such a KILL",
			steps: []do{synced(false), launch(), kill(), relist(Pod{UID: uid, Namespace: "ns", Name: "p", Phase: pending, SpecGrace: 30})},
			want:  []string{"STARTING", "KILLING", "delete p grace 30"},
		},
		{
			name:  "a KILL of a finished pod reports its own end",
			steps: []do{launch(), runningPod, pod(succeeded), kill(), empty},
			want:  []string{"STARTING", "RUNNING", "KILLING", "FINISHED"},
		},
		{
			name:  "the kubelet's final phase after a KILL is no own end",
			steps: []do{launch(), runningPod, kill(), result(DeleteAccepted), pod(succeeded, deleting(30)), empty},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 30", "KILLED"},
		},
		{
			name:  "a KILL of an ended task does nothing",
			steps: []do{launch(), runningPod, pod(succeeded), empty, kill()},
			want:  []string{"STARTING", "RUNNING", "FINISHED"},
		},
		{
			name:  "a KILL without a record of the task ends the pod that its id names",
			steps: []do{runningPod, kill(), gone(), invisible},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 30", "KILLED"},
		},
		{
			name:  "a KILL for a task nobody knows",
			steps: []do{killTask("nonsense")},
			want:  []string{"nonsense STARTING", "nonsense KILLED"},
		},

		// The end by a deletion from elsewhere.
		{
			name:    "a deleted pod's task is KILLED when the object is gone and no cgroup can be seen",
			steps:   []do{launch(), runningPod, pod(run, deleting(30)), invisible, gone(), invisible},
			want:    []string{"STARTING", "RUNNING", "KILLED"},
			message: "the pod was deleted",
		},
		{
			name:  "or when the status shows all containers as terminated",
			steps: []do{launch(), runningPod, pod(run, deleting(30), stoppedContainers), invisible},
			want:  []string{"STARTING", "RUNNING", "KILLED"},
		},
		{
			name:  "all containers terminated means nothing while they may be restarted",
			steps: []do{launch(), runningPod, pod(run, stoppedContainers), empty, after(time.Hour), empty},
			want:  []string{"STARTING", "RUNNING"},
		},
		{
			name:  "C44: not while its processes exist, whatever the API server says",
			steps: []do{launch(), runningPod, populated, pod(run, deleting(60)), populated, after(30 * time.Second), populated, after(30 * time.Second), populated, gone(), populated, after(time.Hour), populated},
			want:  []string{"STARTING", "RUNNING"},
		},
		{
			name:  "C44: but as soon as they are gone",
			steps: []do{launch(), runningPod, populated, pod(run, deleting(60)), after(63 * time.Second), empty},
			want:  []string{"STARTING", "RUNNING", "KILLED"},
		},
		{
			name:  "a forced deletion of a pod that is just being started waits for its cgroup to stay away",
			steps: []do{launch(), pod(pending), gone(), empty, after(500 * time.Millisecond), empty, populated},
			want:  []string{"STARTING"},
		},
		{
			name:  "and ends it when it does",
			steps: []do{launch(), pod(pending), gone(), empty, after(time.Second), empty},
			want:  []string{"STARTING", "KILLED"},
		},
		{
			name:  "an empty cgroup proves nothing while the kubelet may be about to start the pod",
			steps: []do{launch(), pod(pending), pod(pending, deleting(30)), empty, after(time.Minute), empty},
			want:  []string{"STARTING"},
		},
		{
			name:  "a pod that had finished before it was deleted reports its own end",
			steps: []do{launch(), pod(succeeded, deleting(0), func(p *Pod) { p.FinishedFirst = true }), gone(), empty},
			want:  []string{"STARTING", "RUNNING", "FINISHED"},
		},

		// A kubelet that is dead.
		{
			name:    "C45: nobody confirms: grace and margin, with a warning",
			steps:   []do{launch(), runningPod, pod(run, deleting(30)), invisible, after(89 * time.Second), invisible, after(time.Second)},
			want:    []string{"STARTING", "RUNNING", "warn", "KILLED"},
			message: "neither kubelet nor cgroups confirmed",
		},
		{
			name:  "C45: a cgroup with processes holds the task for as long as they live",
			steps: []do{launch(), runningPod, kill(), result(DeleteAccepted), pod(run, deleting(30)), populated, after(24 * time.Hour), populated},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 30"},
		},
		{
			name:  "a shortened grace brings the end forward",
			steps: []do{launch(), runningPod, pod(run, deleting(600)), invisible, after(10 * time.Second), pod(run, deleting(5)), invisible, after(65 * time.Second)},
			want:  []string{"STARTING", "RUNNING", "warn", "KILLED"},
		},
		{
			name:  "with the API server away too, nothing is reported",
			steps: []do{launch(), runningPod, synced(false), kill(), result(DeleteFailed), invisible, after(5 * time.Second)},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 30", "delete p grace 30"},
		},
		{
			name:  "by option the object is removed by force",
			force: 5 * time.Minute,
			steps: []do{launch(), runningPod, pod(run, deleting(30)), populated, after(329 * time.Second), populated, after(time.Second), populated, result(DeleteAccepted), gone(), populated, empty},
			want:  []string{"STARTING", "RUNNING", "delete p grace 0", "KILLED"},
		},
		{
			name:  "also after the task was released",
			force: 5 * time.Minute,
			steps: []do{launch(), runningPod, pod(run, deleting(30)), invisible, after(90 * time.Second), after(240 * time.Second)},
			want:  []string{"STARTING", "RUNNING", "warn", "KILLED", "delete p grace 0"},
		},

		// Ghosts: a Binding that was stored after the end.
		{
			name:  "C41: a pod bound after its task was killed is deleted",
			steps: []do{launch(), kill(), absent(), pod(pending), result(DeleteFailed), after(time.Second), result(DeleteAccepted), pod(pending, deleting(30)), gone()},
			want:  []string{"STARTING", "KILLED", "delete p grace 30", "delete p grace 30"},
		},
		{
			name:  "also after bindTimeout",
			steps: []do{launch(), after(10 * time.Minute), runningPod},
			want:  []string{"STARTING", "FAILED", "delete p grace 30"},
		},
		{
			name:  "also after a restart",
			steps: []do{launch(), kill(), absent(), restart(), relist(Pod{UID: uid, Namespace: "ns", Name: "p", SpecGrace: 30, TaskID: task})},
			want:  []string{"STARTING", "KILLED", "delete p grace 30"},
		},
		{
			name:  "not if the Binding was made for another task",
			steps: []do{launch(), kill(), absent(), pod(pending, annotated(uid+".2"))},
			want:  []string{"STARTING", "KILLED"},
		},
		{
			name:  "not if somebody else bound the pod",
			steps: []do{launch(), kill(), absent(), pod(pending, annotated(""))},
			want:  []string{"STARTING", "KILLED"},
		},
		{
			name:  "not if a newer task waits for the pod",
			steps: []do{launch(), kill(), absent(), launch(attempt(2)), pod(pending)},
			want:  []string{"STARTING", "KILLED", uid + ".2 STARTING"},
		},
		{
			name:  "an ended pod that stays is no ghost",
			steps: []do{launch(), runningPod, pod(succeeded), empty, pod(succeeded, annotated("x"))},
			want:  []string{"STARTING", "RUNNING", "FINISHED"},
		},

		// A pod that is held by another task now.
		{
			name:    "the KILL of an older attempt leaves the pod to the newer one",
			steps:   []do{launch(), runningPod, launch(attempt(2)), kill()},
			want:    []string{"STARTING", "RUNNING", uid + ".2 STARTING", uid + ".2 RUNNING", "KILLED"},
			message: "held by task " + uid + ".2",
		},
		{
			name:    "C38: also if another executor looks after the newer one",
			steps:   []do{launch(), runningPod, pod(run, annotated(uid+".mx3dv1nm")), kill()},
			want:    []string{"STARTING", "RUNNING", "KILLED"},
			message: "held by task " + uid + ".mx3dv1nm",
		},
		{
			name:  "an annotation that names another pod's or an older task holds nothing",
			steps: []do{launch(attempt(3)), pod(run, annotated("other.9")), killTask(uid + ".3")},
			want:  []string{uid + ".3 STARTING", uid + ".3 RUNNING", uid + ".3 KILLING", "delete p grace 30"},
		},
		{
			name:  "both attempts end with the pod",
			steps: []do{launch(), runningPod, launch(attempt(2)), pod(succeeded), empty},
			want:  []string{"STARTING", "RUNNING", uid + ".2 STARTING", uid + ".2 RUNNING", "FINISHED", uid + ".2 FINISHED"},
		},

		// SHUTDOWN.
		{
			name:  "SHUTDOWN kills with what the agent grants",
			steps: []do{launch(), runningPod, shutdown(), result(DeleteAccepted), gone(), invisible},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 20", "KILLED"},
		},
		{
			name:  "and not with more than the pod's grace",
			steps: []do{launch(policy(5 * time.Second)), runningPod, shutdown()},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 5"},
		},
		{
			name:  "a LAUNCH after it ends at once",
			steps: []do{shutdown(), launch(), absent()},
			want:  []string{"STARTING", "KILLED"},
		},

		// Restarts of the bridge.
		{
			name:  "a restart changes nothing",
			steps: []do{launch(), runningPod, restart(), relist(Pod{UID: uid, Namespace: "ns", Name: "p", Phase: run, Started: true, SpecGrace: 30, TaskID: task}), synced(true)},
			want:  []string{"STARTING", "RUNNING"},
		},
		{
			name:  "a KILL survives it",
			steps: []do{launch(), runningPod, kill(4 * time.Second), restart(), relist(Pod{UID: uid, Namespace: "ns", Name: "p", Phase: run, SpecGrace: 30})},
			want:  []string{"STARTING", "RUNNING", "KILLING", "delete p grace 4", "delete p grace 4"},
		},
		{
			name:  "a pod that went meanwhile is missed",
			steps: []do{launch(), runningPod, populated, restart(), relist(), synced(true), empty},
			want:  []string{"STARTING", "RUNNING", "KILLED"},
		},
		{
			name:  "a pod that ended meanwhile",
			steps: []do{launch(), restart(), relist(Pod{UID: uid, Namespace: "ns", Name: "p", Phase: succeeded, Started: true, Stopped: true}), empty},
			want:  []string{"STARTING", "RUNNING", "FINISHED"},
		},
		{
			name:  "the end is reported once",
			steps: []do{launch(), runningPod, pod(succeeded), empty, restart(), relist(), synced(true), empty},
			want:  []string{"STARTING", "RUNNING", "FINISHED"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.ForceDeleteAfter = tt.force })
			for _, s := range tt.steps {
				s(r)
				r.step()
			}
			// The order of a warning and its update does not matter.
			if diff := cmp.Diff(order(tt.want), order(r.log)); diff != "" {
				t.Errorf("Unexpected actions (-want,+got):\n%s", diff)
			}
			if !strings.Contains(r.message(), tt.message) {
				t.Errorf("Last message is %q, want one with %q", r.message(), tt.message)
			}
		})
	}
}

func order(log []string) []string {
	out := slices.DeleteFunc(slices.Clone(log), func(s string) bool { return s == "warn" })
	if slices.Contains(log, "warn") {
		out = append(out, "warn")
	}
	return out
}
