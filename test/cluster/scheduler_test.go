// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAdaptKeepsTheShippedConfiguration(t *testing.T) {
	config, err := shippedConfig()
	require.NoError(t, err)
	c := &Cluster{options: Options{Dir: "/state"}}
	require.NoError(t, c.adapt(config, "/sa.kubeconfig", "127.0.0.1:7", SchedulerOptions{
		Masters:       []string{"http://127.0.0.1:5050"},
		Executor:      "/bin/executor",
		LeaseDuration: 3 * time.Second,
		Mesos:         map[string]any{"idleAfter": "1s", "executor": map[string]any{"cpu": "50m"}},
		Edit:          func(config map[string]any) { config["parallelism"] = 4 },
	}))
	require.Equal(t, map[string]any{"kubeconfig": "/sa.kubeconfig", "qps": 1000.0, "burst": 2000.0}, config["clientConnection"])
	require.Equal(t, map[string]any{
		"leaderElect": true, "resourceNamespace": "kube-mesos", "resourceName": "kube-mesos-scheduler",
		"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms",
	}, config["leaderElection"])
	require.Equal(t, map[string]any{
		"masters":       []any{"http://127.0.0.1:5050"},
		"statusAddress": "127.0.0.1:7",
		"webUIURL":      "http://127.0.0.1:7/mesos/",
		"idleAfter":     "1s",
		"executor":      map[string]any{"path": "/bin/executor", "kubeconfig": "/state/nodes/{node}.kubeconfig", "cpu": "50m"},
	}, MesosArgs(config))
	require.Equal(t, 4, config["parallelism"])
	require.Len(t, config["profiles"], 1)
}
