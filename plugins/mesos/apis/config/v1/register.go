// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
)

var (
	localSchemeBuilder = &schedulerv1.SchemeBuilder
	// AddToScheme adds version v1 of kube-scheduler's configuration and of MesosArgs, with its defaults and conversions,
	// to a scheme.
	AddToScheme = localSchemeBuilder.AddToScheme
)

// Conversions are registered by the generated code.
func init() { localSchemeBuilder.Register(addKnownTypes, addDefaultingFuncs) }

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(schedulerv1.SchemeGroupVersion, &MesosArgs{})
	return nil
}

func addDefaultingFuncs(scheme *runtime.Scheme) error { return RegisterDefaults(scheme) }
