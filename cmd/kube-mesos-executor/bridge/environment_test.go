// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
