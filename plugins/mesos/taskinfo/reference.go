// SPDX-License-Identifier: Apache-2.0

package taskinfo

import (
	"encoding/json"
	"fmt"
)

// Reference is what TaskInfo.data carries to the executor: which pod the task stands for. It never holds environment
// or volumes of the pod.
type Reference struct {
	// Namespace, Name and UID identify the pod.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Node is the name of the node that the pod is to be bound to.
	Node string `json:"node"`
	// GraceSeconds is the pod's terminationGracePeriodSeconds.
	GraceSeconds int64 `json:"graceSeconds"`
	// Ports are the host ports that the task holds.
	Ports []int32 `json:"ports,omitempty"`
	// Bound says that the pod was already bound to the node when the task was launched: the task holds its resources
	// anew after an earlier task of the same pod was lost.
	Bound bool `json:"bound,omitempty"`
}

// Marshal returns the wire form of r.
func (r Reference) Marshal() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and integers always marshal
	}
	return b
}

// ParseReference reads TaskInfo.data. It returns an error that names what is missing.
func ParseReference(data []byte) (Reference, error) {
	var r Reference
	if err := json.Unmarshal(data, &r); err != nil {
		return Reference{}, fmt.Errorf("task data is no pod reference: %w", err)
	}
	for name, value := range map[string]string{"namespace": r.Namespace, "name": r.Name, "uid": r.UID, "node": r.Node} {
		if value == "" {
			return Reference{}, fmt.Errorf("task data is no pod reference: %s is missing", name)
		}
	}
	if r.GraceSeconds < 0 {
		return Reference{}, fmt.Errorf("task data is no pod reference: graceSeconds is %d, it must not be negative", r.GraceSeconds)
	}
	return r, nil
}
