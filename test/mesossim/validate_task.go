// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"
	"math"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// validate checks one task of a LAUNCH against what the earlier ones left, in a master's order. It returns the
// executor, what is charged for it, and the text of the first failure.
func (a *acceptance) validate(info *mesos.TaskInfo, resources bag) (executor *mesos.ExecutorInfo, charged bag, text string) {
	if text := a.validateTask(info); text != "" {
		return nil, nil, text
	}
	if (info.Command == nil) == (info.Executor == nil) {
		return nil, nil, "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present"
	}
	if text := validateShareCgroups(info, false); text != "" {
		return nil, nil, text
	}
	if executor = info.Executor; executor != nil {
		if text := a.validateLaunchExecutor(executor); text != "" {
			return nil, nil, text
		}
		if a.f.executors[a.v.id][executor.ExecutorID.Value] == nil {
			charged = newBag(executor.Resources)
		}
		if text := validateTaskAndExecutor(info, executor); text != "" {
			return nil, nil, text
		}
	}
	total := resources.plus(charged)
	if !a.pool.contains(total) {
		return nil, nil, fmt.Sprintf("Total resources %s required by task and its executor is more than available %s", total.text(), a.pool.inOfferOrder().text())
	}
	return executor, charged, ""
}

// validateTask makes the checks that do not need the executor.
func (a *acceptance) validateTask(info *mesos.TaskInfo) string {
	id := info.TaskID.Value
	if text := validateID(id); text != "" {
		return text
	}
	if a.f.tasks[id] != nil {
		return "Task has duplicate ID: " + id
	}
	for _, t := range a.f.unreachable {
		if t.id() == id {
			return "Task reuses the ID of an unreachable task: " + id
		}
	}
	if info.AgentID.Value != a.v.id {
		return fmt.Sprintf("Task uses invalid agent %s while agent %s is expected", info.AgentID.Value, a.v.id)
	}
	if info.KillPolicy.GetGracePeriod().GetNanoseconds() < 0 {
		return "Task's 'kill_policy.grace_period' must be non-negative"
	}
	if info.MaxCompletionTime.GetNanoseconds() < 0 {
		return "Task's `max_completion_time` must be non-negative"
	}
	if info.Check != nil {
		if text := validateCheck(info.Check); text != "" {
			return "Task uses invalid check: " + text
		}
	}
	if info.HealthCheck != nil {
		if text := validateHealthCheck(info.HealthCheck); text != "" {
			return "Task uses invalid health check: " + text
		}
	}
	if len(info.Resources) == 0 {
		return "Task uses no resources"
	}
	if text := validateResourceList(info.Resources); text != "" {
		return "Task uses invalid resources: " + text
	}
	if text := validateGPUs(info.Resources); text != "" {
		return "Task uses invalid resources: " + text
	}
	if dup := duplicatePersistenceID(info.Resources); dup != "" {
		return "Task uses duplicate persistence ID: " + dup
	}
	if text := validateAllocationRole(info.Resources); text != "" {
		return "Invalid task resources: " + text
	}
	if text := validateRevocable(info.Resources); text != "" {
		return "Task mixes revocable and non-revocable resources: " + text
	}
	if info.Command != nil {
		if text := validateCommand(info.Command); text != "" {
			return "Task's `CommandInfo` is invalid: " + text
		}
	}
	if info.Container != nil {
		if text := validateContainer(info.Container); text != "" {
			return "Task's `ContainerInfo` is invalid: " + text
		}
	}
	return validateLimits(info)
}

func validateCheck(c *mesos.CheckInfo) string {
	if c.Type == mesos.CheckInfo_UNKNOWN {
		return "CheckInfo must specify 'type'"
	}
	switch {
	case c.Type == mesos.CheckInfo_COMMAND && c.Command == nil:
		return "Expecting 'command' to be set for COMMAND check"
	case c.Type == mesos.CheckInfo_HTTP && c.HTTP == nil:
		return "Expecting 'http' to be set for HTTP check"
	case c.Type == mesos.CheckInfo_TCP && c.TCP == nil:
		return "Expecting 'tcp' to be set for TCP check"
	case c.DelaySeconds != nil && *c.DelaySeconds < 0:
		return "Expecting 'delay_seconds' to be non-negative"
	case c.IntervalSeconds != nil && *c.IntervalSeconds < 0:
		return "Expecting 'interval_seconds' to be non-negative"
	case c.TimeoutSeconds != nil && *c.TimeoutSeconds < 0:
		return "Expecting 'timeout_seconds' to be non-negative"
	}
	return ""
}

