// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// defaultGrace is the terminationGracePeriodSeconds of a pod that states none.
const defaultGrace = int64(corev1.DefaultTerminationGracePeriodSeconds)

// maxMessage bounds the text that a status update carries, in bytes.
const maxMessage = 1024

// Pod is what the machine knows of a pod that is bound to this node. Two views are the same when == says so.
type Pod struct {
	// UID, Namespace and Name identify the pod.
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Phase is status.phase.
	Phase corev1.PodPhase `json:"phase,omitempty"`
	// Started says that a container has started (and perhaps stopped again).
	Started bool `json:"started,omitempty"`
	// Stopped says that the status shows every container of the pod as terminated. With restarts that is a passing
	// state unless the pod is being deleted.
	Stopped bool `json:"stopped,omitempty"`
	// Deleting says that the pod has a deletion timestamp; DeletionGrace are the seconds of grace of that deletion.
	Deleting      bool  `json:"deleting,omitempty"`
	DeletionGrace int64 `json:"deletionGrace,omitempty"`
	// SpecGrace is the pod's own terminationGracePeriodSeconds.
	SpecGrace int64 `json:"specGrace,omitempty"`
	// FinishedFirst says that the pod's phase is final and its containers had stopped before the deletion was asked for.
	FinishedFirst bool `json:"finishedFirst,omitempty"`
	// Message says why a failed pod failed.
	Message string `json:"message,omitempty"`
	// TaskID is what the pod's task annotation says. Anybody can write it.
	TaskID string `json:"taskID,omitempty"`
}

// final says that the pod's phase is one it never leaves.
func (p Pod) final() bool {
	return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed
}

// FromPod returns the machine's view of pod.
func FromPod(pod *corev1.Pod) Pod {
	p := Pod{
		UID:       string(pod.UID),
		Namespace: pod.Namespace,
		Name:      pod.Name,
		Phase:     pod.Status.Phase,
		SpecGrace: defaultGrace,
		TaskID:    pod.Annotations[wellknown.TaskIDAnnotation],
	}
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		p.SpecGrace = max(*g, 0)
	}
	p.Started = p.Phase == corev1.PodRunning || p.Phase == corev1.PodSucceeded
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i].State
		p.Started = p.Started || s.Running != nil || s.Terminated != nil && !s.Terminated.StartedAt.IsZero()
	}
	p.Stopped = allTerminated(pod)
	if pod.DeletionTimestamp != nil {
		p.Deleting = true
		if g := pod.DeletionGracePeriodSeconds; g != nil {
			p.DeletionGrace = max(*g, 0)
		}
	}
	p.FinishedFirst = p.final() && p.Stopped && p.Deleting && finishedBeforeDeletion(pod)
	if p.Phase == corev1.PodFailed {
		p.Message = failure(pod)
	}
	return p
}

// allTerminated says whether the status shows every ordinary container as terminated and no other one as running.
func allTerminated(pod *corev1.Pod) bool {
	if len(pod.Status.ContainerStatuses) == 0 || len(pod.Status.ContainerStatuses) < len(pod.Spec.Containers) {
		return false
	}
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].State.Terminated == nil {
			return false
		}
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range statuses {
			if statuses[i].State.Running != nil {
				return false
			}
		}
	}
	return true
}

// finishedBeforeDeletion says whether the last container finished before somebody asked for the deletion. Times have a
// resolution of a second; within the same second the deletion counts as the cause.
func finishedBeforeDeletion(pod *corev1.Pod) bool {
	var grace int64
	if g := pod.DeletionGracePeriodSeconds; g != nil {
		grace = *g
	}
	asked := pod.DeletionTimestamp.Unix() - grace
	for i := range pod.Status.ContainerStatuses {
		t := pod.Status.ContainerStatuses[i].State.Terminated
		if t == nil || t.FinishedAt.IsZero() || t.FinishedAt.Unix() >= asked {
			return false
		}
	}
	return true
}

// failure says in one line why a failed pod failed: the pod's reason and message, then the containers that failed.
func failure(pod *corev1.Pod) string {
	var parts []string
	if s := strings.TrimSuffix(pod.Status.Reason+": "+pod.Status.Message, ": "); s != "" {
		parts = append(parts, strings.TrimPrefix(s, ": "))
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			t := statuses[i].State.Terminated
			if t == nil || t.ExitCode == 0 {
				continue
			}
			s := fmt.Sprintf("container %s ended with exit code %d", statuses[i].Name, t.ExitCode)
			if t.Reason != "" {
				s += " (" + t.Reason + ")"
			}
			if t.Message != "" {
				s += ": " + strings.TrimSpace(t.Message)
			}
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return "the pod failed"
	}
	return clip(strings.Join(parts, "; "))
}

// clip cuts s to maxMessage bytes at a border of runes and makes it valid UTF-8.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage-3], "") + "..."
}
