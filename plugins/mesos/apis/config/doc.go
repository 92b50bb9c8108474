// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +groupName=kubescheduler.config.k8s.io

// Package config holds the arguments of the plugin Mesos in kube-scheduler's configuration, complete and checked. The
// form in which users write them is in v1.
package config
