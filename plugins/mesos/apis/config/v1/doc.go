// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config
// +k8s:defaulter-gen=TypeMeta
// +groupName=kubescheduler.config.k8s.io

// Package v1 is how users write the arguments of the plugin Mesos: kind MesosArgs in group kubescheduler.config.k8s.io/v1.
package v1
