// SPDX-License-Identifier: Apache-2.0

// Package bridge keeps the Mesos tasks of one executor and the pods of its node in step: it connects package machine,
// which decides, with the Mesos agent, the API server, the host's cgroups and a journal in the sandbox.
package bridge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options are the executor's flags.
type Options struct {
	// Kubeconfig is the path of the node's kubeconfig.
	Kubeconfig string
	// NodeName is the name of the node that this host is.
	NodeName string
	// BindTimeout is how long a task waits for its pod.
	BindTimeout time.Duration
	// ForceDeleteAfter is how long after its grace a pod's object is removed by force; 0 is never.
	ForceDeleteAfter time.Duration
	// KillMargin is how long after its grace a pod counts as stopped where neither cgroups nor the kubelet say so.
	KillMargin time.Duration
	// CgroupRoot is where the host's cgroups are mounted.
	CgroupRoot string

	// Version is this program's; no flag sets it.
	Version string
}

// DefaultOptions returns the defaults of the flags.
func DefaultOptions() Options {
	return Options{BindTimeout: 10 * time.Minute, KillMargin: time.Minute, CgroupRoot: "/sys/fs/cgroup"}
}

// AddFlags adds a flag for each option to fs.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Path of a kubeconfig with the credentials of this node, such as the kubelet's. Read again when it or a file that it names changes.")
	fs.StringVar(&o.NodeName, "node-name", o.NodeName, "Name of the Kubernetes node that this host is.")
	fs.DurationVar(&o.BindTimeout, "bind-timeout", o.BindTimeout, "How long a task waits for its pod to be bound to this node before it fails, counted while the API server can be reached.")
	fs.DurationVar(&o.ForceDeleteAfter, "force-delete-after", o.ForceDeleteAfter, "How long after the end of its grace a terminating pod's object is removed without the kubelet's word; 0 is never.")
	fs.DurationVar(&o.KillMargin, "kill-margin", o.KillMargin, "How long after the end of its grace a terminating pod counts as stopped if neither its cgroup nor the kubelet say so.")
	fs.StringVar(&o.CgroupRoot, "cgroup-root", o.CgroupRoot, "Where the cgroups of this host are mounted.")
}

// Validate returns an error that names every flag with a bad value.
func (o *Options) Validate() error {
	var errs []error
	bad := func(flag string, value any, want string) {
		errs = append(errs, fmt.Errorf("--%s=%v: %s", flag, value, want))
	}
	if o.Kubeconfig == "" {
		bad("kubeconfig", o.Kubeconfig, "a path is required")
	}
	if msgs := validation.IsDNS1123Subdomain(o.NodeName); len(msgs) > 0 {
		bad("node-name", o.NodeName, strings.Join(msgs, "; "))
	}
	if o.BindTimeout <= 0 {
		bad("bind-timeout", o.BindTimeout, "must be greater than 0")
	}
	if o.ForceDeleteAfter < 0 {
		bad("force-delete-after", o.ForceDeleteAfter, "must not be negative")
	}
	if o.KillMargin < 0 {
		bad("kill-margin", o.KillMargin, "must not be negative")
	}
	if !filepath.IsAbs(o.CgroupRoot) {
		bad("cgroup-root", o.CgroupRoot, "must be an absolute path")
	} else if info, err := os.Stat(o.CgroupRoot); err == nil && !info.IsDir() {
		bad("cgroup-root", o.CgroupRoot, "is no directory")
	}
	return errors.Join(errs...)
}
