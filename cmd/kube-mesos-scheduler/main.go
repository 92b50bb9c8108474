// SPDX-License-Identifier: Apache-2.0

// Command kube-mesos-scheduler is kube-scheduler with the plugin Mesos: pods of a profile that enables it are placed by
// Mesos offers, launched as Mesos tasks and bound.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // the JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"

	_ "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/scheme" // MesosArgs, for kube-scheduler's decoder
)

func main() { os.Exit(cli.Run(newCommand())) }
