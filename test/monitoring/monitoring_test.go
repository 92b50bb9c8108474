// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const manifests = "../../manifests/monitoring/"

func TestRules(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"test", manifests + "rules.test.yaml"}, &out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
}

func TestDashboardParses(t *testing.T) {
	panels, err := readDashboard(manifests + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(panels) < 20 {
		t.Errorf("%d queries", len(panels))
	}
}

func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const goodRules = `groups:
- name: g
  rules:
  - alert: A
    expr: up == 0
    for: 2m
    annotations: {summary: "{{ $labels.job }} is down ({{ $value | humanize }})"}
`

const goodTests = `rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
- name: down
  interval: 1m
  input_series: [{series: 'up{job="x"}', values: '0x9'}]
  alert_rule_test: [{eval_time: 1m, alertname: A}, {eval_time: 2m, alertname: A, exp_alerts: [{exp_labels: {job: x}}]}]
`

// What is wrong with rules and their tests is found.
func TestMistakesInRules(t *testing.T) {
	tests := []struct {
		name         string
		rules, tests string // old => new
		want         string
	}{
		{name: "none"},
		{name: "syntax", rules: "up == 0 => up ==", want: "parse error"},
		{name: "unknown function", rules: "up == 0 => rats(up[5m])", want: "unknown function"},
		{name: "a vector where a range is wanted", rules: "up == 0 => rate(up)", want: "range vector"},
		{name: "a rate of what is no counter", rules: "up == 0 => rate(up[5m]) == 0", want: "might not be a counter"},
		{name: "unknown field", rules: "for: 2m => four: 2m", want: "four"},
		{name: "template", rules: "$labels.job => $lobels.job", want: "undefined variable"},
		{name: "template function", rules: "| humanize => | humanise", want: "humanise"},
		{name: "fires too early", rules: "for: 2m => for: 1m", want: `alert A at 1m0s fires as`},
		{name: "fires too late", rules: "for: 2m => for: 3m", want: `alert A at 2m0s fires as [], want`},
		{name: "other labels", rules: "for: 2m => labels: {severity: x}\n    for: 2m", want: `severity="x"`},
		{name: "unknown alert", tests: "eval_time: 1m, alertname: A => eval_time: 1m, alertname: B", want: "no alert B"},
		{name: "unknown field of a test", tests: "alert_rule_test => alert_rules_test", want: "alert_rules_test"},
		{name: "an alert that is never quiet", tests: "{eval_time: 1m, alertname: A},  => ", want: "no test has alert A be quiet"},
		{name: "an alert that never fires", tests: ", {eval_time: 2m, alertname: A, exp_alerts: [{exp_labels: {job: x}}]} => ", want: "no test has alert A fire"},
		{name: "bad series", tests: "0x9 => 0y9", want: "input series"},
		{name: "no such rules", tests: "[rules.yaml] => [ruled.yaml]", want: "ruled.yaml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			edit := func(text, change string) string {
				if change == "" {
					return text
				}
				from, to, _ := strings.Cut(change, " => ")
				if !strings.Contains(text, from) {
					t.Fatalf("%q is not in %q", from, text)
				}
				return strings.Replace(text, from, to, 1)
			}
			dir := files(t, map[string]string{"rules.yaml": edit(goodRules, tt.rules), "t.yaml": edit(goodTests, tt.tests)})
			err := run(t.Context(), []string{"test", filepath.Join(dir, "t.yaml")}, &bytes.Buffer{})
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// What is asked for and is not served is found, and what is true of a running system is said.
func TestEval(t *testing.T) {
	dir := files(t, map[string]string{
		"rules.yaml": goodRules,
		"one":        "# TYPE up gauge\nup{job=\"x\"} 0\nn_total 1\n",
		"two":        "up{job=\"x\"} 0\nn_total 31\n",
		"good.json":  `{"panels": [{"title": "P", "targets": [{"expr": "rate(n_total[5m])"}, {"expr": "sum by (job) (up)"}]}]}`,
		"none.json":  `{"panels": [{"title": "P", "targets": [{"expr": "rate(m_total[5m])"}]}]}`,
		"bad.json":   `{"panels": [{"title": "P", "targets": [{"expr": "rate(n_total[5m]"}]}]}`,
		"other.yaml": strings.Replace(goodRules, "up == 0", "down == 0", 1),
		"by.json":    `{"panels": [{"title": "P", "targets": [{"expr": "sum by (jobs) (rate(n_total[5m]))"}]}]}`,
		"garbage":    "<html>",
	})
	for _, tt := range []struct {
		rules, dashboard, last string
		said, want             string
	}{
		{"rules.yaml", "good.json", "two", "true: A", ""},
		{"rules.yaml", "none.json", "two", "", "panel P: m_total: no data"},
		{"rules.yaml", "by.json", "two", "", "nothing has the label jobs"},
		{"rules.yaml", "bad.json", "two", "", "panel P: 1:"},
		{"other.yaml", "good.json", "two", "", "alert A: down: no data"},
		{"rules.yaml", "good.json", "garbage", "", "garbage"},
	} {
		t.Run(tt.rules+" "+tt.dashboard+" "+tt.last, func(t *testing.T) {
			var out bytes.Buffer
			in := func(name string) string { return filepath.Join(dir, name) }
			err := run(t.Context(), []string{"eval", in(tt.rules), in(tt.dashboard), in("one"), in(tt.last)}, &out)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Error %v, want one with %q", err, tt.want)
			}
			if !strings.Contains(out.String(), tt.said) {
				t.Errorf("It says %q, want %q", out.String(), tt.said)
			}
		})
	}
}
