// SPDX-License-Identifier: Apache-2.0

// Package mesos is a plugin of the Kubernetes scheduler framework that delegates to Mesos: Filter and Score consult a
// snapshot of Mesos offers, Reserve and Unreserve claim and release them, Bind launches the Mesos task.
//
// All profiles of a process that enable the plugin share one System: one framework, one ledger.
package mesos

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/validation"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug"
)

// Name is the plugin's name in the configuration.
const Name = "Mesos"

// Mesos is the plugin of one profile.
type Mesos struct {
	system *System
	handle fwk.Handle
	args   *config.MesosArgs
}

var (
	_ fwk.PreEnqueuePlugin    = &Mesos{}
	_ fwk.EnqueueExtensions   = &Mesos{}
	_ fwk.PreFilterPlugin     = &Mesos{}
	_ fwk.PreFilterExtensions = &Mesos{}
	_ fwk.FilterPlugin        = &Mesos{}
	_ fwk.PreScorePlugin      = &Mesos{}
	_ fwk.ScorePlugin         = &Mesos{}
	_ fwk.ScoreExtensions     = &Mesos{}
	_ fwk.ReservePlugin       = &Mesos{}
	_ fwk.BindPlugin          = &Mesos{}
	_ fwk.SignPlugin          = &Mesos{}
)

// Name returns the plugin's name.
func (m *Mesos) Name() string { return Name }

// Factory makes the plugin of one profile. kube-scheduler calls it before leader election and once a profile, so it
// opens no connection.
func (s *System) Factory(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, ok := obj.(*config.MesosArgs)
	if !ok {
		return nil, fmt.Errorf("profile %s: pluginConfig of %s holds a %T, it must be MesosArgs with at least the masters", handle.ProfileName(), Name, obj)
	}
	if err := validation.ValidateMesosArgs(field.NewPath("args"), args).ToAggregate(); err != nil {
		return nil, fmt.Errorf("profile %s: pluginConfig of %s: %w", handle.ProfileName(), Name, err)
	}
	// kube-scheduler logs this very object after the plugins were made, and shows it under /configz.
	shown := args
	args = args.DeepCopy()
	debug.HideSecrets(shown)
	if err := s.join(ctx, args, handle); err != nil {
		return nil, fmt.Errorf("profile %s: %w", handle.ProfileName(), err)
	}
	return &Mesos{system: s, handle: handle, args: args}, nil
}
