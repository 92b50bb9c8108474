// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"path"
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
	return errs
}

// absolute checks a path on the agents' hosts, which are Unix hosts whatever runs this.
func absolute(at *field.Path, name string) field.ErrorList {
	if path.IsAbs(name) && path.Clean(name) == name && name != "/" {
		return nil
	}
	return field.ErrorList{field.Invalid(at, name, "must be the absolute path of a file on the agents' hosts, without '.', '..' or a slash at the end")}
}
