// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

const (
	// frameworkName is what the shipped configuration calls the framework.
	frameworkName = "kube-mesos-scheduler"
	// stateConfigMap is where it keeps the framework id.
	stateConfigMap = "kube-mesos-scheduler-framework"
)

// maintain announces a maintenance window of an agent's machine, which brings inverse offers. The variant "down" begins it,
// too: the agent is removed, and comes back as a new one.
func (in *injector) maintain(ctx context.Context, f fault, h *mesossim.AgentHandle) error {
	id := h.ID()
	in.begin(f, incident{text: ", id " + id, agentID: id, hides: true})
	machine := map[string]any{"hostname": h.Name()}
	schedule := func(windows ...any) error {
		return in.operate(ctx, "UPDATE_MAINTENANCE_SCHEDULE", "update_maintenance_schedule", map[string]any{"schedule": map[string]any{"windows": windows}})
	}
	err := schedule(map[string]any{"machine_ids": []any{machine}, "unavailability": map[string]any{
		"start": map[string]any{"nanoseconds": time.Now().Add(5 * time.Minute).UnixNano()}, "duration": map[string]any{"nanoseconds": time.Hour.Nanoseconds()},
	}})
	if err != nil {
		return err
	}
	pause(ctx, f.lasts)
	if f.variant == "down" {
		machines := map[string]any{"machines": []any{machine}}
		if err := in.operate(ctx, "START_MAINTENANCE", "start_maintenance", machines); err != nil {
			in.journal.notef("maintenance does not start: %v", err) // the registry with the schedule was lost
		} else {
			in.journal.add(incident{text: "the machine of " + id + " goes down", agentID: id, hides: true})
			pause(ctx, f.lasts/2)
			if err := in.operate(ctx, "STOP_MAINTENANCE", "stop_maintenance", machines); err != nil {
				in.journal.notef("maintenance does not stop: %v", err)
			}
			in.journal.add(incident{text: "the agent starts anew: " + id, agentID: id, dead: true, hides: true})
			if err := h.Replace(); err != nil {
				return err
			}
		}
	}
	err = schedule()
	in.journal.add(incident{text: "the maintenance of " + id + " is called off", agentID: id, hides: true})
	return err
}

// rival has another framework take room for a while, or hold every offer that it gets.
func (in *injector) rival(ctx context.Context, f fault) error {
	in.begin(f, incident{})
	const name = "rival"
	for end := time.Now().Add(f.lasts); ; {
		r, err := in.sim.StartRival(ctx, mesossim.RivalOptions{
			Role: "rival", Name: fmt.Sprintf("%s-%d", name, f.at.Milliseconds()), CPUs: 1.5, Mem: 1024, MaxTasks: f.n, Hold: f.variant == "hold",
		})
		if err == nil {
			pause(ctx, time.Until(end))
			r.Stop()
			break
		}
		if time.Now().After(end) || !pause(ctx, 200*ms) { // no master leads
			return err
		}
	}
	return nil
}

// clearRivals ends rivals that are no more. A master that hears of one from an agent only takes it for one that may come
// back.
func (in *injector) clearRivals(ctx context.Context) {
	for _, other := range in.sim.Frameworks() {
		if other.Info.Name == frameworkName || other.Removed || !other.Recovered {
			continue
		}
		if err := in.operate(ctx, "TEARDOWN", "teardown", map[string]any{"framework_id": map[string]any{"value": other.ID}}); err != nil {
			in.journal.notef("rival %s is not torn down yet: %v", other.ID, err)
		}
	}
}

// tasks are those of the scheduler's frameworks, also of removed ones.
func (w *world) tasks() []mesossim.Task {
	ours := map[string]bool{}
	for _, f := range w.sim.Frameworks() {
		ours[f.ID] = f.Info.Name == frameworkName
	}
	return slices.DeleteFunc(w.sim.Tasks(), func(t mesossim.Task) bool { return !ours[t.FrameworkID] })
}

// framework returns the scheduler's framework as the master knows it: the one that is connected, or else the last.
func (w *world) framework() (found mesossim.Framework, ok bool) {
	for _, f := range w.sim.Frameworks() {
		if f.Info.Name == frameworkName && !f.Removed && !found.Connected {
			found, ok = f, true
		}
	}
	return found, ok
}

// tearDown is the end of the framework: an operator tears it down, or its failover timeout passes while no scheduler is
// there. Its executors are shut down and take their pods along. An operator confirms a new framework when it is asked for.
func (in *injector) tearDown(ctx context.Context, f fault) error {
	old, ok := in.framework()
	if !ok {
		return errors.New("there is no framework")
	}
	if f.variant == "timeout" {
		for _, s := range in.schedulers {
			in.setBenched(s, true)
			defer in.setBenched(s, false)
			if err := s.Kill(); err != nil {
				return err
			}
		}
		in.begin(f, incident{text: ", id " + old.ID, framework: old.ID, hides: true})
		passed := false
		for range 100 {
			if passed = in.sim.Faults().PassFailoverTimeout(old.ID); passed || !pause(ctx, 50*ms) {
				break
			}
		}
		if !passed {
			return errors.New("the master does not notice the end of the schedulers")
		}
		pause(ctx, f.lasts)
		for _, s := range in.schedulers {
			in.setBenched(s, false)
		}
	} else {
		in.begin(f, incident{text: ", id " + old.ID, framework: old.ID, hides: true})
		if err := in.operate(ctx, "TEARDOWN", "teardown", map[string]any{"framework_id": map[string]any{"value": old.ID}}); err != nil {
			return err
		}
		pause(ctx, f.lasts)
	}
	if err := in.confirm(ctx, old.ID); err != nil {
		return err
	}
	// No change of masters before every agent has heard of it: a new master would take the framework back with them.
	for range 300 {
		left := 0
		for _, e := range in.sim.Executors() {
			if e.FrameworkID == old.ID && e.State != "TERMINATED" {
				left++
			}
		}
		if left == 0 || !pause(ctx, 100*ms) {
			break
		}
	}
	in.journal.add(incident{text: "the executors of the old framework have ended", framework: old.ID, hides: true})
	return nil
}

// confirm lets a new framework id be taken, as an operator does who has read the scheduler's message, until it is.
func (in *injector) confirm(ctx context.Context, old string) error {
	configMaps := in.c.Client.CoreV1().ConfigMaps(cluster.SchedulerNamespace)
	for range 300 {
		limited, cancel := context.WithTimeout(ctx, 2*time.Second)
		stored, err := configMaps.Get(limited, stateConfigMap, metav1.GetOptions{})
		if err == nil && stored.Data["frameworkID"] != old {
			cancel()
			in.journal.notef("the new framework is %s", stored.Data["frameworkID"])
			return nil
		}
		if err == nil && stored.Annotations[wellknown.ConfirmNewFrameworkAnnotation] != old {
			body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, wellknown.ConfirmNewFrameworkAnnotation, old)
			_, err = configMaps.Patch(limited, stateConfigMap, types.MergePatchType, body, metav1.PatchOptions{})
			in.journal.notef("an operator confirms the loss of framework %s: %v", old, err)
		}
		cancel()
		if !pause(ctx, 200*ms) {
			break
		}
	}
	return errors.New("the scheduler takes no new framework id")
}
