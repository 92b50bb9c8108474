// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// MesosArgs holds the arguments of the plugin Mesos. All profiles that name the same framework share one Mesos session, so
// these settings must be equal in all of them, save ScoringStrategy and the order of Roles.
type MesosArgs struct {
	metav1.TypeMeta `json:",inline"`

	// Masters are the Mesos masters: in any order host:port, http://host:port or https://host:port, or alone
	// zk://[user:password@]host:port[,host:port...]/path. Without a scheme, and for masters found in ZooKeeper, https is used
	// if TLS is set and http if not. Required.
	Masters []string `json:"masters"`
	// FrameworkName is the name under which Mesos shows the framework, at most 255 characters.
	// Defaults to kube-mesos-scheduler.
	// +optional
	FrameworkName *string `json:"frameworkName,omitempty"`
	// Roles are the Mesos roles that the framework takes offers for. A pod gets the first role whose selector matches its
	// namespace, unless it asks by annotation for another one that matches. Roles may be added and removed at any time.
	// Defaults to one role, kubernetes, for all namespaces.
	// +optional
	Roles []Role `json:"roles,omitempty"`
	// User is the operating system user that executors run as (FrameworkInfo.user). The master ignores a change of it for
	// a framework that it knows, so a new value takes effect with a new framework id only. Defaults to root, who may read the
	// kubelet's key.
	// +optional
	User *string `json:"user,omitempty"`
	// Hostname is the host name that Mesos shows for the framework. Empty means that of this host.
	// +optional
	Hostname string `json:"hostname,omitempty"`
	// WebUIURL is the http or https address to which the Mesos UI links from the framework's name. Defaults to the page's own
	// address if statusAddress is a loopback address with a port, else to http://127.0.0.1:10270/mesos/, where `kubectl mesos
	// ui` serves the page on the machine of whoever runs it; the scheduler publishes it nowhere else. Empty means no link.
	// +optional
	WebUIURL *string `json:"webUIURL,omitempty"`
	// FailoverTimeout is how long the master keeps the framework's tasks running while no scheduler is connected
	// (FrameworkInfo.failover_timeout). When it has passed, Mesos kills every task and never accepts the framework id again.
	// Mesos' own default, 0, would do so at each lost connection and is refused. Defaults to 168h.
	// +optional
	FailoverTimeout *metav1.Duration `json:"failoverTimeout,omitempty"`
	// Authentication proves to the master who the framework is. Empty means that requests carry no credential.
	// +optional
	Authentication Authentication `json:"authentication,omitempty"`
	// TLS is for masters that are reached by https. Unset means the system's certificate authorities and no client
	// certificate.
	// +optional
	TLS *TLS `json:"tls,omitempty"`
	// StateConfigMap names the ConfigMap that keeps the framework id. It must stay the same for the life of the framework.
	// +optional
	StateConfigMap ObjectReference `json:"stateConfigMap,omitempty"`
	// LaunchTimeout is how long a pod's binding waits from the ACCEPT that launches its task to the task's first status.
	// Defaults to 60s; an agent that starts a new executor needs up to a minute.
	// +optional
	LaunchTimeout *metav1.Duration `json:"launchTimeout,omitempty"`
	// LaunchRetries is how often a launch that Mesos refused because its offers were gone is repeated on fresh offers of the
	// same agent before the pod goes back to the queue. Defaults to 3; 0 means never.
	// +optional
	LaunchRetries *int32 `json:"launchRetries,omitempty"`
	// BatchWindow is how long an ACCEPT waits for another claim on its agent, counted from the latest; four times as long after
	// the first it waits no more. Defaults to 5ms; 0 means that each is sent alone; at most 1s.
	// +optional
	BatchWindow *metav1.Duration `json:"batchWindow,omitempty"`
	// MaxBatchTasks is how many tasks one ACCEPT launches at most. Defaults to 100: agents take 10 to 100 in one best.
	// +optional
	MaxBatchTasks *int32 `json:"maxBatchTasks,omitempty"`
	// IdleAfter is how long no pod must have waited for offers of a role before the role's offers are declined for IdleRefuse and
	// the role is suppressed. Defaults to 5s.
	// +optional
	IdleAfter *metav1.Duration `json:"idleAfter,omitempty"`
	// IdleRefuse is how long an agent is not offered again after its offer was declined by an idle role
	// (Filters.refuse_seconds). A waiting pod clears it with a REVIVE. Defaults to 5m.
	// +optional
	IdleRefuse *metav1.Duration `json:"idleRefuse,omitempty"`
	// ShortRefuse is how long an agent is not offered again after its offer was declined because no waiting pod can use it
	// (Filters.refuse_seconds). Defaults to 2s; not longer than IdleRefuse.
	// +optional
	ShortRefuse *metav1.Duration `json:"shortRefuse,omitempty"`
	// OfferHold is how long an offer without a claim on it is held at most before it is declined, so that other frameworks get
	// its resources. Defaults to 30s.
	// +optional
	OfferHold *metav1.Duration `json:"offerHold,omitempty"`
	// MinimumTaskResources are what a pod that requests less is counted with, both when it is filtered and in its task.
	// Mesos refuses tasks without resources. Default to 10m and 32Mi, the least that Mesos offers.
	// +optional
	MinimumTaskResources ComputeResources `json:"minimumTaskResources,omitempty"`
	// Executor describes the executors, one on each agent that runs pods.
	// +optional
	Executor Executor `json:"executor,omitempty"`
	// ReconcileInterval is how often all tasks are compared with what the master knows (implicit reconciliation). Defaults to
	// 15m.
	// +optional
	ReconcileInterval *metav1.Duration `json:"reconcileInterval,omitempty"`
	// ReholdTimeout is how long a running pod whose task was lost by an accident of its executor or agent may stay without one
	// while a new task for it is launched. After that it is removed. Defaults to 30s.
	// +optional
	ReholdTimeout *metav1.Duration `json:"reholdTimeout,omitempty"`
	// UnreachableTimeout is how long pods on an agent that the master cannot reach are kept while their node is Ready. Nobody
	// else can be offered what they use. Defaults to 0s: for ever.
	// +optional
	UnreachableTimeout *metav1.Duration `json:"unreachableTimeout,omitempty"`
	// OrphanGracePeriod is how long a task without a pod is left alone before it is killed. Defaults to 30s.
	// +optional
	OrphanGracePeriod *metav1.Duration `json:"orphanGracePeriod,omitempty"`
	// MaxOrphanKills is how many tasks without a pod may be killed at once. If there are more, or more than 5 % of all tasks,
	// none is killed until an operator confirms it. Defaults to 20.
	// +optional
	MaxOrphanKills *int32 `json:"maxOrphanKills,omitempty"`
	// NodeMapping says which node an agent belongs to.
	// +optional
	NodeMapping NodeMapping `json:"nodeMapping,omitempty"`
	// AttributeLabels says whether the attributes of agents become labels of their nodes. Defaults to true.
	// +optional
	AttributeLabels *bool `json:"attributeLabels,omitempty"`
	// MaintenanceLeadTime is how long before the start of an agent's maintenance window its offers are no longer used. Defaults
	// to 10m.
	// +optional
	MaintenanceLeadTime *metav1.Duration `json:"maintenanceLeadTime,omitempty"`
	// InverseOffers says how the master is answered when it asks for an agent's resources back for a maintenance window:
	// Decline promises nothing; Drain promises it, and evicts the agent's pods by the eviction API in time for the window, as
	// PodDisruptionBudgets allow. Drain needs the right to create pods/eviction. Defaults to Decline.
	// +optional
	InverseOffers InverseOfferPolicy `json:"inverseOffers,omitempty"`
	// TaskLimits says what Mesos is told of pods' limits (TaskInfo.limits, Mesos 1.10): None, or FromPod for those of cpu and
	// memory. An agent whose isolators enforce no limits refuses such tasks and gets them without limits from then on.
	// Defaults to None: the kubelet enforces limits.
	// +optional
	TaskLimits TaskLimitsPolicy `json:"taskLimits,omitempty"`
	// ScoringStrategy says which of the agents that fit is preferred: LeastAllocated spreads pods, MostAllocated packs them.
	// Defaults to LeastAllocated.
	// +optional
	ScoringStrategy ScoringStrategyType `json:"scoringStrategy,omitempty"`
	// ReserveForGangs has what the launches of a gang's first members leave over reserved for those that still wait, by
	// dynamic reservations for their role with Authentication.Principal, so that the master gives it to no other role
	// meanwhile. They are given back when the gang is placed or gives up. The principal must be allowed to reserve and to
	// unreserve resources of Roles. Not for the role *. Defaults to false.
	// +optional
	ReserveForGangs bool `json:"reserveForGangs,omitempty"`
	// Revocable asks for offers of revocable resources too (capability REVOCABLE_RESOURCES), which Mesos may take back from
	// running pods. Defaults to false.
	// +optional
	Revocable bool `json:"revocable,omitempty"`
	// GPUs asks for offers of agents with GPUs too (capability GPU_RESOURCES). Mesos does not say which device a task gets, so
	// only agents whose GPUs are all reserved to one of Roles run pods with GPUs. Defaults to false.
	// +optional
	GPUs bool `json:"gpus,omitempty"`
	// StatusAddress is the host:port on which health, readiness, the debug API and its page are served: on a loopback address
	// by plain HTTP to everybody on the host, elsewhere by TLS with kube-scheduler's own certificate, and all but health and
	// readiness only to those whom the API server allows. Port 0 means any that is free. Defaults to 127.0.0.1:10270; empty
	// means that they are not served.
	// +optional
	StatusAddress *string `json:"statusAddress,omitempty"`
}

