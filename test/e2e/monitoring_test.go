// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
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
	"sigs.k8s.io/yaml"

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
	line     = regexp.MustCompile(`^([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? ([^ ]+)$`)
	pair     = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
	selector = regexp.MustCompile(`\b(mesos_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(=|!=|=~|!~)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|without)\s*\(([^)]*)\)`)
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

// expressions returns all PromQL of the alert rules and of the dashboard, by where they stand.
func expressions(t *testing.T) map[string]string {
	root, err := cluster.RepositoryRoot()
	require.NoError(t, err)
	out := map[string]string{}
	data, err := os.ReadFile(filepath.Join(root, "manifests", "monitoring", "rules.yaml"))
	require.NoError(t, err)
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal(data, &rules))
	for _, r := range rules.Groups[0].Rules {
		out["alert "+r.Alert] = r.Expr
	}
	data, err = os.ReadFile(filepath.Join(root, "manifests", "monitoring", "dashboard.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(data, &dashboard))
	for _, p := range dashboard.Panels {
		for i, target := range p.Targets {
			out[fmt.Sprintf("panel %s %d", p.Title, i)] = target.Expr
		}
	}
	require.Greater(t, len(out), 30)
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

	t.Run("rules and dashboard ask for what is served", func(t *testing.T) {
		for where, expr := range expressions(t) {
			found := selector.FindAllStringSubmatch(expr, -1)
			if len(found) == 0 {
				t.Errorf("%s asks for no metric of ours: %s", where, expr)
			}
			labels := map[string]bool{}
			for _, m := range found {
				if !has(m[1]) {
					t.Errorf("%s: %s is not served", where, m[1])
				}
				for _, s := range samples {
					if s.name == m[1] {
						for l := range s.labels {
							labels[l] = true
						}
					}
				}
				for _, p := range matcher.FindAllStringSubmatch(m[2], -1) {
					if p[2] == "=" && !slices.ContainsFunc(samples, func(s sample) bool { return s.name == m[1] && s.labels[p[1]] == p[3] }) {
						t.Errorf("%s: %s has no %s=%q", where, m[1], p[1], p[3])
					}
				}
			}
			for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
				for _, l := range strings.Split(g[1], ",") {
					if l = strings.TrimSpace(l); !labels[l] {
						t.Errorf("%s groups by %s, which none of its metrics has", where, l)
					}
				}
			}
		}
	})

	t.Run("promtool agrees", func(t *testing.T) {
		promtool, err := exec.LookPath("promtool")
		if err != nil {
			t.Skip("promtool is not installed")
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
