// SPDX-License-Identifier: Apache-2.0

// Package nodes relates Mesos agents to Kubernetes nodes: which node an agent serves, and what of the agent is shown on
// the node (attributes and fault domain as labels, trouble as taints).
package nodes

import (
	"net"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Source says which property tells the node of an agent.
type Source string

// The sources.
const (
	// Hostname: the agent's host name is the node's name.
	Hostname Source = "Hostname"
	// Address: the agent's IP address or its host name is an address of the node.
	Address Source = "Address"
	// Label: the agent's host name is the value of a label of the node.
	Label Source = "Label"
)

// Mapping finds the node of an agent.
type Mapping struct {
	Source Source
	// Label is the key of the node label for source Label.
	Label string
	// StripDomain cuts the agent's host name at its first dot.
	StripDomain bool
	// Find returns the names of the nodes that have a property; it is used for sources Address and Label.
	Find func(property, value string) []string
}

// Names of the properties that Find looks for.
const (
	AddressProperty = "address"
	LabelProperty   = "label"
)

// NodeName returns the node that an offer's agent serves, "" when the offer does not tell or more than one node matches:
// that is never guessed at.
func (m Mapping) NodeName(o *mesos.Offer) string {
	host := o.Hostname
	if m.StripDomain && net.ParseIP(host) == nil {
		host, _, _ = strings.Cut(host, ".")
	}
	switch m.Source {
	case Address:
		ip := ""
		if o.URL != nil && o.URL.Address.IP != nil {
			ip = *o.URL.Address.IP
		}
		return m.one(AddressProperty, ip, o.Hostname)
	case Label:
		return m.one(LabelProperty, host)
	}
	return host
}

// one returns the only node that has one of the values, "" if there is none or more than one.
func (m Mapping) one(property string, values ...string) string {
	found := ""
	for _, value := range values {
		if value == "" || m.Find == nil {
			continue
		}
		for _, name := range m.Find(property, value) {
			if found != "" && found != name {
				return ""
			}
			found = name
		}
	}
	return found
}

// Properties returns the values by which Find has to find a node: its addresses, or the value of a label.
func Properties(node *v1.Node, property, label string) []string {
	if property == LabelProperty {
		if v := node.Labels[label]; v != "" {
			return []string{v}
		}
		return nil
	}
	var out []string
	for _, a := range node.Status.Addresses {
		if a.Address != "" && !slices.Contains(out, a.Address) {
			out = append(out, a.Address)
		}
	}
	return out
}