func validateHealthCheck(h *mesos.HealthCheck) string {
	switch {
	case h.Type == mesos.HealthCheck_UNKNOWN:
		return "HealthCheck must specify 'type'"
	case h.Type == mesos.HealthCheck_COMMAND && h.Command == nil:
		return "Expecting 'command' to be set for COMMAND health check"
	case h.Type == mesos.HealthCheck_HTTP && h.HTTP == nil:
		return "Expecting 'http' to be set for HTTP health check"
	case h.Type == mesos.HealthCheck_TCP && h.TCP == nil:
		return "Expecting 'tcp' to be set for TCP health check"
	case h.DelaySeconds != nil && *h.DelaySeconds < 0:
		return "Expecting 'delay_seconds' to be non-negative"
	case h.GracePeriodSeconds != nil && *h.GracePeriodSeconds < 0:
		return "Expecting 'grace_period_seconds' to be non-negative"
	case h.IntervalSeconds != nil && *h.IntervalSeconds < 0:
		return "Expecting 'interval_seconds' to be non-negative"
	case h.TimeoutSeconds != nil && *h.TimeoutSeconds < 0:
		return "Expecting 'timeout_seconds' to be non-negative"
	}
	return ""
}

// validateCommand checks the environment of a command.
func validateCommand(command *mesos.CommandInfo) string {
	for i := range command.GetEnvironment().GetVariables() {
		v := &command.Environment.Variables[i]
		switch v.GetType() {
		case mesos.Environment_Variable_SECRET:
			switch {
			case v.Secret == nil:
				return fmt.Sprintf("Environment variable '%s' of type 'SECRET' must have a secret set", v.Name)
			case v.Value != nil:
				return fmt.Sprintf("Environment variable '%s' of type 'SECRET' must not have a value set", v.Name)
			}
		case mesos.Environment_Variable_VALUE:
			switch {
			case v.Value == nil:
				return fmt.Sprintf("Environment variable '%s' of type 'VALUE' must have a value set", v.Name)
			case v.Secret != nil:
				return fmt.Sprintf("Environment variable '%s' of type 'VALUE' must not have a secret set", v.Name)
			}
		default:
			return "Environment variable of type 'UNKNOWN' is not allowed"
		}
	}
	return ""
}

func validateContainer(c *mesos.ContainerInfo) string {
	for i := range c.Volumes {
		v := &c.Volumes[i]
		set := 0
		for _, has := range []bool{v.HostPath != nil, v.Image != nil, v.Source != nil} {
			if has {
				set++
			}
		}
		if set > 1 {
			return "Invalid volume: Only one of them should be set: 'host_path', 'image' and 'source'"
		}
	}
	if c.GetType() == mesos.ContainerInfo_DOCKER {
		if c.Docker == nil {
			return "DockerInfo 'docker' is not set for DOCKER typed ContainerInfo"
		}
		for i := range c.Docker.Parameters {
			if c.Docker.Parameters[i].Key == "name" {
				return "Parameter in DockerInfo must not be 'name'"
			}
		}
	}
	return ""
}

func validateLimits(info *mesos.TaskInfo) string {
	for name := range info.Limits {
		if name != "cpus" && name != "mem" {
			return "Only cpus and mem may be included in a task's resource limits"
		}
	}
	request := func(name string) (float64, bool) {
		sum, found := 0.0, false
		for i := range info.Resources {
			if info.Resources[i].Name == name {
				sum, found = sum+info.Resources[i].GetScalar().GetValue(), true
			}
		}
		return sum, found
	}
	for _, kind := range []struct{ name, upper, lower string }{{"cpus", "CPU", "cpu"}, {"mem", "memory", "memory"}} {
		limit, ok := info.Limits[kind.name]
		if !ok {
			continue
		}
		want, has := request(kind.name)
		if !has {
			return fmt.Sprintf("When a %s limit is specified, a %s request must also be specified", kind.upper, kind.upper)
		}
		if !math.IsInf(limit.Value, 1) && limit.Value < want {
			return fmt.Sprintf("The %s limit must be greater than or equal to the %s request", kind.lower, kind.lower)
		}
	}
	return ""
}

func validateShareCgroups(info *mesos.TaskInfo, group bool) string {
	if executor := info.Executor; executor != nil && executor.Container.GetLinuxInfo() != nil &&
		executor.Container.LinuxInfo.ShareCgroups != nil && *executor.Container.LinuxInfo.ShareCgroups {
		return "The 'share_cgroups' field cannot be set to 'true' on executor containers"
	}
	if linux := info.Container.GetLinuxInfo(); linux != nil && linux.ShareCgroups != nil && !*linux.ShareCgroups && !group {
		return "Only tasks in a task group may have 'share_cgroups' set to 'false'"
	}
	return ""
}
