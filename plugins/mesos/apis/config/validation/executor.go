// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
)

// Below these Mesos warns about an executor (src/master/validation.cpp).
const (
	minExecutorMilliCPU = 10
	minExecutorMemory   = 32 << 20
)

func validateExecutor(at *field.Path, e *config.Executor, launchTimeout time.Duration) field.ErrorList {
	errs := absolute(at.Child("path"), e.Path)
	errs = append(errs, absolute(at.Child("kubeconfig"), e.Kubeconfig)...)
	if e.CPU.MilliValue() < minExecutorMilliCPU {
		errs = append(errs, field.Invalid(at.Child("cpu"), e.CPU.String(), fmt.Sprintf("must be at least %dm", minExecutorMilliCPU)))
	}
	if e.Memory.Value() < minExecutorMemory {
		errs = append(errs, field.Invalid(at.Child("memory"), e.Memory.String(), fmt.Sprintf("must be at least %dMi", minExecutorMemory>>20)))
	}
	if d := e.BindTimeout.Duration; d <= 0 || d <= launchTimeout {
		errs = append(errs, field.Invalid(at.Child("bindTimeout"), d.String(),
			fmt.Sprintf("must be greater than launchTimeout (%v): a pod is bound only after its task's first status", launchTimeout)))
	}
	errs = append(errs, notNegative(at.Child("forceDeleteAfter"), e.ForceDeleteAfter)...)
	errs = append(errs, notNegative(at.Child("killMargin"), e.KillMargin)...)
	errs = append(errs, positive(at.Child("shutdownGracePeriod"), e.ShutdownGracePeriod)...)
	errs = append(errs, notNegative(at.Child("idleTimeout"), e.IdleTimeout)...)
	errs = append(errs, atLeast(at.Child("maxTasks"), e.MaxTasks, 1)...)
	seen := sets.New[string]()
	for i, v := range e.Environment {
		name := at.Child("environment").Index(i).Child("name")
		switch {
		case v.Name == "":
			errs = append(errs, field.Required(name, "give the name of the variable"))
			continue
		case strings.HasPrefix(v.Name, "MESOS_"):
			errs = append(errs, field.Invalid(name, v.Name, "must not begin with MESOS_: the agent sets these variables"))
		case seen.Has(v.Name):
			errs = append(errs, field.Duplicate(name, v.Name))
		}
		seen.Insert(v.Name)
		for _, reason := range validation.IsEnvVarName(v.Name) {
			errs = append(errs, field.Invalid(name, v.Name, reason))
		}
		if strings.Contains(v.Value, "\x00") {
			errs = append(errs, field.Invalid(at.Child("environment").Index(i).Child("value"), v.Value, "must not contain a NUL character"))
		}
	}
	return append(errs, validateAgentTLS(at.Child("environment"), e.Environment)...)
}

// validateAgentTLS checks the variables by which the executor speaks TLS with its agent: a wrong one would keep executors from
// starting on every host.
func validateAgentTLS(at *field.Path, environment []config.EnvVar) field.ErrorList {
	const prefix = "LIBPROCESS_SSL_"
	var errs field.ErrorList
	given := map[string]bool{}
	for i, v := range environment {
		name, ok := strings.CutPrefix(v.Name, prefix)
		if !ok {
			continue
		}
		given[name] = v.Value != ""
		value := at.Index(i).Child("value")
		switch name {
		case "ENABLED", "VERIFY_SERVER_CERT", "VERIFY_CERT":
			if !slices.Contains([]string{"", "true", "1", "false", "0"}, v.Value) {
				errs = append(errs, field.NotSupported(value, v.Value, []string{"true", "false"}))
			}
		case "CA_FILE", "CA_DIR", "CERT_FILE", "KEY_FILE":
			if v.Value != "" && !path.IsAbs(v.Value) {
				errs = append(errs, field.Invalid(value, v.Value, "must be an absolute path on the agents' hosts: executors run in their sandbox"))
			}
		}
	}
	for name, other := range map[string]string{"CERT_FILE": "KEY_FILE", "KEY_FILE": "CERT_FILE"} {
		if given[name] && !given[other] {
			errs = append(errs, field.Required(at, prefix+name+" needs "+prefix+other))
		}
	}
	return errs
}

// absolute checks a path on the agents' hosts, which are Unix hosts whatever runs this.
func absolute(at *field.Path, name string) field.ErrorList {
	if path.IsAbs(name) && path.Clean(name) == name && name != "/" {
		return nil
	}
	return field.ErrorList{field.Invalid(at, name, "must be the absolute path of a file on the agents' hosts, without '.', '..' or a slash at the end")}
}
