// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// role is one Mesos role with the namespaces that may use it.
type role struct {
	name     string
	selector labels.Selector // nil selects every namespace
}

// needs counts what pods need of Mesos.
type needs struct {
	floor      resources.Amounts
	revocable  bool
	gpus       bool
	limits     bool // Mesos is told of pods' limits
	roles      []role
	namespaces corelisters.NamespaceLister

	mu      sync.Mutex
	counted map[types.UID]counted
}

// counted is what a pod asks for, whatever its role, as long as the pod does not change. A pod is counted at several
// points of its way through the scheduler, and counting quantities is the most of what the plugin does at some of them.
type counted struct {
	version string
	need    resources.Need
}

// maxCounted bounds what is remembered: some MB.
const maxCounted = 1 << 13

func newNeeds(args *config.MesosArgs, namespaces corelisters.NamespaceLister) (*needs, error) {
	n := &needs{
		floor:      amounts(args.MinimumTaskResources.CPU, args.MinimumTaskResources.Memory),
		namespaces: namespaces, revocable: args.Revocable, gpus: args.GPUs, limits: args.TaskLimits == config.TaskLimitsFromPod,
	}
	for _, r := range args.Roles {
		made := role{name: r.Name}
		if r.NamespaceSelector != nil {
			selector, err := metav1.LabelSelectorAsSelector(r.NamespaceSelector)
			if err != nil {
				return nil, fmt.Errorf("roles: %s: namespaceSelector: %w", r.Name, err)
			}
			made.selector = selector
		}
		n.roles = append(n.roles, made)
	}
	return n, nil
}

// of returns a pod's need with its role: the one that its annotation names, if its namespace may use it, else the first
// that its namespace may use.
func (n *needs) of(pod *v1.Pod) (resources.Need, error) {
	need := n.count(pod)
	var err error
	if need.Role, err = n.role(pod); err != nil {
		return need, err
	}
	if need.AnyPorts, err = anyPorts(pod); err != nil {
		return need, err
	}
	switch asked := pod.Annotations[wellknown.RevocableAnnotation]; asked {
	case "", "false":
	case "true":
		if need.Revocable = true; !n.revocable {
			return need, fmt.Errorf("annotation %s asks for revocable resources; this scheduler does not take them (its arg revocable is false)", wellknown.RevocableAnnotation)
		}
	default:
		return need, fmt.Errorf("annotation %s is %q, it must be true or false", wellknown.RevocableAnnotation, asked)
	}
	return need, nil
}

// count returns the need without its role.
func (n *needs) count(pod *v1.Pod) resources.Need {
	n.mu.Lock()
	known, ok := n.counted[pod.UID]
	n.mu.Unlock()
	if ok && known.version == pod.ResourceVersion && known.version != "" {
		return known.need
	}
	need := resources.NeedOf(pod, n.floor)
	if n.gpus {
		need.GPUs = resources.GPUsOf(pod)
	}
	if n.limits {
		need.Limits = resources.LimitsOf(pod, need.Amounts)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counted == nil || len(n.counted) >= maxCounted {
		n.counted = map[types.UID]counted{}
	}
	n.counted[pod.UID] = counted{pod.ResourceVersion, need}
	return need
}

func (n *needs) role(pod *v1.Pod) (string, error) {
	allowed := make([]string, 0, 1)
	for _, r := range n.roles {
		if r.selector == nil {
			allowed = append(allowed, r.name)
			continue
		}
		ns, err := n.namespaces.Get(pod.Namespace)
		if err != nil {
			return "", fmt.Errorf("cannot tell which Mesos roles namespace %s may use: %w", pod.Namespace, err)
		}
		if r.selector.Matches(labels.Set(ns.Labels)) {
			allowed = append(allowed, r.name)
		}
	}
	asked := pod.Annotations[wellknown.RoleAnnotation]
	switch {
	case len(allowed) == 0:
		return "", fmt.Errorf("namespace %s may use none of the Mesos roles of this scheduler", pod.Namespace)
	case asked == "":
		return allowed[0], nil
	case slices.Contains(allowed, asked):
		return asked, nil
	}
	return "", fmt.Errorf("annotation %s names Mesos role %q; namespace %s may use %s", wellknown.RoleAnnotation, asked, pod.Namespace, strings.Join(allowed, ", "))
}

// maxAnyPorts is the most host ports that a pod may want whichever they are.
const maxAnyPorts = 64

// anyPorts counts the host ports that a pod names by annotation. Only a pod on the host's network can use them: a port
// mapping is fixed in the pod's spec.
func anyPorts(pod *v1.Pod) (int, error) {
	asked, ok := pod.Annotations[wellknown.HostPortsAnnotation]
	if !ok {
		return 0, nil
	}
	names := strings.Split(asked, ",")
	if !pod.Spec.HostNetwork {
		return 0, fmt.Errorf("annotation %s asks for host ports; only a pod with hostNetwork can use them", wellknown.HostPortsAnnotation)
	}
	if len(names) > maxAnyPorts {
		return 0, fmt.Errorf("annotation %s names %d host ports; at most %d are possible", wellknown.HostPortsAnnotation, len(names), maxAnyPorts)
	}
	seen := map[string]bool{}
	for _, name := range names {
		if errs := validation.IsDNS1123Label(name); len(errs) > 0 || seen[name] {
			return 0, fmt.Errorf("annotation %s is %q; it must be different names of lower-case letters, digits and dashes, separated by commas", wellknown.HostPortsAnnotation, asked)
		}
		seen[name] = true
	}
	return len(names), nil
}
