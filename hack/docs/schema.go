// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/v1"
)

// words are the values of text fields that have a fixed set of them.
var words = map[reflect.Type][]any{
	reflect.TypeFor[configv1.NodeMappingSource]():   {configv1.NodeMappingHostname, configv1.NodeMappingAddress, configv1.NodeMappingLabel},
	reflect.TypeFor[configv1.InverseOfferPolicy]():  {configv1.InverseOffersDecline, configv1.InverseOffersDrain},
	reflect.TypeFor[configv1.TaskLimitsPolicy]():    {configv1.TaskLimitsNone, configv1.TaskLimitsFromPod},
	reflect.TypeFor[configv1.ScoringStrategyType](): {configv1.LeastAllocated, configv1.MostAllocated},
}

// chartSchema writes the chart's values.schema.json: by hand but for args and executor.args, which are as the types of the
// arguments are, so that Helm refuses what the scheduler would.
func chartSchema(root string) (string, error) {
	data, err := os.ReadFile(filepath.Join(root, "manifests/chart/values.schema.json"))
	if err != nil {
		return "", err
	}
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil {
		return "", err
	}
	values, ok := schema["properties"].(map[string]any)
	executor, executorOK := values["executor"].(map[string]any)
	fields, fieldsOK := executor["properties"].(map[string]any)
	if !ok || !executorOK || !fieldsOK {
		return "", fmt.Errorf("values.schema.json has no properties.executor.properties")
	}
	// What the chart has values of its own for is for its templates to refuse, which say so.
	values["args"] = schemaOf(reflect.TypeFor[configv1.MesosArgs](), "masters", "statusAddress", "executor", "stateConfigMap")
	fields["args"] = schemaOf(reflect.TypeFor[configv1.Executor](), "path", "kubeconfig")
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(schema)
	return b.String(), err
}

// schemaOf describes a type in JSON schema. Anything goes for the fields in open.
func schemaOf(t reflect.Type, open ...string) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(h|m|s|ms|us|ns))+$|^0$`}
	case reflect.TypeFor[resource.Quantity]():
		return map[string]any{"type": []string{"string", "number"}}
	}
	if values, ok := words[t]; ok {
		return map[string]any{"enum": values}
	}
	switch t.Kind() {
	case reflect.Struct:
		properties := map[string]any{}
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" && name != "-" {
				properties[name] = schemaOf(field.Type)
			}
		}
		for _, name := range open {
			properties[name] = true
		}
		return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	default:
		panic("no JSON schema for " + t.String())
	}
}
