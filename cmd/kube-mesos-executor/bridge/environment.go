// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	mesostime "github.com/mesos/mesos-go/api/v1/lib/time"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/agent"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/supervisor"
)

// defaultRecoveryTimeout is the agent's default for the time that executors wait for it.
const defaultRecoveryTimeout = 15 * time.Minute

// Environment is what a Mesos agent tells an executor in its environment.
type Environment struct {
	FrameworkID string // MESOS_FRAMEWORK_ID
	ExecutorID  string // MESOS_EXECUTOR_ID
	AgentID     string // MESOS_SLAVE_ID
	// Endpoint is `ip:port` of the agent (MESOS_AGENT_ENDPOINT), Socket its unix socket if it has one (MESOS_DOMAIN_SOCKET).
	Endpoint string
	Socket   string
	// Sandbox is the executor's working directory: MESOS_SANDBOX, or else MESOS_DIRECTORY.
	Sandbox string
	// Token is the executor's JSON web token (MESOS_EXECUTOR_AUTHENTICATION_TOKEN); empty if the agent asks for none.
	Token string
	// RecoveryTimeout is how long to wait for an agent that is away (MESOS_RECOVERY_TIMEOUT).
	RecoveryTimeout time.Duration
	// ShutdownGrace is how long the agent waits after SHUTDOWN (MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD); 0 if it does not say.
	ShutdownGrace time.Duration
	// TLS is how to speak to Endpoint by https (LIBPROCESS_SSL_ENABLED and its kind); nil means http.
	TLS *agent.TLS
	// Restarts is how often the supervisor has started the bridge again (supervisor.RestartsVariable).
	Restarts int
}

// ReadEnvironment reads the environment with getenv. The error names every variable that is missing or wrong.
func ReadEnvironment(getenv func(string) string) (Environment, error) {
	var errs []error
	required := func(name string) string {
		v := getenv(name)
		if v == "" {
			errs = append(errs, fmt.Errorf("environment variable %s is missing: this program is started by a Mesos agent", name))
		}
		return v
	}
	duration := func(name string, otherwise time.Duration) time.Duration {
		v := getenv(name)
		if v == "" {
			return otherwise
		}
		d, err := mesostime.ParseDuration(v)
		if err != nil || d < 0 {
			errs = append(errs, fmt.Errorf("environment variable %s is %q, want a Mesos duration such as 15mins", name, v))
		}
		return d
	}
	e := Environment{
		FrameworkID:     required("MESOS_FRAMEWORK_ID"),
		ExecutorID:      required("MESOS_EXECUTOR_ID"),
		AgentID:         getenv("MESOS_SLAVE_ID"),
		Endpoint:        required("MESOS_AGENT_ENDPOINT"),
		Socket:          getenv("MESOS_DOMAIN_SOCKET"),
		Token:           getenv("MESOS_EXECUTOR_AUTHENTICATION_TOKEN"),
		RecoveryTimeout: duration("MESOS_RECOVERY_TIMEOUT", defaultRecoveryTimeout),
		ShutdownGrace:   duration("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD", 0),
	}
	// It is the supervisor's own; nothing depends on it.
	e.Restarts, _ = strconv.Atoi(getenv(supervisor.RestartsVariable))
	var err error
	if e.TLS, err = readTLS(getenv, e.Endpoint); err != nil {
		errs = append(errs, err)
	}
	if e.Endpoint != "" {
		if err := checkEndpoint(e.Endpoint); err != nil {
			errs = append(errs, fmt.Errorf("environment variable MESOS_AGENT_ENDPOINT is %q: %w", e.Endpoint, err))
		}
	}
	name := "MESOS_SANDBOX"
	if getenv(name) == "" {
		name = "MESOS_DIRECTORY"
	}
	if e.Sandbox = required(name); e.Sandbox != "" {
		if info, err := os.Stat(e.Sandbox); err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s is %q: %w", name, e.Sandbox, err))
		} else if !info.IsDir() {
			errs = append(errs, fmt.Errorf("environment variable %s is %q, which is no directory", name, e.Sandbox))
		}
	}
	return e, errors.Join(errs...)
}

func checkEndpoint(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(port); host == "" || err != nil || n < 1 || n > 65535 {
		return errors.New("want host:port")
	}
	return nil
}
