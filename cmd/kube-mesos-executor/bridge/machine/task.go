// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// Task is one Mesos task and what is known of its pod. Its JSON form is what the journal keeps.
type Task struct {
	// ID is the Mesos task id, `<pod uid>.<attempt>`.
	ID string `json:"id"`
	// Order numbers the tasks in the order in which they came.
	Order uint64 `json:"order"`
	// Ref names the pod.
	Ref taskinfo.Reference `json:"ref"`
	// Problem says why the task can never run; empty if it can.
	Problem string `json:"problem,omitempty"`
	// Info is the TaskInfo in protobuf. It is kept until an update of the task is acknowledged: till then it is listed
	// as unacknowledged when the executor subscribes.
	Info []byte `json:"info,omitempty"`
	// LaunchGrace is the grace of TaskInfo.kill_policy in seconds; nil if there is none.
	LaunchGrace *int64 `json:"launchGrace,omitempty"`
	// Kill is the wish that the task be killed; nil if there is none.
	Kill *Kill `json:"kill,omitempty"`

	// Pod is the last view of the pod; nil as long as it was never seen on this node.
	Pod *Pod `json:"pod,omitempty"`
	// GoneAt is when the pod's object was found to be gone.
	GoneAt time.Time `json:"goneAt,omitzero"`
	// StopBy is when the containers count as stopped if neither API server nor cgroup say so: first sight of the
	// deletion, plus its grace, plus the margin.
	// It is not kept over a restart, when the clock may have jumped: waiting anew is the safe side.
	StopBy time.Time `json:"-"`
	// OwnEnd is the final phase of a pod that ended before anybody asked for its end.
	OwnEnd corev1.PodPhase `json:"ownEnd,omitempty"`
	// Populated says that the pod's cgroup was once seen with processes in it.
	Populated bool `json:"populated,omitempty"`

	// Reported says that State was reported; a task begins with nothing reported.
	Reported bool            `json:"reported,omitempty"`
	State    mesos.TaskState `json:"state,omitempty"`
	// EndedAt is when the final state was reported.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// Unseen says that the task ended before its pod was seen: a pod that turns up later is a ghost and is deleted.
	Unseen bool `json:"unseen,omitempty"`
	// Pending are the updates that the agent has not acknowledged, oldest first.
	Pending []*Update `json:"pending,omitempty"`

	cgroup   observation
	waitFrom time.Duration // the machine's synced time when the task came
	deletion deletion
	lookup   lookup
}

// Kill is the wish that a task end.
type Kill struct {
	// At is when the first KILL came.
	At time.Time `json:"at"`
	// Grace is the shortest grace asked for, in seconds, at least 1.
	Grace int64 `json:"grace"`
}

// observation is what the pod's cgroup said last.
type observation struct {
	state Cgroup
	at    time.Time
}

// deletion is what is known of our own deletions of a pod. It is not kept over a restart: the pod's view says what was
// reached, and asking twice does no harm.
type deletion struct {
	inFlight bool
	asked    int64 // grace of the last accepted deletion, valid if askedAt is set
	askedAt  time.Time
	failures int
	next     time.Time
	forcedAt time.Time
}

// lookup is what is known of the question whether the pod of a killed task is bound after all.
type lookup struct {
	inFlight bool
	absent   bool
	failures int
	next     time.Time
}

// Ended says that the final state was reported.
func (t *Task) Ended() bool { return !t.EndedAt.IsZero() }

// wholeSeconds rounds a grace up to whole seconds. The least is one: with zero the API server removes the object
// before the kubelet has stopped the containers.
func wholeSeconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}
