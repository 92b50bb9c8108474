// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"fmt"
	"testing"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/agent/agenttest"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// TestAgentWithTLS runs pods by agents that take TLS only and ask for a certificate. The executor learns that from its
// environment, as libprocess' own do. An agent's restart is outlived as without TLS.
func TestAgentWithTLS(t *testing.T) {
	dir := t.TempDir()
	ca := agenttest.NewAuthority(t, dir)
	cert, key := ca.Sign(t, "127.0.0.1")
	own, ownKey := ca.Sign(t, "executor")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	variable := func(name, value string) any { return map[string]any{"name": "LIBPROCESS_SSL_" + name, "value": value} }
	w := newWorld(t, worldOptions{
		agents: 1,
		mesos: map[string]any{"executor": map[string]any{"environment": []any{
			variable("ENABLED", "true"), variable("CA_FILE", ca.File), variable("CERT_FILE", own), variable("KEY_FILE", ownKey),
		}}},
		sim: func(o *mesossim.Options) {
			for i := range o.Agents {
				o.Agents[i].TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
			}
		},
	})
	w.pod("a", "100m", "64Mi")
	pod := w.waitRunning("a")
	w.settle()
	before := w.uidsAndTasks()
	w.ok(w.sim.Agent(w.nodes[0]).Restart())
	w.pod("b", "100m", "64Mi")
	w.waitRunning("b")
	if got := w.uidsAndTasks()[string(pod.UID)]; got != before[string(pod.UID)] {
		t.Errorf("after the agent's restart the pod is held by task %q, before by %s", got, before[string(pod.UID)])
	}
	w.remove("a")
	w.waitFor("the end of the task", func() error {
		if task, ok := w.sim.Task(pod.Annotations[wellknown.TaskIDAnnotation]); !ok || task.Live() {
			return fmt.Errorf("it is %s", task.State)
		}
		return nil
	})
	w.settle()
}
