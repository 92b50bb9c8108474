// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// chart runs hack/chart, which is Helm's engine in a module of its own.
func chart(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root, err := cluster.RepositoryRoot()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "."}, args...)...)
	cmd.Dir = filepath.Join(root, "hack", "chart")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stderr.String(), err
	}
	return stdout.String(), nil
}

const chartDir = "../../manifests/chart"

func TestChartMakesThePlainManifests(t *testing.T) {
	out, err := chart(t, "-check", chartDir, "../../manifests")
	require.NoError(t, err, out)
}

const otherValues = `
masters: [https://m1:5050, https://m2:5050]
namespace: elsewhere
nodeNamespace: elsewhere-node
schedulerName: by-mesos
image: {registry: registry.test/x, tag: v9}
imagePullSecrets: [{name: pull}]
replicas: 3
extraArgs: [--logging-format=json]
args:
  roles: [{name: prod/web}]
  authentication: {principal: kubernetes, secretFile: /etc/mesos/secret}
  inverseOffers: Drain
gangs: true
secretName: mesos
executorMetrics: {textfileFolder: /var/lib/node_exporter, agentFolder: /srv/mesos, every: 1m}
executor:
  args: {idleTimeout: 1h}
  nodeSelector: {mesos: "yes"}
podDisruptionBudget: {minAvailable: 2}
networkPolicy: {egressPorts: [6443, 5051]}
`

func values(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestChartWithOtherValues(t *testing.T) {
	out, err := chart(t, "-f", values(t, otherValues), chartDir)
	require.NoError(t, err, out)
	require.NotContains(t, out, "namespace: kube-mesos")
	require.NotContains(t, out, "registry.example.com")
	require.Contains(t, out, "image: registry.test/x/kube-mesos-executor:v9")
	require.Contains(t, out, "path: /srv/mesos\n")
	for _, doc := range strings.Split(out, "\n---\n") {
		var m corev1.ConfigMap
		if err := yaml.Unmarshal([]byte(doc), &m); err != nil || m.Kind != "ConfigMap" {
			continue
		}
		args := mesosArgs(t, []byte(m.Data["config.yaml"]))
		require.Equal(t, []any{"https://m1:5050", "https://m2:5050"}, args["masters"])
		require.Equal(t, "1h", args["executor"].(map[string]any)["idleTimeout"])
		require.Equal(t, "elsewhere", args["stateConfigMap"].(map[string]any)["namespace"])
		require.Equal(t, []any{map[string]any{"name": "prod/web"}}, args["roles"])
	}

	out, err = chart(t, "-f", values(t, "createNamespaces: false\nexecutor: {install: false}\npodDisruptionBudget: {enabled: false}\nnetworkPolicy: {enabled: false}\n"), chartDir)
	require.NoError(t, err, out)
	for _, kind := range []string{"Namespace", "DaemonSet", "PodDisruptionBudget", "NetworkPolicy"} {
		require.NotContains(t, out, "\nkind: "+kind+"\n")
	}
}

// What an option needs of rights comes with it, and with nothing else.
func TestChartGivesRightsToOptions(t *testing.T) {
	const drain, gangs, gate = "kube-mesos-scheduler-drain", "kube-mesos-scheduler-gangs", "- --feature-gates=GenericWorkload=true"
	for _, tt := range []struct {
		values    string
		has, lack []string
	}{
		{"replicas: 1", nil, []string{drain, gangs, gate, "\nkind: PodDisruptionBudget"}},
		{"args: {inverseOffers: Decline}", nil, []string{drain, gangs, gate}},
		{"args: {inverseOffers: Drain}", []string{drain}, []string{gangs, gate}},
		{"gangs: true", []string{gangs, gate}, []string{drain}},
		{"extraArgs: [\"--feature-gates=SchedulerAsyncAPICalls=true,GenericWorkload=true\"]", []string{gangs}, []string{drain, gate}},
		{"extraArgs: [\"--feature-gates=GenericWorkload=false\"]", nil, []string{drain, gangs, gate}},
	} {
		t.Run(tt.values, func(t *testing.T) {
			out, err := chart(t, "-f", values(t, tt.values+"\nnamespace: elsewhere\n"), chartDir)
			require.NoError(t, err, out)
			for _, text := range tt.has {
				require.Contains(t, out, text)
			}
			for _, text := range tt.lack {
				require.NotContains(t, out, text)
			}
			require.NotContains(t, out, "namespace: kube-mesos\n", "rights of a service account elsewhere")
		})
	}
}

func TestChartRefusesWrongValues(t *testing.T) {
	for name, tt := range map[string]struct{ values, want string }{
		"no masters":               {"masters: []", "masters"},
		"a misspelt value":         {"replica: 3", "replica"},
		"a value of another type":  {"replicas: many", "replicas"},
		"a relative folder":        {"executor: {directory: opt}", "directory"},
		"metrics from nowhere":     {"executor: {install: false}\nexecutorMetrics: {textfileFolder: /x}", "executor.install has to be true"},
		"metrics never":            {"executorMetrics: {every: often}", "every"},
		"gangs by word":            {"gangs: \"yes\"", "gangs"},
		"a master without a port":  {"masters: [m1]", "masters[0]: must be host:port"},
		"a master with a password": {"masters: [\"http://a:b@m1:5050\"]", "no password belongs into it"},
		"zk and a master":          {"masters: [\"zk://z:2181/mesos\", \"m:5050\"]", "masters[0]: a zk:// address has to be the only one"},
		"zk without a path":        {"masters: [\"zk://z:2181\"]", "such as zk://zk-1:2181/mesos"},
		"one namespace for both":   {"nodeNamespace: kube-mesos", "must be another one than namespace"},
		"a bad namespace":          {"namespace: Kube_Mesos", "/namespace"},
		"two default schedulers":   {"schedulerName: default-scheduler", "both would bind the same pods"},
		"a flag of the chart":      {"extraArgs: [--config=/x]", "extraArgs: --config is set by the chart"},
		"a path twice":             {"executor: {args: {path: /x}}", "executor.args.path: it has a value of its own"},
		"a secret from nowhere":    {"args: {authentication: {principal: p, secretFile: /etc/mesos/secret}}", "secretName: args.authentication.secretFile is in /etc/mesos"},
		"nothing may be evicted":   {"podDisruptionBudget: {minAvailable: 2}", "must be less than replicas (2)"},
		"a misspelt argument":      {"args: {failoverTimout: 1h}", "failoverTimout"},
		"a policy that is none":    {"args: {inverseOffers: drain}", "'Decline', 'Drain'"},
		"weeks":                    {"args: {failoverTimeout: 1w}", "failoverTimeout"},
		"an argument's type":       {"executor: {args: {environment: {A: b}}}", "got object, want array"},
		"an argument twice":        {"args: {masters: [x]}", "args.masters: it has a value of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := chart(t, "-f", values(t, tt.values), chartDir)
			require.Error(t, err)
			require.Contains(t, out, tt.want)
		})
	}
}

// checkChart has the API server look at what the chart renders with other values than the default ones.
func checkChart(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	// An object of a namespace that is not there cannot be tried.
	text := strings.NewReplacer("namespace: elsewhere", "namespace: "+namespace, "nodeNamespace: elsewhere-node", "nodeNamespace: kube-mesos-node").Replace(otherValues)
	out, err := chart(t, "-f", values(t, text), chartDir)
	require.NoError(t, err, out)
	file := filepath.Join(t.TempDir(), "rendered.yaml")
	require.NoError(t, os.WriteFile(file, []byte(out), 0o600))
	_, err = c.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server", "--filename="+file)
	require.NoError(t, err)
}
