// SPDX-License-Identifier: Apache-2.0

package taskinfo

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// NodePlaceholder in the executor's kubeconfig path stands for the name of the node.
const NodePlaceholder = "{node}"

// Executor describes the executors that the framework launches.
type Executor struct {
	// Path is the executor binary on the agents' hosts.
	Path string
	// Kubeconfig is the path of the node's credentials on the agents' hosts; NodePlaceholder in it is replaced.
	Kubeconfig string
	// Amounts are the executor's own cpus and memory.
	Amounts resources.Amounts
	// BindTimeout, ForceDeleteAfter and KillMargin are passed on as flags.
	BindTimeout, ForceDeleteAfter, KillMargin time.Duration
	// ShutdownGracePeriod is what the agent gives an executor after SHUTDOWN. Mesos does not compare it.
	ShutdownGracePeriod time.Duration
	// Environment is set for the executor process.
	Environment []EnvironmentVariable
	// User runs the executor.
	User string
}

// EnvironmentVariable is one variable of the executor's environment.
type EnvironmentVariable struct{ Name, Value string }

// memoryShare is the part of the executor's memory that its Go runtime is told to stay below.
const memoryShare = 0.8

// Digest returns a short digest of everything that makes two executors different for Mesos, except the reservation of
// their resources: a changed description gets another executor id, and the old executor drains beside the new one.
func (e Executor) Digest(node, role string, revocable bool) string {
	e.ShutdownGracePeriod = 0
	b, err := json.Marshal(struct {
		Executor  Executor
		Node      string
		Role      string
		Revocable bool
		Command   *mesos.CommandInfo
	}{e, node, role, revocable, e.command(node)})
	if err != nil {
		panic(err) // strings, numbers and a CommandInfo always marshal
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// Info returns the ExecutorInfo for an id. Equal arguments give equal infos: the master compares them.
func (e Executor) Info(id, node string, held []mesos.Resource) *mesos.ExecutorInfo {
	name := "kube-mesos-executor"
	return &mesos.ExecutorInfo{
		Type:                mesos.ExecutorInfo_CUSTOM,
		ExecutorID:          mesos.ExecutorID{Value: id},
		Name:                &name,
		Command:             e.command(node),
		Resources:           held,
		ShutdownGracePeriod: &mesos.DurationInfo{Nanoseconds: e.ShutdownGracePeriod.Nanoseconds()},
	}
}

func (e Executor) command(node string) *mesos.CommandInfo {
	shell := false
	path := e.Path
	variables := []mesos.Environment_Variable{}
	set := func(name, value string) {
		variables = append(variables, mesos.Environment_Variable{Name: name, Value: &value})
	}
	if e.Amounts.Mem > 0 {
		set("GOMEMLIMIT", resources.FormatMilli(int64(float64(e.Amounts.Mem)*memoryShare)/1000*1000)+"MiB")
	}
	for _, v := range e.Environment {
		set(v.Name, v.Value)
	}
	command := &mesos.CommandInfo{
		Shell: &shell,
		Value: &path,
		Arguments: []string{
			path,
			"--kubeconfig=" + strings.ReplaceAll(e.Kubeconfig, NodePlaceholder, node),
			"--node-name=" + node,
			"--bind-timeout=" + e.BindTimeout.String(),
			"--force-delete-after=" + e.ForceDeleteAfter.String(),
			"--kill-margin=" + e.KillMargin.String(),
		},
		Environment: &mesos.Environment{Variables: variables},
	}
	if e.User != "" {
		user := e.User
		command.User = &user
	}
	return command
}
