// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"net"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// orDefault sets what a user left out.
func orDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func orDuration(field **metav1.Duration, value time.Duration) {
	orDefault(field, metav1.Duration{Duration: value})
}

func orQuantity(field **resource.Quantity, value string) {
	orDefault(field, resource.MustParse(value))
}

// SetDefaults_MesosArgs sets every field that has a default and was left out.
func SetDefaults_MesosArgs(a *MesosArgs) {
	orDefault(&a.FrameworkName, "kube-mesos-scheduler")
	if a.Roles == nil {
		a.Roles = []Role{{Name: "kubernetes"}}
	}
	orDefault(&a.User, "root")
	orDuration(&a.FailoverTimeout, 168*time.Hour)
	if a.TLS != nil {
		orDefault(&a.TLS.MinVersion, "1.2")
	}
	orDefault(&a.StateConfigMap.Namespace, "kube-mesos")
	orDefault(&a.StateConfigMap.Name, "kube-mesos-scheduler-framework")

	orDuration(&a.LaunchTimeout, time.Minute)
	orDefault(&a.LaunchRetries, 3)
	orDuration(&a.BatchWindow, 5*time.Millisecond)
	orDefault(&a.MaxBatchTasks, 100)

	orDuration(&a.IdleAfter, 5*time.Second)
	orDuration(&a.IdleRefuse, 5*time.Minute)
	orDuration(&a.ShortRefuse, 2*time.Second)
	orDuration(&a.OfferHold, 30*time.Second)

	orQuantity(&a.MinimumTaskResources.CPU, "10m")
	orQuantity(&a.MinimumTaskResources.Memory, "32Mi")
	setDefaultsExecutor(&a.Executor)

	orDuration(&a.ReconcileInterval, 15*time.Minute)
	orDuration(&a.ReholdTimeout, 30*time.Second)
	orDuration(&a.UnreachableTimeout, 0)
	orDuration(&a.OrphanGracePeriod, 30*time.Second)
	orDefault(&a.MaxOrphanKills, 20)

	if a.NodeMapping.Source == "" {
		a.NodeMapping.Source = NodeMappingHostname
	}
	orDefault(&a.AttributeLabels, true)
	orDuration(&a.MaintenanceLeadTime, 10*time.Minute)
	if a.InverseOffers == "" {
		a.InverseOffers = InverseOffersDecline
	}
	if a.TaskLimits == "" {
		a.TaskLimits = TaskLimitsNone
	}
	if a.ScoringStrategy == "" {
		a.ScoringStrategy = LeastAllocated
	}
	orDefault(&a.StatusAddress, "127.0.0.1:10270")
	orDefault(&a.WebUIURL, pageURL(*a.StatusAddress))
}

// pageURL is where somebody can open the page: by itself on the host of the scheduler, if it is served there in plain, or
// where `kubectl mesos ui` serves it.
func pageURL(statusAddress string) string {
	if statusAddress == "" {
		return ""
	}
	host, port, err := net.SplitHostPort(statusAddress)
	if err == nil && port != "0" && (host == "localhost" || net.ParseIP(host).IsLoopback()) {
		return "http://" + statusAddress + "/mesos/"
	}
	return "http://127.0.0.1:10270/mesos/"
}

func setDefaultsExecutor(e *Executor) {
	orDefault(&e.Path, "/opt/kube-mesos/bin/kube-mesos-executor")
	orDefault(&e.Kubeconfig, "/etc/kubernetes/kubelet.conf")
	orQuantity(&e.CPU, "100m")
	orQuantity(&e.Memory, "128Mi")
	orDuration(&e.BindTimeout, 10*time.Minute)
	orDuration(&e.ForceDeleteAfter, 0)
	orDuration(&e.KillMargin, time.Minute)
	orDuration(&e.ShutdownGracePeriod, 10*time.Minute)
	orDuration(&e.IdleTimeout, 10*time.Minute)
	orDefault(&e.MaxTasks, 5000)
}
