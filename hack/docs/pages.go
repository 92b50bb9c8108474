// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	executormetrics "github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/metrics"
	configv1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
)

// configuration writes docs/configuration.md.
func configuration(root string) (string, error) {
	types, err := structs(filepath.Join(root, "plugins/mesos/apis/config/v1/types.go"))
	if err != nil {
		return "", err
	}
	args := &configv1.MesosArgs{TLS: &configv1.TLS{}}
	configv1.SetDefaults_MesosArgs(args)
	data, err := json.Marshal(args)
	if err != nil {
		return "", err
	}
	defaults := map[string]any{}
	if err := json.Unmarshal(data, &defaults); err != nil {
		return "", err
	}
	// Where in MesosArgs a nested type's defaults stand.
	at := map[string]string{"Executor": "executor", "TLS": "tls", "ObjectReference": "stateConfigMap", "ComputeResources": "minimumTaskResources", "NodeMapping": "nodeMapping"}

	var b strings.Builder
	b.WriteString("# Configuration\n\n" + notice)
	b.WriteString(`The scheduler takes kube-scheduler's own flags and its own configuration file (` + "`--config`" + `, kind
` + "`KubeSchedulerConfiguration`" + `). What is about Mesos stands in that file in the arguments of the plugin ` + "`Mesos`" + `;
[manifests/20-config.yaml](../manifests/20-config.yaml) is a complete one. Unknown and misspelt fields are refused at the
start, and each error names the field, its value and what would be right. ` + "`kube-mesos-scheduler --config FILE --validate-config`" + `
checks a file, and that a master can be reached, without starting anything.

`)
	for _, t := range types {
		values := defaults
		if path := at[t.name]; path != "" {
			values, _ = defaults[path].(map[string]any)
		} else if t.name != "MesosArgs" {
			values = nil
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n| Field | Type | Default | Meaning |\n| --- | --- | --- | --- |\n", t.name, t.doc)
		for _, f := range t.fields {
			if f.name == "" {
				continue
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, linked(f.typ, types), shown(values[f.name]), cell(f.doc))
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

func shown(v any) string {
	switch v := v.(type) {
	case nil, map[string]any:
		return ""
	case string:
		if v == "" {
			return ""
		}
	case bool:
		if !v {
			return "`false`"
		}
	case []any:
		if len(v) == 0 {
			return ""
		}
	}
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return "`" + strings.Trim(string(data), `"`) + "`"
}

// linked links the name of a type to its section.
func linked(typ string, types []structType) string {
	words := strings.Fields(typ)
	last := words[len(words)-1]
	for _, t := range types {
		if t.name == last {
			words[len(words)-1] = fmt.Sprintf("[%s](#%s)", last, strings.ToLower(last))
		}
	}
	return strings.Join(words, " ")
}

// endpoints are the paths of the debug API.
var endpoints = [][3]string{
	{"GET /mesos/v1/status", "Status", "The framework, its master, its offers, the arguments without secrets."},
	{"GET /mesos/v1/offers", "OfferList", "Offers in hand. Parameters `node`, `agent`, `role`, `limit`."},
	{"GET /mesos/v1/agents", "AgentList", "Known agents. Parameters `node`, `agent`, `limit`."},
	{"GET /mesos/v1/tasks", "TaskList", "Pods that hold or are about to hold resources. Parameters `namespace`, `node`, `agent`, `state`, `limit`."},
	{"GET /mesos/v1/pods", "PodList", "Pods that wait for offers, and why. Parameters `namespace`, `limit`."},
	{"GET /mesos/v1/pods/NAMESPACE/NAME", "Pod", "One pod's journey; for one that waits the verdict of each node."},
	{"GET /mesos/v1/events", "EventList", "What happened lately. Parameters `after` (a `seq`), `limit`."},
	{"GET /mesos/v1/series", "Series", "Samples of the last hour."},
	{"POST /mesos/v1/reconcile", "Accepted", "Asks the master for the state of every task."},
}

// debugAPI writes docs/debug-api.md.
func debugAPI(root string) (string, error) {
	types, err := structs(filepath.Join(root, "plugins/mesos/debug/v1/types.go"))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Debug API\n\n" + notice)
	b.WriteString(`The scheduler that leads answers in JSON what it does and why pods wait, on the listener of ` + "`statusAddress`" + `.
` + "`kubectl mesos`" + ` and the web page (` + "`/mesos/`" + `) are its clients. Fields are added, never renamed or given another
meaning; a change that breaks clients gets a new version.

- On a loopback address it is served by plain HTTP to everybody on the host. Requests by another host name than a
  loopback one, and changing requests from another origin, are refused.
- Elsewhere it is served by TLS with kube-scheduler's own certificate (` + "`--tls-cert-file`" + `, else self-signed). The API server
  says who asks (a bearer token or a client certificate) and whether he may: verb ` + "`get`" + ` on the non-resource URL
  ` + "`/mesos/*`" + `, and ` + "`post`" + ` on ` + "`/mesos/v1/reconcile`" + `. Through the API server's pod proxy, which drops the header
  Authorization, a token goes in the header ` + "`X-Kube-Mesos-Token`" + `.
- ` + "`/healthz`" + ` and ` + "`/readyz`" + ` are for everybody.

Amounts are in cores, MiB and devices. Times are RFC 3339. ` + "`limit`" + ` is 1000 unless given, and at most 20000. A request that
fails is answered with an ` + "[Error](#error)" + `.

| Request | Answer | What it is |
| --- | --- | --- |
`)
	for _, e := range endpoints {
		fmt.Fprintf(&b, "| `%s` | [%s](#%s) | %s |\n", e[0], e[1], strings.ToLower(e[1]), e[2])
	}
	b.WriteByte('\n')
	for _, t := range types {
		fmt.Fprintf(&b, "## %s\n\n%s\n\n| Field | Type | Meaning |\n| --- | --- | --- |\n", t.name, t.doc)
		for _, f := range t.fields {
			if f.name == "" {
				fmt.Fprintf(&b, "| | | the fields of %s |\n", linked(f.typ, types))
				continue
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.name, linked(f.typ, types), cell(f.doc))
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// metricsPage writes docs/metrics.md.
func metricsPage(string) (string, error) {
	var b strings.Builder
	b.WriteString("# Metrics\n\n" + notice)
	b.WriteString(`All are served on kube-scheduler's own ` + "`/metrics`" + ` (port 10259 by default, by TLS, authorised by the API server), beside
kube-scheduler's. Those of a scheduler that stands by are absent or zero. Label values come from fixed sets, apart from
` + "`role`" + `, which has those of the configuration. Gauges of resources, offers' age, stream lag and reasons are up to five
seconds old. [manifests/monitoring](../manifests/monitoring) has a dashboard for Grafana and alert rules for Prometheus.

| Name | Type | Labels | Meaning |
| --- | --- | --- | --- |
`)
	row := func(name, kind, help string, labels []string) {
		quoted := make([]string, len(labels))
		for i, l := range labels {
			quoted[i] = "`" + l + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, kind, strings.Join(quoted, ", "), cell(help))
	}
	for _, d := range metrics.Docs() {
		row(d.Name, d.Type, d.Help, d.Labels)
	}
	b.WriteString(`
## Executors

An executor opens no port. It serves its metrics by HTTP on the unix socket ` + "`" + executormetrics.SocketName + "`" + ` in its
Mesos sandbox (` + "`<work_dir>/slaves/*/frameworks/*/executors/*/runs/latest/`" + `), which only its user, root unless changed, may
open, and which is gone when the executor is. [operations.md](operations.md#metrics-of-executors) says how to scrape it.
Counters begin anew with each start of the bridge, apart from that of its restarts. The label ` + "`executor`" + ` is the executor's
id: one host has several when roles or the executor's configuration differ.

| Name | Type | Labels | Meaning |
| --- | --- | --- | --- |
`)
	for _, d := range executormetrics.Docs() {
		row(d.Name, d.Type, d.Help, d.Labels)
	}
	return b.String(), nil
}
