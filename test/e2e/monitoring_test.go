// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	executormetrics "github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// sample is one line of a scrape: its metric, with the suffix of a histogram, its labels and its value.
type sample struct {
	name   string
	labels map[string]string
	value  string
}

var (
	line = regexp.MustCompile(`^([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? ([^ ]+)$`)
	pair = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
)

func parseScrape(t *testing.T, text string) []sample {
	var out []sample
	for _, l := range strings.Split(text, "\n") {
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		m := line.FindStringSubmatch(l)
		require.NotNil(t, m, "%q", l)
		s := sample{name: m[1], labels: map[string]string{}, value: m[3]}
		for _, p := range pair.FindAllStringSubmatch(m[2], -1) {
			s.labels[p[1]] = p[2]
		}
		out = append(out, s)
	}
	return out
}

// TestMonitoring compares what alert rules and dashboard ask for with what a scheduler at work serves.
func TestMonitoring(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 2})
	w.pod("ends", "500m", "64Mi")
	w.waitRunning("ends")
	w.pod("waits", "9", "64Mi")
	w.remove("ends")
	w.waitFor("the pod to be gone", func() error {
		if _, err := w.get("ends"); err == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	w.settle()

	config := rest.CopyConfig(shared.AdminConfig)
	config.Host, config.TLSClientConfig.CAFile, config.TLSClientConfig.CAData, config.TLSClientConfig.Insecure = w.scheduler.SecureURL, "", nil, true
	client, err := rest.UnversionedRESTClientFor(withDefaults(config))
	w.ok(err)
	var samples []sample
	has := func(name string) bool {
		return slices.ContainsFunc(samples, func(s sample) bool { return s.name == name })
	}
	w.waitFor("metrics of a pod that waits", func() error {
		body, err := client.Get().AbsPath("/metrics").Do(w.ctx).Raw()
		if err != nil {
			return err
		}
		samples = parseScrape(t, string(body))
		if !has("mesos_waiting_pods_by_reason") || !has("mesos_task_endings_total") {
			return fmt.Errorf("%d samples, none of a waiting pod and an ended task", len(samples))
		}
		return nil
	})

	t.Run("every documented metric is served", func(t *testing.T) {
		for _, d := range metrics.Docs() {
			name := d.Name
			if d.Type == "histogram" {
				name += "_bucket"
			}
			i := slices.IndexFunc(samples, func(s sample) bool { return s.name == name })
			if i < 0 {
				t.Errorf("%s is not served", d.Name)
				continue
			}
			for _, label := range d.Labels {
				if _, ok := samples[i].labels[label]; !ok {
					t.Errorf("%s has no label %s", d.Name, label)
				}
			}
		}
	})

	t.Run("cardinality is bounded", func(t *testing.T) {
		n := 0
		for _, s := range samples {
			if strings.HasPrefix(s.name, "mesos_") {
				n++
			}
			for label, value := range s.labels {
				if strings.HasPrefix(s.name, "mesos_") && (strings.Contains(value, w.namespace) || strings.Contains(value, "w1-node") || slices.Contains(w.nodes, value)) {
					t.Errorf("%s has the name of something in label %s: %s", s.name, label, value)
				}
			}
		}
		require.Less(t, n, 500)
	})

	t.Run("rules and dashboard can be evaluated on what is served", func(t *testing.T) {
		root, err := cluster.RepositoryRoot()
		require.NoError(t, err)
		// Each scrape is of the scheduler and of the executors, as Prometheus would see them.
		var files []string
		for i := range 2 {
			body, err := client.Get().AbsPath("/metrics").Do(w.ctx).Raw()
			require.NoError(t, err)
			scrape := bytes.NewBuffer(body)
			for _, e := range w.sim.Executors() {
				require.NoError(t, executormetrics.Collect(w.ctx, scrape, e.Directory))
			}
			files = append(files, filepath.Join(t.TempDir(), fmt.Sprint("scrape-", i)))
			require.NoError(t, os.WriteFile(files[i], scrape.Bytes(), 0o600))
		}
		monitoring := filepath.Join(root, "manifests", "monitoring")
		args := append([]string{"run", ".", "eval", filepath.Join(monitoring, "rules.yaml"), filepath.Join(monitoring, "dashboard.json")}, files...)
		cmd := exec.CommandContext(context.WithoutCancel(w.ctx), "go", args...)
		cmd.Dir = filepath.Join(root, "test", "monitoring")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NotContains(t, string(out), "severity critical", "nothing is wrong in this world")
		require.Contains(t, string(out), "true: KubeMesosPodsWait ", "a pod waits")
	})

	t.Run("promtool agrees", func(t *testing.T) {
		promtool, err := exec.LookPath("promtool")
		if err != nil {
			t.Skip("promtool is not installed; test/monitoring does the same without it")
		}
		root, err := cluster.RepositoryRoot()
		require.NoError(t, err)
		for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules.test.yaml"}} {
			cmd := exec.CommandContext(context.WithoutCancel(w.ctx), promtool, args...)
			cmd.Dir = filepath.Join(root, "manifests", "monitoring")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	})
}

// withDefaults makes a configuration good for a client of no API group.
func withDefaults(config *rest.Config) *rest.Config {
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return config
}
