// SPDX-License-Identifier: Apache-2.0

package taskinfo

import (
	"time"
	"unicode/utf8"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// maxNameBytes bounds the name that the Mesos UI shows.
const maxNameBytes = 255

// Task returns the TaskInfo that holds the resources of the pod that ref names.
func Task(id, agentID string, ref Reference, held []mesos.Resource, executor *mesos.ExecutorInfo) mesos.TaskInfo {
	return mesos.TaskInfo{
		Name:       cut(ref.Namespace+"/"+ref.Name, maxNameBytes),
		TaskID:     mesos.TaskID{Value: id},
		AgentID:    mesos.AgentID{Value: agentID},
		Resources:  held,
		Executor:   executor,
		KillPolicy: KillPolicy(time.Duration(ref.GraceSeconds) * time.Second),
		Data:       ref.Marshal(),
		Labels: &mesos.Labels{Labels: []mesos.Label{
			label(wellknown.NamespaceTaskLabel, ref.Namespace),
			label(wellknown.PodTaskLabel, ref.Name),
			label(wellknown.UIDTaskLabel, ref.UID),
		}},
	}
}

// KillPolicy returns the policy that gives a task's pod the grace to stop.
func KillPolicy(grace time.Duration) *mesos.KillPolicy {
	return &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: grace.Nanoseconds()}}
}

func label(key, value string) mesos.Label { return mesos.Label{Key: key, Value: &value} }

// cut shortens s to at most n bytes, at the border of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
