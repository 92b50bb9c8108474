// SPDX-License-Identifier: Apache-2.0

// Package scheme makes kube-scheduler's own scheme know MesosArgs. A program that decodes kube-scheduler's
// configuration imports it, if only for that effect.
package scheme

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	configv1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/v1"
)

var (
	// Scheme is kube-scheduler's scheme.
	Scheme = schedulerscheme.Scheme
	// Codecs decode strictly: unknown and duplicate fields are errors.
	Codecs = serializer.NewCodecFactory(Scheme, serializer.EnableStrict)
)

func init() { AddToScheme(Scheme) }

// AddToScheme adds all versions of kube-scheduler's configuration and of MesosArgs to a scheme.
func AddToScheme(scheme *runtime.Scheme) {
	utilruntime.Must(config.AddToScheme(scheme))
	utilruntime.Must(configv1.AddToScheme(scheme))
}