// Role is a Mesos role and the namespaces whose pods may use it.
type Role struct {
	// Name is the name of the role, by Mesos' rules: parts separated by slashes, none of them empty, '.', '..' or '*', none
	// beginning with '-', and no white space (src/common/roles.cpp). '*' alone is the default role. Required.
	Name string `json:"name"`
	// NamespaceSelector selects namespaces by their labels. Unset selects all; an empty selector does too.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// Authentication names the credential of the framework. Files are read again for each request, so a new secret of the same
// principal needs no restart.
type Authentication struct {
	// Principal is the framework's principal (FrameworkInfo.principal). The master refuses to change it for a framework that
	// it knows, whose id would then have to be given up together with its tasks.
	// +optional
	Principal string `json:"principal,omitempty"`
	// SecretFile is the path of a file with the secret of Principal, sent by HTTP Basic authentication. Mesos takes no colon in
	// either.
	// +optional
	SecretFile string `json:"secretFile,omitempty"`
	// BearerTokenFile is the path of a file with a token, sent as Authorization: Bearer, for masters with an authenticator
	// module. It excludes SecretFile.
	// +optional
	BearerTokenFile string `json:"bearerTokenFile,omitempty"`
}

// TLS says whom to trust and how to prove who we are.
type TLS struct {
	// CAFile is the path of a PEM file with the certificate authorities that sign the masters' certificates. Empty means the
	// system's.
	// +optional
	CAFile string `json:"caFile,omitempty"`
	// CertFile is the path of a PEM file with a client certificate, for masters that require one
	// (LIBPROCESS_SSL_REQUIRE_CLIENT_CERT). It needs KeyFile.
	// +optional
	CertFile string `json:"certFile,omitempty"`
	// KeyFile is the path of a PEM file with the key of CertFile.
	// +optional
	KeyFile string `json:"keyFile,omitempty"`
	// ServerName is the name that masters' certificates are checked for. Empty means the host of each master's address.
	// +optional
	ServerName string `json:"serverName,omitempty"`
	// MinVersion is the lowest version of TLS that is spoken, "1.2" or "1.3". Defaults to "1.2".
	// +optional
	MinVersion *string `json:"minVersion,omitempty"`
}

// ObjectReference names an object.
type ObjectReference struct {
	// Namespace defaults to kube-mesos.
	// +optional
	Namespace *string `json:"namespace,omitempty"`
	// Name defaults to kube-mesos-scheduler-framework.
	// +optional
	Name *string `json:"name,omitempty"`
}

// ComputeResources are amounts of CPU and memory.
type ComputeResources struct {
	// CPU is in cores; Mesos counts thousandths.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory is in bytes; Mesos counts thousandths of a MiB.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// Executor describes an executor: how an agent starts it, what it may use, and how it treats pods. A change makes new
// executors; running ones go on with what they were started with until their last task has ended.
type Executor struct {
	// Path is the absolute path of the program on the agents' hosts. Defaults to /opt/kube-mesos/bin/kube-mesos-executor.
	// +optional
	Path *string `json:"path,omitempty"`
	// Kubeconfig is the absolute path, on the agents' hosts, of a kubeconfig with a node's credential. Defaults to the
	// kubelet's, /etc/kubernetes/kubelet.conf.
	// +optional
	Kubeconfig *string `json:"kubeconfig,omitempty"`
	// CPU is what Mesos sets aside for an executor, in cores. Defaults to 100m; at least 10m, below which Mesos warns.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory is what Mesos sets aside for an executor, in bytes. Defaults to 128Mi; at least 32Mi, below which Mesos warns.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// BindTimeout is how long an executor waits for the pod of a task before the task fails. Defaults to 10m; longer than
	// LaunchTimeout.
	// +optional
	BindTimeout *metav1.Duration `json:"bindTimeout,omitempty"`
	// ForceDeleteAfter is how long after the end of its grace period a deleted pod that does not go is deleted by force.
	// Defaults to 0s: never.
	// +optional
	ForceDeleteAfter *metav1.Duration `json:"forceDeleteAfter,omitempty"`
	// KillMargin is how long after the end of its grace period a deleted pod counts as stopped where its cgroups cannot be seen
	// and the kubelet says nothing. Defaults to 60s.
	// +optional
	KillMargin *metav1.Duration `json:"killMargin,omitempty"`
	// ShutdownGracePeriod is how long an executor may take to stop its pods before the agent kills it
	// (ExecutorInfo.shutdown_grace_period). Defaults to 10m.
	// +optional
	ShutdownGracePeriod *metav1.Duration `json:"shutdownGracePeriod,omitempty"`
	// IdleTimeout is how long an executor without tasks is kept. Defaults to 10m; 0s means for ever.
	// +optional
	IdleTimeout *metav1.Duration `json:"idleTimeout,omitempty"`
	// MaxTasks is how many tasks an executor takes before a new one replaces it. Defaults to 5000.
	// +optional
	MaxTasks *int32 `json:"maxTasks,omitempty"`
	// Environment is added to the environment of executors. Names that begin with MESOS_ belong to the agent.
	// +optional
	Environment []EnvVar `json:"environment,omitempty"`
}

// EnvVar is a variable of an environment.
type EnvVar struct {
	// Name is the name of the variable. Required.
	Name string `json:"name"`
	// Value is its value, taken as it is.
	// +optional
	Value string `json:"value,omitempty"`
}

// NodeMapping says how the node of an agent is found.
type NodeMapping struct {
	// Source is what of a node is compared with the agent's host name: Hostname, the node's name; Address, one of its
	// addresses, which is also compared with the agent's IP address; Label, the value of one of its labels. Defaults to
	// Hostname.
	// +optional
	Source NodeMappingSource `json:"source,omitempty"`
	// Label is the key of the label for Source Label.
	// +optional
	Label string `json:"label,omitempty"`
	// StripDomain compares only what stands before the first dot of the agent's host name, unless that is an IP address.
	// Defaults to false; not for Source Address.
	// +optional
	StripDomain bool `json:"stripDomain,omitempty"`
}

// NodeMappingSource is what of a node is compared with an agent.
type NodeMappingSource string

const (
	// NodeMappingHostname compares the node's name with the agent's host name.
	NodeMappingHostname NodeMappingSource = "Hostname"
	// NodeMappingAddress compares the node's addresses with the agent's host name and IP address.
	NodeMappingAddress NodeMappingSource = "Address"
	// NodeMappingLabel compares the value of a label of the node with the agent's host name.
	NodeMappingLabel NodeMappingSource = "Label"
)

// InverseOfferPolicy is how inverse offers are answered.
type InverseOfferPolicy string

const (
	// InverseOffersDecline promises nothing: pods stay until the window begins.
	InverseOffersDecline InverseOfferPolicy = "Decline"
	// InverseOffersDrain promises the agent's resources and evicts its pods in time for the window.
	InverseOffersDrain InverseOfferPolicy = "Drain"
)

// TaskLimitsPolicy is what Mesos is told of pods' limits.
type TaskLimitsPolicy string

const (
	// TaskLimitsNone tells Mesos requests only.
	TaskLimitsNone TaskLimitsPolicy = "None"
	// TaskLimitsFromPod tells Mesos the limits of cpu and memory of pods whose containers all have them.
	TaskLimitsFromPod TaskLimitsPolicy = "FromPod"
)

// ScoringStrategyType is how agents that fit are ranked.
type ScoringStrategyType string

const (
	// LeastAllocated prefers agents with much left.
	LeastAllocated ScoringStrategyType = "LeastAllocated"
	// MostAllocated prefers agents with little left.
	MostAllocated ScoringStrategyType = "MostAllocated"
)
