// SPDX-License-Identifier: Apache-2.0

package config

import (
	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// The types join those of kube-scheduler, since it decodes the arguments of a plugin as <name of the plugin>Args of its
// own group.
var (
	localSchemeBuilder = &schedulerconfig.SchemeBuilder
	// AddToScheme adds the internal types of kube-scheduler's configuration and MesosArgs to a scheme.
	AddToScheme = localSchemeBuilder.AddToScheme
)

func init() { localSchemeBuilder.Register(addKnownTypes) }

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(schedulerconfig.SchemeGroupVersion, &MesosArgs{})
	return nil
}
