// SPDX-License-Identifier: Apache-2.0

// Package explain says what is wrong with the form of a configuration file that could not be read or used, and what would
// be right. The decoders of Go and Kubernetes speak of Go's types, stop at the first error, and do not always name the field.
package explain

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	configv1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/v1"
)

const (
	plugin     = "Mesos"
	apiVersion = "kubescheduler.config.k8s.io/v1"
	kind       = "KubeSchedulerConfiguration"
)

// Problems returns what is wrong, one line each with the field that it is about. It is meant for a configuration that was
// refused: nothing is said of files that are no YAML, and none of the values is repeated, which may be secret, but for
// durations and amounts.
func Problems(data []byte) []string {
	var file map[string]any
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil
	}
	var p problems
	if got := file["apiVersion"]; got != apiVersion {
		p.add("apiVersion", "must be "+apiVersion)
	}
	if got := file["kind"]; got != kind {
		p.add("kind", "must be "+kind)
	}
	profiles, _ := file["profiles"].([]any)
	for i, profile := range profiles {
		profile, _ := profile.(map[string]any)
		at := fmt.Sprintf("profiles[%d]", i)
		enabled := p.plugins(at+".plugins", profile["plugins"])
		configs, _ := profile["pluginConfig"].([]any)
		for j, config := range configs {
			config, _ := config.(map[string]any)
			at := fmt.Sprintf("%s.pluginConfig[%d]", at, j)
			if !p.name(at+".name", config["name"]) {
				continue
			}
			if !enabled {
				p.add(at, plugin+" has arguments here, but is not enabled: plugins.multiPoint.enabled: [{name: "+plugin+"}] does that")
			}
			if config["args"] != nil {
				p.value(at+".args", config["args"], reflect.TypeFor[configv1.MesosArgs]())
			}
		}
	}
	return p
}

type problems []string

func (p *problems) add(path, text string) { *p = append(*p, path+": "+text) }

// name says whether a name is that of our plugin, also if it is not written as it should be.
func (p *problems) name(path string, name any) bool {
	text, _ := name.(string)
	if text != plugin && strings.EqualFold(text, plugin) {
		p.add(path, "the plugin's name is "+plugin)
	}
	return strings.EqualFold(text, plugin)
}

// plugins says whether our plugin is enabled anywhere.
func (p *problems) plugins(path string, value any) bool {
	points, _ := value.(map[string]any)
	var enabled []string
	for _, point := range slices.Sorted(maps.Keys(points)) {
		set, _ := points[point].(map[string]any)
		for _, list := range []string{"enabled", "disabled"} {
			entries, _ := set[list].([]any)
			for i, entry := range entries {
				entry, _ := entry.(map[string]any)
				if p.name(fmt.Sprintf("%s.%s.%s[%d].name", path, point, list, i), entry["name"]) && list == "enabled" {
					enabled = append(enabled, point)
				}
			}
		}
	}
	if len(enabled) > 0 && !slices.Contains(enabled, "multiPoint") {
		p.add(path, fmt.Sprintf("%s is enabled at %s alone: it is needed at all its extension points, by multiPoint.enabled: [{name: %s}]", plugin, strings.Join(enabled, ", "), plugin))
	}
	return len(enabled) > 0
}

// value compares a value with the type of its field.
func (p *problems) value(path string, value any, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if value == nil {
		return
	}
	is := func(want string) { p.add(path, "is "+described(value)+", must be "+want) }
	text, isText := value.(string)
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		if _, err := time.ParseDuration(text); !isText {
			is("a duration in quotes, such as \"168h\", \"10m\" or \"250ms\"")
		} else if err != nil {
			p.add(path, fmt.Sprintf("is %q, must be a duration of h, m, s and ms, such as 168h, 1h30m or 250ms", text))
		}
		return
	case reflect.TypeFor[resource.Quantity]():
		if _, err := resource.ParseQuantity(fmt.Sprint(value)); err != nil {
			p.add(path, fmt.Sprintf("is %.20q, must be an amount, such as 100m or 2 for cpus and 128Mi or 1Gi for memory", fmt.Sprint(value)))
		}
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		fields, ok := value.(map[string]any)
		if !ok {
			is("a mapping with the fields " + strings.Join(names(t), ", "))
			return
		}
		p.fields(path, fields, t)
	case reflect.Slice:
		items, ok := value.([]any)
		if !ok {
			is("a list, also of one: [...] or lines that begin with a dash")
			return
		}
		for i, item := range items {
			p.value(fmt.Sprintf("%s[%d]", path, i), item, t.Elem())
		}
	case reflect.Map:
		entries, ok := value.(map[string]any)
		if !ok {
			is("a mapping")
			return
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			p.value(path+"."+key, entries[key], t.Elem())
		}
	case reflect.String:
		if !isText {
			is("text: put it into quotes")
		}
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			is("true or false, without quotes")
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if n, ok := value.(float64); !ok || n != float64(int64(n)) {
			is("a whole number, without quotes")
		}
	}
}

func (p *problems) fields(path string, fields map[string]any, t reflect.Type) {
	known := map[string]reflect.Type{}
	eachField(t, func(name string, t reflect.Type) { known[name] = t })
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if t, ok := known[name]; ok {
			p.value(path+"."+name, fields[name], t)
			continue
		}
		text := "there is no such field"
		if near := nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
			text += ", did you mean " + near + "?"
		} else {
			text += "; the fields are " + strings.Join(names(t), ", ")
		}
		p.add(path+"."+name, text)
	}
}

// names are those of a type's fields that a person writes.
func names(t reflect.Type) []string {
	var out []string
	eachField(t, func(name string, _ reflect.Type) {
		if name != "kind" && name != "apiVersion" {
			out = append(out, name)
		}
	})
	return out
}

func eachField(t reflect.Type, f func(name string, t reflect.Type)) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous:
			eachField(field.Type, f)
		default:
			f(name, field.Type)
		}
	}
}

func described(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case bool:
		return "true or false (YAML takes yes, no, on and off for that)"
	case float64, int64:
		return "a number"
	case []any:
		return "a list"
	default:
		return "a mapping"
	}
}

// nearest returns the name that differs least from a misspelt one, if by little.
func nearest(wrong string, names []string) string {
	best, least := "", len(wrong)/3+1
	for _, name := range names {
		if d := distance(strings.ToLower(wrong), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is how many letters have to be put in, taken out or changed (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
