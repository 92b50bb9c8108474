// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"bytes"
	"fmt"
	"sort"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// validateLaunchExecutor checks the executor of a task of LAUNCH.
func (a *acceptance) validateLaunchExecutor(e *mesos.ExecutorInfo) string {
	switch e.Type {
	case mesos.ExecutorInfo_DEFAULT:
		if e.Command != nil {
			return "'ExecutorInfo.command' must not be set for 'DEFAULT' executor"
		}
		return "'ExecutorInfo.type' must be 'CUSTOM'"
	case mesos.ExecutorInfo_CUSTOM:
		if e.Command == nil {
			return "'ExecutorInfo.command' must be set for 'CUSTOM' executor"
		}
	default:
		if e.Command == nil {
			return "'ExecutorInfo.command' must be set"
		}
	}
	if text := a.validateExecutorCommon(e); text != "" {
		return text
	}
	return a.validateCompatible(e)
}

func (a *acceptance) validateExecutorCommon(e *mesos.ExecutorInfo) string {
	if text := validateID(e.ExecutorID.Value); text != "" {
		return text
	}
	if e.FrameworkID == nil {
		return "'ExecutorInfo.framework_id' must be set"
	}
	if e.FrameworkID.Value != a.f.id {
		return fmt.Sprintf("ExecutorInfo has an invalid FrameworkID (Actual: %s vs Expected: %s)", e.FrameworkID.Value, a.f.id)
	}
	if e.ShutdownGracePeriod.GetNanoseconds() < 0 {
		return "ExecutorInfo's 'shutdown_grace_period' must be non-negative"
	}
	if text := validateResourceList(e.Resources); text != "" {
		return "Executor uses invalid resources: " + text
	}
	if text := validateGPUs(e.Resources); text != "" {
		return "Executor uses invalid resources: " + text
	}
	if dup := duplicatePersistenceID(e.Resources); dup != "" {
		return "Executor uses duplicate persistence ID: " + dup
	}
	if len(e.Resources) > 0 {
		if text := validateAllocationRole(e.Resources); text != "" {
			return "Invalid executor resources: " + text
		}
	}
	if text := validateRevocable(e.Resources); text != "" {
		return "Executor mixes revocable and non-revocable resources: " + text
	}
	for i := range e.Resources {
		if e.Resources[i].Shared != nil {
			return fmt.Sprintf("Executor resources %s should not contain any shared resources", newBag(e.Resources).text())
		}
	}
	if e.Command != nil {
		if text := validateCommand(e.Command); text != "" {
			return "Executor's `CommandInfo` is invalid: " + text
		}
	}
	if e.Container != nil {
		if text := validateContainer(e.Container); text != "" {
			return "Executor's `ContainerInfo` is invalid: " + text
		}
	}
	return ""
}

// validateCompatible compares with an executor of the same id that the master knows on the agent.
func (a *acceptance) validateCompatible(e *mesos.ExecutorInfo) string {
	known := a.f.executors[a.v.id][e.ExecutorID.Value]
	if known == nil || sameExecutor(known.info, e) {
		return ""
	}
	const line = "------------------------------------------------------------\n"
	return "ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID.\n" +
		line + "Existing ExecutorInfo:\n" + protoText(known.info) + "\n" +
		line + "ExecutorInfo:\n" + protoText(e) + "\n" + line
}

// sameExecutor is Mesos' operator== of ExecutorInfo: labels and shutdown_grace_period are not compared.
func sameExecutor(a, b *mesos.ExecutorInfo) bool {
	if a.Type != b.Type || a.ExecutorID.Value != b.ExecutorID.Value || !bytes.Equal(a.Data, b.Data) ||
		!newBag(a.Resources).equal(newBag(b.Resources)) || a.FrameworkID.GetValue() != b.FrameworkID.GetValue() ||
		a.GetName() != b.GetName() || a.GetSource() != b.GetSource() {
		return false
	}
	if !sameCommand(a.Command, b.Command) {
		return false
	}
	return (a.Container == nil) == (b.Container == nil) && a.Container.Equal(b.Container) &&
		(a.Discovery == nil) == (b.Discovery == nil) && a.Discovery.Equal(b.Discovery)
}

func sameCommand(a, b *mesos.CommandInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.URIs, y.URIs = sortedURIs(a.URIs), sortedURIs(b.URIs)
	if x.GetShell() != y.GetShell() || x.GetValue() != y.GetValue() || x.GetUser() != y.GetUser() {
		return false
	}
	x.Shell, y.Shell, x.Value, y.Value, x.User, y.User = nil, nil, nil, nil, nil, nil
	return x.Equal(&y)
}

func sortedURIs(uris []mesos.CommandInfo_URI) []mesos.CommandInfo_URI {
	out := append([]mesos.CommandInfo_URI(nil), uris...)
	sort.Slice(out, func(i, j int) bool { return out[i].Value < out[j].Value })
	return out
}

// validateTaskAndExecutor checks the resources of both together.
func validateTaskAndExecutor(info *mesos.TaskInfo, e *mesos.ExecutorInfo) string {
	all := append(append([]mesos.Resource(nil), info.Resources...), e.Resources...)
	taskBag, executorBag := newBag(info.Resources), newBag(e.Resources)
	for i := range executorBag {
		r := &executorBag[i]
		j := taskBag.find(&r.key)
		if j < 0 {
			continue
		}
		overlap := false
		if r.key.kind == mesos.RANGES {
			overlap = len(subtractSpans(r.ranges, subtractSpans(r.ranges, taskBag[j].ranges))) > 0
		} else if r.key.kind == mesos.SET {
			for _, item := range r.set {
				overlap = overlap || strings.Contains("\x00"+strings.Join(taskBag[j].set, "\x00")+"\x00", "\x00"+item+"\x00")
			}
		}
		if overlap {
			return fmt.Sprintf("There are overlapping resources in the task resources %s and executor resources %s", taskBag.text(), executorBag.text())
		}
	}
	if dup := duplicatePersistenceID(all); dup != "" {
		return "Task and its executor use duplicate persistence ID: " + dup
	}
	if text := validateRevocable(all); text != "" {
		return "Task and its executor mix revocable and non-revocable resources: " + text
	}
	return ""
}
