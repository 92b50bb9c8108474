// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// A request is what the scheduler or an executor asked of the API server, and the answer.
type request struct {
	// received is when it left its sender, answered when the API server had answered it.
	received, answered time.Time
	user, verb         string
	resource, sub      string
	name               string
	code               int
}

// scheduler says whether it came from the scheduler; the other users on record are nodes.
func (r request) scheduler() bool { return strings.HasPrefix(r.user, "system:serviceaccount:") }

// requests reads the audit log from an offset on, what concerns pods of a namespace. sent is when a request left its sender,
// by audit id, where that is known: it may have been held up on its way.
func requests(c *cluster.Cluster, offset int64, namespace string, sent map[string]time.Time) ([]request, error) {
	f, err := os.Open(auditLog(c))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	var all []request
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return all, nil // a line without an end is still being written
		}
		if err != nil {
			return nil, err
		}
		var e struct {
			AuditID string `json:"auditID"`
			Verb    string `json:"verb"`
			User    struct {
				Username string `json:"username"`
			} `json:"user"`
			ObjectRef struct {
				Resource, Subresource, Namespace, Name string
			} `json:"objectRef"`
			ResponseStatus struct {
				Code int `json:"code"`
			} `json:"responseStatus"`
			Received time.Time `json:"requestReceivedTimestamp"`
			Answered time.Time `json:"stageTimestamp"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			// An API server that was killed leaves half a line, to which the next one adds its first.
			if i := strings.LastIndex(string(line), `{"kind":"Event"`); i <= 0 || json.Unmarshal(line[i:], &e) != nil {
				continue
			}
		}
		if at, ok := sent[e.AuditID]; ok {
			e.Received = at
		}
		if e.ObjectRef.Resource == "pods" && e.ObjectRef.Namespace == namespace && e.Verb != "get" && e.Verb != "list" && e.Verb != "watch" {
			all = append(all, request{e.Received, e.Answered, e.User.Username, e.Verb, e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.Name, e.ResponseStatus.Code})
		}
	}
}

func (r request) String() string {
	what := r.resource
	if r.sub != "" {
		what += "/" + r.sub
	}
	return fmt.Sprintf("%s: %s %s: %d", r.user, r.verb, what, r.code)
}

func auditLog(c *cluster.Cluster) string { return filepath.Join(c.Dir(), "logs", "audit.log") }

// auditSize is where the audit log ends now.
func auditSize(c *cluster.Cluster) (int64, error) {
	info, err := os.Stat(auditLog(c))
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
