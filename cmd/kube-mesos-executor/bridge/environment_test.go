// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/agent"
)

// What a Mesos 1.12 agent gives an executor of a checkpointing framework (recording E0).
func TestEnvironmentOfARealAgent(t *testing.T) {
	sandbox := t.TempDir()
	env := map[string]string{
		"MESOS_EXECUTOR_ID": "x1", "MESOS_CHECKPOINT": "1", "MESOS_HTTP_COMMAND_EXECUTOR": "0",
		"MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": "5secs", "MESOS_SUBSCRIPTION_BACKOFF_MAX": "2secs", "LIBPROCESS_PORT": "0",
		"MESOS_AGENT_ENDPOINT": "127.0.0.1:5051", "MESOS_SANDBOX": sandbox, "MESOS_RECOVERY_TIMEOUT": "15mins",
		"MESOS_FRAMEWORK_ID": "f-0000", "MESOS_SLAVE_ID": "S0", "MESOS_DIRECTORY": sandbox, "PWD": sandbox,
		"MESOS_SLAVE_PID": "slave(1)@127.0.0.1:5051", "LIBPROCESS_IP": "127.0.0.1",
	}
	want := Environment{
		FrameworkID: "f-0000", ExecutorID: "x1", AgentID: "S0", Endpoint: "127.0.0.1:5051", Sandbox: sandbox,
		RecoveryTimeout: 15 * time.Minute, ShutdownGrace: 5 * time.Second,
	}
	get := func(name string) string { return env[name] }
	got, err := ReadEnvironment(get)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want,+got):\n%s", err, diff)
	}
	for _, name := range []string{"MESOS_SANDBOX", "MESOS_RECOVERY_TIMEOUT", "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD"} {
		delete(env, name)
	}
	env["MESOS_EXECUTOR_AUTHENTICATION_TOKEN"], env["MESOS_DOMAIN_SOCKET"] = "t", "/s"
	want.Token, want.Socket, want.ShutdownGrace = "t", "/s", 0
	got, err = ReadEnvironment(get)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want,+got):\n%s", err, diff)
	}
}

func TestTLSInTheEnvironment(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	base := map[string]string{
		"MESOS_EXECUTOR_ID": "x1", "MESOS_FRAMEWORK_ID": "f", "MESOS_AGENT_ENDPOINT": "10.0.0.1:5051", "MESOS_SANDBOX": t.TempDir(),
	}
	names := []string{"10.0.0.1", host}
	tests := []struct {
		name  string
		env   map[string]string // without LIBPROCESS_SSL_
		want  *agent.TLS
		wrong []string
	}{
		{name: "off", env: map[string]string{"ENABLED": "false", "CA_FILE": "/ca"}},
		{name: "on", env: map[string]string{"ENABLED": "1"}, want: &agent.TLS{Names: names}},
		{name: "an authority is used", env: map[string]string{"ENABLED": "true", "CA_FILE": "/ca"}, want: &agent.TLS{CAFile: "/ca", Verify: true, Names: names}},
		{name: "so are several", env: map[string]string{"ENABLED": "true", "CA_DIR": "/cas"}, want: &agent.TLS{CADir: "/cas", Verify: true, Names: names}},
		{name: "unless it is said not to", env: map[string]string{"ENABLED": "true", "CA_FILE": "/ca", "VERIFY_SERVER_CERT": "false"}, want: &agent.TLS{CAFile: "/ca", Names: names}},
		{name: "the old name says it too", env: map[string]string{"ENABLED": "true", "CA_FILE": "/ca", "VERIFY_CERT": "0"}, want: &agent.TLS{CAFile: "/ca", Names: names}},
		{name: "the new name wins", env: map[string]string{"ENABLED": "true", "VERIFY_CERT": "0", "VERIFY_SERVER_CERT": "1"}, want: &agent.TLS{Verify: true, Names: names}},
		{name: "own certificate", env: map[string]string{"ENABLED": "true", "CERT_FILE": "/c", "KEY_FILE": "/k"}, want: &agent.TLS{CertFile: "/c", KeyFile: "/k", Names: names}},
		{name: "no boolean", env: map[string]string{"ENABLED": "yes"}, wrong: []string{`LIBPROCESS_SSL_ENABLED is "yes"`, "true or false"}},
		{name: "much is wrong", env: map[string]string{"ENABLED": "true", "CERT_FILE": "c.pem", "VERIFY_CERT": "on"},
			wrong: []string{`LIBPROCESS_SSL_CERT_FILE is "c.pem"`, "absolute path", "LIBPROCESS_SSL_KEY_FILE belong together", `LIBPROCESS_SSL_VERIFY_CERT is "on"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := maps.Clone(base)
			for k, v := range tt.env {
				env["LIBPROCESS_SSL_"+k] = v
			}
			got, err := ReadEnvironment(func(name string) string { return env[name] })
			if (err != nil) != (tt.wrong != nil) {
				t.Fatalf("Error %v", err)
			}
			for _, want := range tt.wrong {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
			if diff := cmp.Diff(tt.want, got.TLS); diff != "" && err == nil {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}
