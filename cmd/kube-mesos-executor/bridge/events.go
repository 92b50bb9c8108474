// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/executor"
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/machine"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/metrics"
)

// What the loop is told. Each arrives on one channel, so that the loop alone touches the machine.
type (
	// wantSubscribe asks for what a SUBSCRIBE has to list.
	wantSubscribe struct{ answer chan<- unacknowledged }
	// connected says that the agent took the SUBSCRIBE with the given number; its stream is open.
	connected struct{ stream int }
	// wantStatus asks how things are.
	wantStatus struct{ answer chan<- *metrics.Snapshot }
	// fromAgent is an event of the agent.
	fromAgent struct {
		stream int
		event  *executor.Event
	}
	// disconnected says that there is no stream (any more), and why.
	disconnected struct {
		stream int
		err    error
	}
	// updateSent and updateFailed say how the sending of an update went.
	updateSent struct {
		update *machine.Update
	}
	updateFailed struct {
		stream int
		update *machine.Update
		err    error
	}
	// identified is the answer to the question which agent this is.
	identified struct {
		id  string
		err error
	}

	podsReplaced struct{ pods []machine.Pod }
	podSeen      struct{ pod machine.Pod }
	podGone      struct{ uid string }
	podsSynced   struct{ synced bool }

	// podDeleted is how a deletion went.
	podDeleted struct {
		request machine.Delete
		result  machine.DeleteResult
		err     error
	}
	// podFound is the answer to a lookup; no pod and no error means that it is not bound to this node.
	podFound struct {
		request machine.Lookup
		pod     *machine.Pod
		err     error
	}
	// observed is what the cgroups said.
	observed struct {
		at     time.Time
		states map[string]machine.Cgroup
	}
)

// inbox is the channel that the loop reads. Sending waits, but never beyond the end of ctx.
type inbox struct {
	ctx context.Context
	ch  chan any
}

func (i inbox) put(event any) {
	select {
	case i.ch <- event:
	case <-i.ctx.Done():
	}
}

// podSink hands on what package pods tells.
type podSink struct{ inbox }

func (s podSink) Replaced(pods []*corev1.Pod) {
	views := make([]machine.Pod, 0, len(pods))
	for _, pod := range pods {
		views = append(views, machine.FromPod(pod))
	}
	s.put(podsReplaced{views})
}

func (s podSink) Seen(pod *corev1.Pod) { s.put(podSeen{machine.FromPod(pod)}) }

func (s podSink) Gone(pod *corev1.Pod) {
	// The last version of an object says what its last status was.
	s.put(podSeen{machine.FromPod(pod)})
	s.put(podGone{string(pod.UID)})
}

func (s podSink) Synced(ok bool) { s.put(podsSynced{ok}) }
