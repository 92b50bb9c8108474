// SPDX-License-Identifier: Apache-2.0

// Package wellknown names every annotation, label and taint that the product reads or writes on Kubernetes objects and
// every label it puts on Mesos tasks. Keys are fixed; text that comes from users goes into values only.
package wellknown

// Domain is the key domain of the product.
const Domain = "kube-mesos.io"

// Annotations that the Binding of a pod carries. Anybody can write them, so they are hints: a record counts only if
// its task id belongs to the pod's UID and Mesos knows the task.
const (
	// TaskIDAnnotation is the id of the Mesos task that holds the pod's resources.
	TaskIDAnnotation = Domain + "/task-id"
	// AgentIDAnnotation is the id of the Mesos agent that the task was launched on.
	AgentIDAnnotation = Domain + "/agent-id"
	// FrameworkIDAnnotation is the id of the Mesos framework that launched the task.
	FrameworkIDAnnotation = Domain + "/framework-id"
	// ExecutorIDAnnotation is the id of the Mesos executor that looks after the task.
	ExecutorIDAnnotation = Domain + "/executor-id"
	// ResourcesAnnotation is what the task holds, as Mesos writes it: `cpus:0.5;mem:128;ports:[31000-31000]`.
	ResourcesAnnotation = Domain + "/resources"
	// ExceedsTaskAnnotation is by how much the pod asks for more than its task holds, as Mesos writes it, after it was
	// resized in place: a Mesos task cannot grow. It is absent while the task holds all.
	ExceedsTaskAnnotation = Domain + "/exceeds-task"
	// AbandonedTaskAnnotation is the id of a task that was launched for the pod by a scheduler that did not come to bind it,
	// and that is killed now. To write it makes the API server refuse that scheduler's Binding, should it still come.
	AbandonedTaskAnnotation = Domain + "/abandoned-task"
)

// Annotations that a user sets on a pod.
const (
	// RoleAnnotation picks one of the roles that the pod's namespace may use; without it the namespace's first role counts.
	RoleAnnotation = Domain + "/role"
	// HostPortsAnnotation names the host ports that a pod on the host's network wants, whichever they are:
	// `http,admin`. HostPortAnnotationPrefix has the numbers, in the order of the names.
	HostPortsAnnotation = Domain + "/host-ports"
	// RevocableAnnotation, set to "true", has the pod hold revocable resources, which Mesos may take back at any time.
	RevocableAnnotation = Domain + "/revocable"
)

// HostPortAnnotationPrefix and an index make the annotation that the Binding sets for each port that the pod has named:
// `kube-mesos.io/host-port-0` is the number of the first one. The downward API hands it to a container.
const HostPortAnnotationPrefix = Domain + "/host-port-"

// Annotations on the ConfigMap that keeps the framework id.
const (
	// ConfirmNewFrameworkAnnotation, set to the removed framework id, lets the scheduler register a new framework
	// although bound pods exist.
	ConfirmNewFrameworkAnnotation = Domain + "/confirm-new-framework"
	// ReleaseStopAnnotation, set to the time shown in the stop's message, releases a protective stop on removals.
	ReleaseStopAnnotation = Domain + "/release-stop"
)

// Labels of a Mesos task.
const (
	// NamespaceTaskLabel is the namespace of the task's pod.
	NamespaceTaskLabel = Domain + "/namespace"
	// PodTaskLabel is the name of the task's pod.
	PodTaskLabel = Domain + "/pod"
	// UIDTaskLabel is the UID of the task's pod.
	UIDTaskLabel = Domain + "/uid"
)

// Labels of the dynamic reservations that hold room for gangs.
const (
	// GangReservationLabel is the UID of the PodGroup that resources are reserved for.
	GangReservationLabel = Domain + "/pod-group"
	// ClusterReservationLabel is the UID of the Kubernetes cluster's namespace kube-system.
	ClusterReservationLabel = Domain + "/cluster"
)

// Labels and annotations on nodes.
const (
	// AttributeLabelPrefix precedes the name of a Mesos agent attribute in a node label.
	AttributeLabelPrefix = "attribute." + Domain + "/"
	// NodeAgentIDAnnotation is the id of the agent that serves the node.
	NodeAgentIDAnnotation = Domain + "/agent-id"
	// NodeOvercommitAnnotation is what the agent and Kubernetes together give away too much of on the node: `cpus:0.5;mem:128`.
	NodeOvercommitAnnotation = Domain + "/overcommit"
)

// Taints on nodes. All have effect NoSchedule: they keep new pods away and remove nothing.
const (
	// UnreachableTaint marks a node whose agent the Mesos master cannot reach.
	UnreachableTaint = Domain + "/agent-unreachable"
	// DrainingTaint marks a node whose agent an operator drains.
	DrainingTaint = Domain + "/agent-draining"
	// MaintenanceTaint marks a node whose agent is in a maintenance window, or soon will be.
	MaintenanceTaint = Domain + "/agent-maintenance"
)
