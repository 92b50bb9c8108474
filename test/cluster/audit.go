// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
)

// auditPolicy records what service accounts of our namespaces and nodes ask for, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:kube-mesos", "system:nodes"]
- level: None
`

// Request is a finished request that the API server has recorded of a service account in namespace kube-mesos or of a
// node.
type Request struct {
	User, UserAgent string
	// Verb and Resource are as in RBAC rules: get, pods/status, leases.coordination.k8s.io.
	Verb, Resource  string
	Namespace, Name string
	Code            int
}

// String is `verb resource namespace/name: code`.
func (r Request) String() string {
	return fmt.Sprintf("%s %s %s/%s: %d", r.Verb, r.Resource, r.Namespace, r.Name, r.Code)
}

// Requests returns the recorded requests, oldest first.
func (c *Cluster) Requests() ([]Request, error) {
	f, err := os.Open(c.auditLog())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Request
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil // a line without an end is still being written
		}
		if err != nil {
			return nil, err
		}
		r, err := parseAudit(bytes.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		if r.Resource != "" {
			all = append(all, r)
		}
	}
}

// Forbidden returns what was refused to users whose name begins with prefix, such as
// "system:serviceaccount:kube-mesos:" or "system:node:".
func (c *Cluster) Forbidden(prefix string) ([]Request, error) {
	all, err := c.Requests()
	var refused []Request
	for _, r := range all {
		if r.Code == http.StatusForbidden && strings.HasPrefix(r.User, prefix) {
			refused = append(refused, r)
		}
	}
	return refused, err
}

func parseAudit(line []byte) (Request, error) {
	var e struct {
		Verb string `json:"verb"`
		User struct {
			Username string `json:"username"`
		} `json:"user"`
		UserAgent string `json:"userAgent"`
		ObjectRef struct {
			Resource    string `json:"resource"`
			Subresource string `json:"subresource"`
			APIGroup    string `json:"apiGroup"`
			Namespace   string `json:"namespace"`
			Name        string `json:"name"`
		} `json:"objectRef"`
		ResponseStatus struct {
			Code int `json:"code"`
		} `json:"responseStatus"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return Request{}, err
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.APIGroup != "" {
		resource += "." + e.ObjectRef.APIGroup
	}
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return Request{
		User: e.User.Username, UserAgent: e.UserAgent,
		Verb: e.Verb, Resource: resource, Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		Code: e.ResponseStatus.Code,
	}, nil
}

func (c *Cluster) auditLog() string { return c.path("logs", "audit.log") }

func (c *Cluster) writeAuditPolicy() (path string, err error) {
	path = c.path("audit-policy.yaml")
	return path, os.WriteFile(path, []byte(auditPolicy), 0o644)
}
