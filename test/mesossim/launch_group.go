// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// launchGroup is all or nothing: one bad task refuses the whole group.
func (a *acceptance) launchGroup(op *mesos.Offer_Operation) {
	group := op.GetLaunchGroup()
	if group == nil {
		return
	}
	tasks := tasksOf(op)
	refuseAll := func(text string) {
		for _, info := range tasks {
			a.m.refuseTask(a.f, info, mesos.TASK_ERROR, mesos.REASON_TASK_GROUP_INVALID, text)
		}
	}
	text := validateResourceList(group.Executor.Resources)
	for _, info := range tasks {
		if text == "" {
			text = validateResourceList(info.Resources)
		}
		if text == "" && info.Executor != nil {
			text = validateResourceList(info.Executor.Resources)
		}
	}
	if text == "" && op.ID != nil {
		text = "The `id` field cannot be set on LAUNCH_GROUP operations"
	}
	if text != "" {
		refuseAll(text)
		return
	}
	executor := a.prepareExecutor(&group.Executor)
	prepared := make([]*mesos.TaskInfo, len(tasks))
	resources := make([]bag, len(tasks))
	var total bag
	for i, info := range tasks {
		prepared[i] = a.prepare(info)
		if prepared[i].Executor == nil {
			prepared[i].Executor = executor
		}
		resources[i] = newBag(prepared[i].Resources)
		total = total.plus(resources[i])
	}
	text, charged := a.validateGroup(prepared, executor, total)
	if text != "" {
		refuseAll(text)
		return
	}
	a.pool = a.pool.minus(total.plus(charged))
	a.start(prepared, resources, executor, charged, &group.TaskGroup)
}

func (a *acceptance) validateGroup(tasks []*mesos.TaskInfo, e *mesos.ExecutorInfo, total bag) (string, bag) {
	seen := map[string]bool{}
	for _, info := range tasks {
		if text := a.validateTask(info); text != "" {
			return text, nil
		}
		if seen[info.TaskID.Value] {
			return "Task has duplicate ID: " + info.TaskID.Value, nil
		}
		seen[info.TaskID.Value] = true
		if info.Container.GetType() == mesos.ContainerInfo_DOCKER && info.Container != nil {
			return "Docker ContainerInfo is not supported on the task", nil
		}
		if !sameExecutor(info.Executor, e) {
			return fmt.Sprintf("The `ExecutorInfo` of task '%s' is different from executor '%s'", info.TaskID.Value, e.ExecutorID.Value), nil
		}
		if text := validateShareCgroups(info, true); text != "" {
			return text, nil
		}
		linux := info.Container.GetLinuxInfo()
		if len(info.Limits) > 0 && (linux == nil || linux.ShareCgroups == nil || *linux.ShareCgroups) {
			return "Resource limits may only be set for tasks within a task group when the 'share_cgroups' field is set to 'false'.", nil
		}
	}
	switch e.Type {
	case mesos.ExecutorInfo_UNKNOWN:
		return "'ExecutorInfo.type' must be set", nil
	case mesos.ExecutorInfo_DEFAULT:
		if e.Command != nil {
			return "'ExecutorInfo.command' must not be set for 'DEFAULT' executor", nil
		}
		if e.Container != nil && e.Container.GetType() == mesos.ContainerInfo_DOCKER {
			return "Docker ContainerInfo is not supported on the executor", nil
		}
	case mesos.ExecutorInfo_CUSTOM:
		if e.Command == nil {
			return "'ExecutorInfo.command' must be set for 'CUSTOM' executor", nil
		}
	default:
		return "Unknown executor type", nil
	}
	if text := a.validateExecutorCommon(e); text != "" {
		return text, nil
	}
	executorBag := newBag(e.Resources)
	if cpus := executorBag.scalar("cpus"); cpus < 10 {
		return fmt.Sprintf("Executor '%s' uses less CPUs (%s) than the minimum required (0.01)", e.ExecutorID.Value, milliText(cpus)), nil
	}
	if mem := executorBag.scalar("mem"); mem < 32000 {
		return fmt.Sprintf("Executor '%s' uses less memory (%sMB) than the minimum required (32MB)", e.ExecutorID.Value, milliText(mem)), nil
	}
	if executorBag.scalar("disk") == 0 {
		return fmt.Sprintf("Executor '%s' uses no disk", e.ExecutorID.Value), nil
	}
	if text := a.validateCompatible(e); text != "" {
		return text, nil
	}
	var charged bag
	if a.f.executors[a.v.id][e.ExecutorID.Value] == nil {
		charged = executorBag
	}
	if all := total.plus(charged); !a.pool.contains(all) {
		return fmt.Sprintf("Total resources %s required by task group and its executor are more than available %s", all.text(), a.pool.inOfferOrder().text()), nil
	}
	return "", charged
}
