// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// Names that keep the tables short.
const (
	uid  = "5f0c"
	task = uid + ".1"
)

// rig drives a machine: steps change its world, and everything it wants done is written down in order.
type rig struct {
	t      *testing.T
	m      *Machine
	cfg    Config
	now    time.Time
	begin  time.Time
	log    []string
	wake   time.Time
	record map[string]string // the journal
	uuids  byte
	last   []Delete

	lookups []Lookup
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	r := &rig{t: t, begin: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), record: map[string]string{}}
	r.now = r.begin
	r.cfg = Config{
		Node: "node-1", BindTimeout: 10 * time.Minute, KillMargin: time.Minute, ShutdownGrace: 20 * time.Second,
		Settle: time.Second, Retention: time.Hour, MaxEnded: 5,
		NewUUID: func() []byte { r.uuids++; return slices.Repeat([]byte{r.uuids}, 16) },
	}
	for _, f := range change {
		f(&r.cfg)
	}
	r.m = New(r.cfg, nil)
	r.m.Subscribed(true)
	r.m.Synced(r.now, true)
	return r
}

var short = map[mesos.TaskState]string{
	mesos.TASK_STARTING: "STARTING", mesos.TASK_RUNNING: "RUNNING", mesos.TASK_KILLING: "KILLING",
	mesos.TASK_FINISHED: "FINISHED", mesos.TASK_FAILED: "FAILED", mesos.TASK_KILLED: "KILLED",
}

func (r *rig) step() {
	out := r.m.Step(r.now)
	for _, t := range out.Changed {
		b, err := json.Marshal(t)
		if err != nil {
			r.t.Fatal(err)
		}
		r.record[t.ID] = string(b)
	}
	for _, id := range out.Forgotten {
		delete(r.record, id)
	}
	for _, u := range out.Updates {
		name := ""
		if u.TaskID != task {
			name = u.TaskID + " "
		}
		r.log = append(r.log, name+short[u.State])
	}
	for _, d := range out.Deletes {
		r.log = append(r.log, fmt.Sprintf("delete %s grace %d", d.Name, d.Grace))
		r.last = append(r.last, d)
	}
	r.lookups = append(r.lookups, out.Lookups...)
	for range out.Warnings {
		r.log = append(r.log, "warn")
	}
	r.wake = out.Wake
}

// restart goes on with a new machine that knows what the journal knows.
func (r *rig) restart() {
	var tasks []*Task
	for _, b := range r.record {
		t := &Task{}
		if err := json.Unmarshal([]byte(b), t); err != nil {
			r.t.Fatal(err)
		}
		tasks = append(tasks, t)
	}
	r.m = New(r.cfg, tasks)
	r.m.Subscribed(true)
}

func (r *rig) message() string {
	_, updates := r.m.Unacknowledged()
	if len(updates) == 0 {
		return ""
	}
	return updates[len(updates)-1].Message
}

// A do changes the world of a rig.
type do func(r *rig)

func launch(change ...func(*taskinfo.Reference, *Launch)) do {
	return func(r *rig) {
		ref := taskinfo.Reference{Namespace: "ns", Name: "p", UID: uid, Node: "node-1", GraceSeconds: 30}
		l := Launch{TaskID: task, Info: []byte("info")}
		for _, f := range change {
			f(&ref, &l)
		}
		if l.Data == nil {
			l.Data = ref.Marshal()
		}
		r.m.Launch(r.now, l)
	}
}

func attempt(n int) func(*taskinfo.Reference, *Launch) {
	return func(_ *taskinfo.Reference, l *Launch) { l.TaskID = fmt.Sprintf("%s.%d", uid, n) }
}

func policy(d time.Duration) func(*taskinfo.Reference, *Launch) {
	return func(_ *taskinfo.Reference, l *Launch) { l.Grace = &d }
}

func kill(graces ...time.Duration) do { return killTask(task, graces...) }

func killTask(id string, graces ...time.Duration) do {
	return func(r *rig) {
		if len(graces) == 0 {
			r.m.Kill(r.now, id, nil)
		}
		for _, g := range graces {
			r.m.Kill(r.now, id, &g)
		}
	}
}

func pod(phase corev1.PodPhase, change ...func(*Pod)) do {
	return func(r *rig) {
		p := Pod{UID: uid, Namespace: "ns", Name: "p", Phase: phase, SpecGrace: 30, TaskID: task}
		p.Started = phase != corev1.PodPending
		p.Stopped = p.final()
		for _, f := range change {
			f(&p)
		}
		r.m.PodSeen(r.now, p)
	}
}

func deleting(grace int64) func(*Pod) {
	return func(p *Pod) { p.Deleting, p.DeletionGrace = true, grace }
}

func stoppedContainers(p *Pod) { p.Stopped = true }

func annotated(id string) func(*Pod) { return func(p *Pod) { p.TaskID = id } }

func gone() do { return func(r *rig) { r.m.PodGone(r.now, uid) } }

func cgroup(s Cgroup) do { return func(r *rig) { r.m.Observed(r.now, uid, s) } }

func synced(ok bool) do { return func(r *rig) { r.m.Synced(r.now, ok) } }

func after(d time.Duration) do { return func(r *rig) { r.now = r.now.Add(d) } }

func result(res DeleteResult) do {
	return func(r *rig) {
		for _, d := range r.last {
			r.m.Deleted(r.now, d, res)
		}
		r.last = nil
	}
}

// absent answers all lookups: the pod is not bound to this node.
func absent() do {
	return func(r *rig) {
		for _, l := range r.lookups {
			r.m.LookedUp(r.now, l.TaskID, nil, true)
		}
		r.lookups = nil
	}
}

// lookupFails answers all lookups: nobody knows.
func lookupFails() do {
	return func(r *rig) {
		for _, l := range r.lookups {
			r.m.LookedUp(r.now, l.TaskID, nil, false)
		}
		r.lookups = nil
	}
}

// bound answers all lookups: the pod is bound.
func bound() do {
	return func(r *rig) {
		for _, l := range r.lookups {
			r.m.LookedUp(r.now, l.TaskID, &Pod{UID: l.UID, Namespace: "ns", Name: "p", Phase: corev1.PodPending, SpecGrace: 30, TaskID: task}, true)
		}
		r.lookups = nil
	}
}

func shutdown() do { return func(r *rig) { r.m.Shutdown(r.now) } }

func restart() do { return func(r *rig) { r.step(); r.restart() } }

func relist(pods ...Pod) do { return func(r *rig) { r.m.PodsReplaced(r.now, pods) } }

func noKilling() do { return func(r *rig) { r.m.Subscribed(false) } }

var (
	runningPod = pod(corev1.PodRunning)
	empty      = cgroup(CgroupEmpty)
	populated  = cgroup(CgroupPopulated)
	invisible  = cgroup(CgroupInvisible)
)
