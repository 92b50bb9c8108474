// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"strings"
	"testing"
)

func TestValidateRole(t *testing.T) {
	tests := []struct{ role, want string }{
		{"*", ""}, {"a", ""}, {"a/b", ""},
		{"", "Role names cannot be the empty string"},
		{"/a", "Role '/a' cannot start with a slash"},
		{"a/", "Role 'a/' cannot end with a slash"},
		{"a//b", "Role 'a//b' cannot contain two adjacent slashes"},
		{"a/../b", "Role 'a/../b' cannot include '..' as a component"},
		{"a/*", "Role 'a/*' cannot include '*' as a component"},
		{"-a", "Role component '-a' is invalid because it begins with a dash"},
		{"a b", "Role component 'a b' is invalid because it contains backspace or whitespace characters"},
	}
	for _, tt := range tests {
		if got := validateRole(tt.role); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.role, got, tt.want)
		}
	}
}

// TestTaskValidation walks through the rules of section 2 that no recording shows.
func TestTaskValidation(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(1), Timing: fastTiming()})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	executor := func(change func(obj)) func(obj) {
		return func(task obj) { change(task["executor"].(obj)) }
	}
	tests := []struct {
		name   string
		change func(task obj)
		want   string
	}{
		{"negative completion time", func(o obj) { o["max_completion_time"] = obj{"nanoseconds": -1} }, "Task's `max_completion_time` must be non-negative"},
		{"check without a type", func(o obj) { o["check"] = obj{} }, "Task uses invalid check: CheckInfo must specify 'type'"},
		{"health check without a type", func(o obj) { o["health_check"] = obj{} }, "Task uses invalid health check: HealthCheck must specify 'type'"},
		{"health check with a negative delay", func(o obj) {
			o["health_check"] = obj{"type": "TCP", "tcp": obj{"port": 80}, "delay_seconds": -1}
		}, "Task uses invalid health check: Expecting 'delay_seconds' to be non-negative"},
		{"two roles", func(o obj) {
			rs := scalars(0.1, 32)
			rs[0]["allocation_info"], rs[1]["allocation_info"] = obj{"role": "a"}, obj{"role": "b"}
			o["resources"] = rs
		}, "Invalid task resources: The resources have multiple allocation roles ('b' and 'a') but only one allocation role is allowed"},
		{"two images", func(o obj) {
			o["container"] = obj{"type": "MESOS", "volumes": []obj{{"mode": "RW", "container_path": "/a", "host_path": "/b", "source": obj{"type": "SANDBOX_PATH"}}}}
		}, "Task's `ContainerInfo` is invalid: Invalid volume: Only one of them should be set: 'host_path', 'image' and 'source'"},
		{"docker without docker", func(o obj) { o["container"] = obj{"type": "DOCKER"} }, "Task's `ContainerInfo` is invalid: DockerInfo 'docker' is not set for DOCKER typed ContainerInfo"},
		{"limit without a request", func(o obj) {
			o["resources"], o["limits"] = scalars(0.1, 32)[:1], obj{"mem": obj{"value": 64}}
		}, "When a memory limit is specified, a memory request must also be specified"},
		{"secret without a secret", executor(func(o obj) {
			o["command"] = obj{"value": "x", "environment": obj{"variables": []obj{{"name": "N", "type": "SECRET"}}}}
		}), "Executor's `CommandInfo` is invalid: Environment variable 'N' of type 'SECRET' must have a secret set"},
		{"executor with a negative grace", executor(func(o obj) { o["shutdown_grace_period"] = obj{"nanoseconds": -1} }), "ExecutorInfo's 'shutdown_grace_period' must be non-negative"},
		{"executor id with a slash", executor(func(o obj) { o["executor_id"] = id("a/b") }), "'a/b' contains invalid characters"},
		{"ports of task and executor overlap", func(o obj) {
			ports := obj{"name": "ports", "type": "RANGES", "ranges": obj{"range": []obj{{"begin": 31000, "end": 31001}}}}
			o["resources"] = append(scalars(0.1, 32), ports)
			o["executor"].(obj)["resources"] = append(scalars(0.1, 32), ports)
		}, "There are overlapping resources in the task resources"},
		{"reserved for a role that has nothing", func(o obj) {
			rs := scalars(0.1, 32)
			rs[0]["reservations"] = []obj{{"type": "STATIC", "role": "kubernetes"}}
			o["resources"] = rs
		}, "Total resources cpus(allocated: kubernetes)(reservations: [(STATIC,kubernetes)]):0.1; mem(allocated: kubernetes):64"},
		{"reservation without a role", func(o obj) {
			rs := scalars(0.1, 32)
			rs[0]["reservations"] = []obj{{"type": "STATIC"}}
			o["resources"] = rs
		}, "Resource 'cpus(reservations: [(STATIC,)]):0.1' is invalid: Invalid reservation: 'role' field must be set"},
		{"good", func(obj) {}, ""},
	}
	for _, tt := range tests {
		offer := f.offers()[0]
		task := obj{"name": "t", "task_id": id(tt.name), "agent_id": offer["agent_id"], "resources": scalars(0.1, 32), "executor": executorInfo("x", "true")}
		tt.change(task)
		f.accept([]any{offer["id"]}, []obj{task})
		status := f.update()
		text, _ := status["message"].(string)
		switch {
		case tt.want == "" && status["state"] != "TASK_STARTING":
			t.Errorf("%s: %v", tt.name, status)
		case tt.want != "" && (status["state"] != "TASK_ERROR" || !strings.HasPrefix(text, tt.want)):
			t.Errorf("%s: %s %q, want %q", tt.name, status["state"], text, tt.want)
		}
	}
	if made := c.Counters(); made.OffersMade != made.OffersAccepted+made.OffersDeclined+made.OffersRescinded+made.OffersLost+made.OffersInvalidated+len(c.Offers()) {
		t.Errorf("offers do not add up: %+v", made)
	}
}
