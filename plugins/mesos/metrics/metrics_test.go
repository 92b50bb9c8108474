// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
)

func TestDocsNameEveryMetric(t *testing.T) {
	Register()
	Register() // more than once is fine
	if len(docs) != len(all) {
		t.Fatalf("%d descriptions of %d metrics", len(docs), len(all))
	}
	seen := map[string]bool{}
	for i, d := range Docs() {
		if seen[d.Name] {
			t.Errorf("%s is declared twice", d.Name)
		}
		seen[d.Name] = true
		if want := "mesos_" + strings.TrimPrefix(all[i].FQName(), "mesos_"); d.Name != want {
			t.Errorf("described as %s, registered as %s", d.Name, want)
		}
		if !strings.HasSuffix(d.Help, ".") && !strings.HasSuffix(d.Help, ")") {
			t.Errorf("%s: the help text has no end", d.Name)
		}
		if d.Type == "counter" != strings.HasSuffix(d.Name, "_total") {
			t.Errorf("%s is a %s: counters, and only they, end in _total", d.Name, d.Type)
		}
	}
	if _, err := testutil.GetCounterMetricValue(Kills.WithLabelValues()); err != nil {
		t.Error(err)
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mesos_kills_total", "mesos_subscribed", "mesos_pod_removals_total"} {
		found := false
		for _, f := range families {
			found = found || f.GetName() == want
		}
		if !found {
			t.Errorf("%s is not served before it counts", want)
		}
	}
}
