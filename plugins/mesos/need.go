// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	roles      []role
	namespaces corelisters.NamespaceLister
}

func newNeeds(args *config.MesosArgs, namespaces corelisters.NamespaceLister) (*needs, error) {
	n := &needs{
		floor:      amounts(args.MinimumTaskResources.CPU, args.MinimumTaskResources.Memory),
		namespaces: namespaces,
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
	need := resources.NeedOf(pod, n.floor)
	allowed := make([]string, 0, 1)
	for _, r := range n.roles {
		if r.selector == nil {
			allowed = append(allowed, r.name)
			continue
		}
		ns, err := n.namespaces.Get(pod.Namespace)
		if err != nil {
			return need, fmt.Errorf("cannot tell which Mesos roles namespace %s may use: %w", pod.Namespace, err)
		}
		if r.selector.Matches(labels.Set(ns.Labels)) {
			allowed = append(allowed, r.name)
		}
	}
	asked := pod.Annotations[wellknown.RoleAnnotation]
	switch {
	case len(allowed) == 0:
		return need, fmt.Errorf("namespace %s may use none of the Mesos roles of this scheduler", pod.Namespace)
	case asked == "":
		need.Role = allowed[0]
	case slices.Contains(allowed, asked):
		need.Role = asked
	default:
		return need, fmt.Errorf("annotation %s names Mesos role %q; namespace %s may use %s", wellknown.RoleAnnotation, asked, pod.Namespace, strings.Join(allowed, ", "))
	}
	return need, nil
}
