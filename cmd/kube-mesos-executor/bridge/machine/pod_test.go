// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

func TestFromPod(t *testing.T) {
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	ended := func(code int32, at time.Time) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Error", StartedAt: metav1.NewTime(at.Add(-time.Second)), FinishedAt: metav1.NewTime(at)}}
	}
	containers := func(states ...corev1.ContainerState) []corev1.ContainerStatus {
		var out []corev1.ContainerStatus
		for i, s := range states {
			out = append(out, corev1.ContainerStatus{Name: string(rune('a' + i)), State: s})
		}
		return out
	}
	deleted := func(p *corev1.Pod, grace int64) {
		p.DeletionTimestamp = &metav1.Time{Time: asked.Add(time.Duration(grace) * time.Second)}
		p.DeletionGracePeriodSeconds = &grace
	}
	tests := []struct {
		name string
		pod  func(*corev1.Pod)
		want Pod
	}{
		{name: "bound", pod: func(*corev1.Pod) {}, want: Pod{}},
		{name: "own grace", pod: func(p *corev1.Pod) { g := int64(7); p.Spec.TerminationGracePeriodSeconds = &g }, want: Pod{SpecGrace: 7}},
		{name: "annotation", pod: func(p *corev1.Pod) { p.Annotations = map[string]string{wellknown.TaskIDAnnotation: "u.1"} }, want: Pod{TaskID: "u.1"}},
		{name: "running phase", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, want: Pod{Phase: corev1.PodRunning, Started: true}},
		{name: "one of two has started", pod: func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses = containers(running, waiting)
		}, want: Pod{Phase: corev1.PodPending, Started: true}},
		{name: "init containers do not count as started", pod: func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.InitContainerStatuses = containers(running)
			p.Status.ContainerStatuses = containers(waiting, waiting)
		}, want: Pod{Phase: corev1.PodPending}},
		{name: "crash loop is not stopped", pod: func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.ContainerStatuses = containers(ended(1, asked), waiting)
		}, want: Pod{Phase: corev1.PodRunning, Started: true}},
		{name: "all terminated", pod: func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.ContainerStatuses = containers(ended(0, asked), ended(0, asked))
		}, want: Pod{Phase: corev1.PodRunning, Started: true, Stopped: true}},
		{name: "a status that lacks a container proves nothing", pod: func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.ContainerStatuses = containers(ended(0, asked))
		}, want: Pod{Phase: corev1.PodRunning, Started: true}},
		{name: "a sidecar still runs", pod: func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.InitContainerStatuses = containers(running)
			p.Status.ContainerStatuses = containers(ended(0, asked), ended(0, asked))
		}, want: Pod{Phase: corev1.PodRunning, Started: true}},
		{name: "deleted", pod: func(p *corev1.Pod) { deleted(p, 12) }, want: Pod{Deleting: true, DeletionGrace: 12}},
		{name: "finished, then deleted", pod: func(p *corev1.Pod) {
			deleted(p, 30)
			p.Status.Phase = corev1.PodSucceeded
			p.Status.ContainerStatuses = containers(ended(0, asked.Add(-time.Second)), ended(0, asked.Add(-time.Minute)))
		}, want: Pod{Phase: corev1.PodSucceeded, Started: true, Stopped: true, Deleting: true, DeletionGrace: 30, FinishedFirst: true}},
		{name: "deleted, then finished", pod: func(p *corev1.Pod) {
			deleted(p, 30)
			p.Status.Phase = corev1.PodSucceeded
			p.Status.ContainerStatuses = containers(ended(0, asked.Add(-time.Minute)), ended(0, asked.Add(time.Second)))
		}, want: Pod{Phase: corev1.PodSucceeded, Started: true, Stopped: true, Deleting: true, DeletionGrace: 30}},
		{name: "failed container", pod: func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.ContainerStatuses = containers(ended(0, asked), ended(3, asked))
		}, want: Pod{Phase: corev1.PodFailed, Started: true, Stopped: true, Message: "container b ended with exit code 3 (Error)"}},
		{name: "evicted", pod: func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
		}, want: Pod{Phase: corev1.PodFailed, Message: "Evicted: The node was low on resource: memory."}},
		{name: "failed without a reason", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, want: Pod{Phase: corev1.PodFailed, Message: "the pod failed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
			p.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}}
			tt.pod(p)
			tt.want.Namespace, tt.want.Name, tt.want.UID = "ns", "p", "u"
			if tt.want.SpecGrace == 0 {
				tt.want.SpecGrace = 30
			}
			if diff := cmp.Diff(tt.want, FromPod(p)); diff != "" {
				t.Errorf("Unexpected view (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestClip(t *testing.T) {
	if got := clip("a\xffb"); got != "a?b" {
		t.Errorf("clip gives %q for invalid UTF-8", got)
	}
	if got := clip(strings.Repeat("ü", maxMessage)); len(got) > maxMessage || !strings.HasSuffix(got, "...") {
		t.Errorf("clip gives %d bytes", len(got))
	}
}
