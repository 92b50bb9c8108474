// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// environment is what a real agent gives to an executor, and nothing else.
func (a *agent) environment(e *executor) []string {
	ip, _ := splitEndpoint(a.endpoint)
	grace := a.c.timing.ExecutorShutdown
	if e.info.ShutdownGracePeriod != nil {
		grace = time.Duration(e.info.ShutdownGracePeriod.Nanoseconds)
	}
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	env := map[string]string{
		"PATH": path, "PWD": e.directory, "LIBPROCESS_IP": ip, "LIBPROCESS_PORT": "0",
		"MESOS_AGENT_ENDPOINT": a.endpoint, "MESOS_DIRECTORY": e.directory, "MESOS_SANDBOX": e.directory,
		"MESOS_EXECUTOR_ID": e.id, "MESOS_FRAMEWORK_ID": e.framework.id, "MESOS_SLAVE_ID": a.id, "MESOS_SLAVE_PID": "slave(1)@" + a.endpoint,
		"MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": durationText(grace), "MESOS_HTTP_COMMAND_EXECUTOR": "0",
		"MESOS_CHECKPOINT":          "0",
		"MESOS_NATIVE_JAVA_LIBRARY": "/usr/lib/libmesos-" + mesosVersion + ".so", "MESOS_NATIVE_LIBRARY": "/usr/lib/libmesos-" + mesosVersion + ".so",
	}
	if e.framework.info.GetCheckpoint() {
		env["MESOS_CHECKPOINT"] = "1"
		env["MESOS_RECOVERY_TIMEOUT"] = durationText(a.c.timing.RecoveryTimeout)
		env["MESOS_SUBSCRIPTION_BACKOFF_MAX"] = durationText(a.c.timing.SubscriptionBackoff)
	}
	for k, v := range a.opts.ExecutorEnvironment {
		env[k] = v
	}
	if command := e.info.Command; command != nil {
		for i := range command.GetEnvironment().GetVariables() {
			v := &command.Environment.Variables[i]
			if v.GetType() == mesos.Environment_Variable_VALUE {
				env[v.Name] = v.GetValue()
			}
		}
	}
	out := make([]string, 0, len(env))
	for _, k := range sortedKeys(env) {
		out = append(out, k+"="+env[k])
	}
	return out
}
