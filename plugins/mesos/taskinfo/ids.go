// SPDX-License-Identifier: Apache-2.0

// Package taskinfo makes and reads what the product puts on the Mesos wire for a pod: task and executor ids, TaskInfo,
// ExecutorInfo and the reference to the pod. It does no I/O.
package taskinfo

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// TaskID returns the id of one attempt to hold a pod's resources: `<pod uid>.<attempt>`. It has no text of a user in
// it, so it is always legal for Mesos (at most 255 characters, no slash, backslash or control character).
func TaskID(uid types.UID, attempt int64) string {
	return string(uid) + "." + strconv.FormatInt(attempt, 36)
}

// ParseTaskID splits a task id; ok is false for an id that is not ours.
func ParseTaskID(id string) (uid types.UID, attempt int64, ok bool) {
	i := strings.LastIndexByte(id, '.')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(id[i+1:], 36, 64)
	if err != nil || n < 0 {
		return "", 0, false
	}
	return types.UID(id[:i]), n, true
}

// executorPrefix begins every executor id of ours.
const executorPrefix = "kube-mesos"

// ExecutorID is the id of an executor of ours, taken apart.
type ExecutorID struct {
	// Digest covers all of the ExecutorInfo that Mesos compares, but for its resources' reservation.
	Digest string
	// Kind is how its resources are reserved.
	Kind resources.ReservationKind
	// Incarnation tells executors apart that are alike: an agent may still hold on to one that has just ended.
	Incarnation int64
}

// String returns the id as it goes on the wire.
func (e ExecutorID) String() string {
	return fmt.Sprintf("%s.%s.%c.%s", executorPrefix, e.Digest, e.Kind, strconv.FormatInt(e.Incarnation, 36))
}

// ParseExecutorID takes an executor id apart; ok is false for one that is not ours.
func ParseExecutorID(id string) (e ExecutorID, ok bool) {
	parts := strings.Split(id, ".")
	if len(parts) != 4 || parts[0] != executorPrefix || len(parts[2]) != 1 {
		return ExecutorID{}, false
	}
	n, err := strconv.ParseInt(parts[3], 36, 64)
	if err != nil || n < 0 {
		return ExecutorID{}, false
	}
	return ExecutorID{Digest: parts[1], Kind: resources.ReservationKind(parts[2][0]), Incarnation: n}, true
}
