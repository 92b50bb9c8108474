// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const good = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: s
  plugins:
    multiPoint: {enabled: [{name: Mesos}]}
    bind: {disabled: [{name: DefaultBinder}]}
  pluginConfig:
  - name: PodTopologySpread
    args: {anything: goes}
  - name: Mesos
    args:
      kind: MesosArgs
      masters: ["m:5050"]
      failoverTimeout: 168h
      launchRetries: 3
      gpus: true
      roles: [{name: a, namespaceSelector: {matchLabels: {team: a}, matchExpressions: [{key: k, operator: In, values: [v]}]}}]
      minimumTaskResources: {cpu: 1, memory: 32Mi}
      executor: {cpu: 100m, environment: [{name: A, value: b}]}
`

func TestProblems(t *testing.T) {
	const args = "profiles[0].pluginConfig[1].args"
	tests := []struct {
		name     string
		from, to string
		want     []string
	}{
		{name: "none"},
		{name: "an old version", from: "io/v1\n", to: "io/v1beta3\n", want: []string{"apiVersion: must be kubescheduler.config.k8s.io/v1"}},
		{name: "another kind", from: "kind: KubeSch", to: "kind: Sch", want: []string{"kind: must be KubeSchedulerConfiguration"}},
		{name: "small letters", from: "enabled: [{name: Mesos", to: "enabled: [{name: mesos", want: []string{"profiles[0].plugins.multiPoint.enabled[0].name: the plugin's name is Mesos"}},
		{name: "small letters of the args, which are looked at all the same", from: "- name: Mesos\n    args:", to: "- name: MESOS\n    args:\n      role: x",
			want: []string{"profiles[0].pluginConfig[1].name: the plugin's name is Mesos", args + ".role: there is no such field, did you mean roles?"}},
		{name: "one point alone", from: "multiPoint: {", to: "filter: {", want: []string{"profiles[0].plugins: Mesos is enabled at filter alone: it is needed at all its extension points, by multiPoint.enabled: [{name: Mesos}]"}},
		{name: "at no point", from: "enabled: [{name: Mesos}]", to: "enabled: []", want: []string{"profiles[0].pluginConfig[1]: Mesos has arguments here, but is not enabled: plugins.multiPoint.enabled: [{name: Mesos}] does that"}},
		{name: "a list that is none", from: `masters: ["m:5050"]`, to: "masters: m:5050", want: []string{args + ".masters: is text, must be a list, also of one: [...] or lines that begin with a dash"}},
		{name: "a number in a list of text", from: `["m:5050"]`, to: "[5050]", want: []string{args + ".masters[0]: is a number, must be text: put it into quotes"}},
		{name: "weeks", from: "168h", to: "1w", want: []string{args + `.failoverTimeout: is "1w", must be a duration of h, m, s and ms, such as 168h, 1h30m or 250ms`}},
		{name: "seconds", from: "168h", to: "3600", want: []string{args + `.failoverTimeout: is a number, must be a duration in quotes, such as "168h", "10m" or "250ms"`}},
		{name: "a number in quotes", from: "launchRetries: 3", to: `launchRetries: "3"`, want: []string{args + ".launchRetries: is text, must be a whole number, without quotes"}},
		{name: "half a retry", from: "launchRetries: 3", to: `launchRetries: 2.5`, want: []string{args + ".launchRetries: is a number, must be a whole number, without quotes"}},
		{name: "a word for true", from: "gpus: true", to: `gpus: "yes"`, want: []string{args + ".gpus: is text, must be true or false, without quotes"}},
		{name: "an amount", from: "cpu: 100m", to: "cpu: lots", want: []string{args + `.executor.cpu: is "lots", must be an amount, such as 100m or 2 for cpus and 128Mi or 1Gi for memory`}},
		{name: "misspelt", from: "failoverTimeout", to: "failoverTimout", want: []string{args + ".failoverTimout: there is no such field, did you mean failoverTimeout?"}},
		{name: "misspelt inside", from: "matchLabels", to: "matchLabel", want: []string{args + ".roles[0].namespaceSelector.matchLabel: there is no such field, did you mean matchLabels?"}},
		{name: "invented", from: "{name: A, value: b}", to: "{name: A, valueFrom: secret}", want: []string{args + ".executor.environment[0].valueFrom: there is no such field; the fields are name, value"}},
		{name: "a mapping where a list is wanted", from: "[{name: A, value: b}]", to: "{A: hush}", want: []string{args + ".executor.environment: is a mapping, must be a list, also of one: [...] or lines that begin with a dash"}},
		{name: "text where a mapping is wanted", from: "[{name: a,", to: "[secret, {name: a,", want: []string{args + ".roles[0]: is text, must be a mapping with the fields name, namespaceSelector"}},
		{name: "YAML's yes", from: "name: a,", to: "name: yes,", want: []string{args + ".roles[0].name: is true or false (YAML takes yes, no, on and off for that), must be text: put it into quotes"}},
		{name: "nothing is left out", from: "gpus: true", to: "gpus: 1\n      revocable: 2", want: []string{args + ".gpus: is a number, must be true or false, without quotes", args + ".revocable: is a number, must be true or false, without quotes"}},
		{name: "no YAML", from: "kind", to: "{{{"},
		{name: "nothing where something could be", from: "gpus: true", to: "gpus:"},
		{name: "profiles of another form", from: "profiles:\n- ", to: "profiles: x\nother:\n- "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(good, tt.from) {
				t.Fatalf("%q is not in the file", tt.from)
			}
			got := Problems([]byte(strings.Replace(good, tt.from, tt.to, 1)))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
			for _, line := range got {
				if strings.Contains(line, "hush") || strings.Contains(line, "secret") {
					t.Errorf("%q repeats a value", line)
				}
			}
		})
	}
}

// Whatever a file holds, looking at it does not panic.
func FuzzProblems(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("profiles: [1, {pluginConfig: {}, plugins: []}]"))
	f.Fuzz(func(_ *testing.T, data []byte) { Problems(data) })
}
