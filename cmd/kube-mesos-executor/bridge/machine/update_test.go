// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
)

// An executor that sends another state can make the master abort (recording E15).
func TestSendableStates(t *testing.T) {
	want := map[mesos.TaskState]bool{
		mesos.TASK_STARTING: true, mesos.TASK_RUNNING: true, mesos.TASK_KILLING: true,
		mesos.TASK_FINISHED: true, mesos.TASK_FAILED: true, mesos.TASK_KILLED: true,
	}
	for n := range mesos.TaskState_name {
		state := mesos.TaskState(n)
		if got := Sendable(state); got != want[state] {
			t.Errorf("Sendable(%v) = %v, want %v", state, got, want[state])
		}
	}
	if Sendable(mesos.TaskState(4711)) {
		t.Error("An unknown state must not be sendable")
	}
	defer func() {
		if recover() == nil {
			t.Error("A state that must not be sent was reported")
		}
	}()
	r := newRig(t)
	launch()(r)
	r.m.report(r.m.tasks[task], r.now, mesos.TASK_UNREACHABLE, "")
}

func TestUnacknowledged(t *testing.T) {
	r := newRig(t)
	counts := func(wantTasks, wantUpdates int) {
		t.Helper()
		r.step()
		tasks, updates := r.m.Unacknowledged()
		if len(tasks) != wantTasks || len(updates) != wantUpdates {
			t.Fatalf("%d tasks and %d updates are unacknowledged, want %d and %d", len(tasks), len(updates), wantTasks, wantUpdates)
		}
		for i := 1; i < len(updates); i++ {
			if updates[i].Seq <= updates[i-1].Seq {
				t.Fatalf("Updates are out of order: %d after %d", updates[i].Seq, updates[i-1].Seq)
			}
		}
	}
	launch()(r)
	counts(1, 1)
	runningPod(r)
	counts(1, 2)
	_, updates := r.m.Unacknowledged()
	r.m.Acknowledge(task, []byte("no such update"))
	r.m.Acknowledge("no such task", updates[0].UUID)
	counts(1, 2)
	r.m.Acknowledge(task, updates[0].UUID)
	counts(0, 1)
	r.m.Acknowledge(task, updates[0].UUID)
	counts(0, 1)
	restart()(r)
	counts(0, 1)
	_, again := r.m.Unacknowledged()
	if string(again[0].UUID) != string(updates[1].UUID) {
		t.Error("After a restart the update has another uuid")
	}
	r.m.Acknowledge(task, again[0].UUID)
	counts(0, 0)
}

// The agent never acknowledges updates of tasks that it does not know (recording E8).
func TestUpdatesWithoutAcknowledgementEnd(t *testing.T) {
	r := newRig(t)
	launch()(r)
	r.step()
	connection := func(d time.Duration) (dropped int) {
		_, updates := r.m.Unacknowledged()
		for _, u := range updates {
			r.m.Sent(r.now, u.TaskID, u.UUID)
		}
		after(d)(r)
		return len(r.m.Disconnected(r.now))
	}
	for range 100 {
		if connection(time.Second) != 0 {
			t.Fatal("Short connections must not count")
		}
	}
	for i := range maxStrikes {
		if got, want := connection(time.Minute), map[bool]int{true: 1}[i == maxStrikes-1]; got != want {
			t.Fatalf("%d updates dropped at strike %d, want %d", got, i+1, want)
		}
		r.step()
	}
	if n := r.m.PendingUpdates(); n != 0 {
		t.Errorf("%d updates are pending", n)
	}
	restart()(r)
	if n := r.m.PendingUpdates(); n != 0 {
		t.Errorf("%d updates are pending after a restart", n)
	}
}

func TestEndedTasksAreForgotten(t *testing.T) {
	r := newRig(t)
	end := func(n int, acknowledge bool) {
		id := fmt.Sprintf("%s.%d", uid, n)
		launch(attempt(n))(r)
		killTask(id)(r)
		r.step()
		absent()(r)
		r.step()
		if acknowledge {
			for _, u := range append([]*Update(nil), r.m.tasks[id].Pending...) {
				r.m.Acknowledge(id, u.UUID)
			}
		}
	}
	end(1, true)
	end(2, false)
	after(r.cfg.Retention)(r)
	r.step()
	if len(r.record) != 1 || r.record[uid+".2"] == "" {
		t.Fatalf("The journal has %d records, want the one that is not acknowledged", len(r.record))
	}
	for n := range 20 {
		end(10+n, true)
	}
	r.step()
	if got, want := len(r.record), r.cfg.MaxEnded; got != want {
		t.Errorf("%d ended tasks are remembered, want %d", got, want)
	}
	if got := len(r.m.byUID[uid]); got != r.cfg.MaxEnded {
		t.Errorf("%d tasks are indexed, want %d", got, r.cfg.MaxEnded)
	}
}

// An id that ended and was acknowledged can be used again (recording R5); one whose end is not known yet cannot.
func TestTaskIDUsedAgain(t *testing.T) {
	r := newRig(t)
	for _, s := range []do{launch(), runningPod, pod(corev1.PodSucceeded), empty, launch()} {
		s(r)
		r.step()
	}
	if r.m.Live() != 0 {
		t.Fatal("A repeated LAUNCH of a task whose end is on its way began it anew")
	}
	for _, u := range append([]*Update(nil), r.m.tasks[task].Pending...) {
		r.m.Acknowledge(task, u.UUID)
	}
	launch()(r)
	r.step()
	if got := r.m.tasks[task]; got.Ended() && len(got.Pending) == 0 {
		t.Fatal("The id was not used again")
	}
}

func TestProbes(t *testing.T) {
	r := newRig(t)
	check := func(ending, started int, fresh bool) {
		t.Helper()
		r.step()
		e, s, f := r.m.Probes()
		if len(e) != ending || len(s) != started || f != fresh {
			t.Errorf("Probes are %v, %v, %v; want %d, %d, %v", e, s, f, ending, started, fresh)
		}
	}
	launch()(r)
	check(0, 0, false)
	runningPod(r)
	check(0, 1, false)
	populated(r)
	check(0, 0, false)
	pod(corev1.PodRunning, deleting(30))(r)
	check(1, 0, true)
	populated(r)
	check(1, 0, false)
	empty(r)
	check(0, 0, false)
}

func TestWake(t *testing.T) {
	r := newRig(t)
	launch()(r)
	r.step()
	if want := r.now.Add(r.cfg.BindTimeout); !r.wake.Equal(want) {
		t.Errorf("Wakes at %v, want %v", r.wake, want)
	}
	pod(corev1.PodRunning, deleting(30))(r)
	invisible(r)
	r.step()
	if want := r.now.Add(90 * time.Second); !r.wake.Equal(want) {
		t.Errorf("Wakes at %v, want %v", r.wake, want)
	}
	gone()(r)
	empty(r)
	r.step()
	if want := r.now.Add(r.cfg.Settle); !r.wake.Equal(want) {
		t.Errorf("Wakes at %v, want %v", r.wake, want)
	}
}
