// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strings"
)

// A binding gives the placeholders of a recording, such as ${offer.2}, their values in a replay.
type binding map[string]string

var placeholder = regexp.MustCompile(`\$\{[a-z_]+(?:\.[A-Za-z0-9_.-]+)?\}`)

// wild says that a placeholder's value may differ from one place to the next: times, process ids, paths and ports.
func wild(name string) bool {
	kind := strings.TrimSuffix(strings.TrimPrefix(name, "${"), "}")
	kind, _, _ = strings.Cut(kind, ".")
	switch kind {
	case "time", "pid", "port", "sandbox", "work_dir", "launcher_dir", "driver", "mesos", "file", "credentials", "tmp":
		return true
	}
	return false
}

// substitute replaces the bound placeholders in v. It returns the names of unbound ones.
func (b binding) substitute(v any, unbound map[string]bool) any {
	switch x := v.(type) {
	case string:
		return placeholder.ReplaceAllStringFunc(x, func(name string) string {
			if value, ok := b[name]; ok {
				return value
			}
			if !wild(name) {
				unbound[name] = true
			}
			return name
		})
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, item := range x {
			out[k] = b.substitute(item, unbound)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, item := range x {
			out[i] = b.substitute(item, unbound)
		}
		return out
	}
	return v
}

// unordered lists are compared as sets: a master promises no order for them.
var unordered = map[string]bool{"resources": true, "offers": true, "executor_ids": true, "agents": true, "recovered_agents": true, "tasks": true,
	"completed_tasks": true, "unreachable_tasks": true, "executors": true, "frameworks": true, "completed_frameworks": true, "total_resources": true,
	"allocated_resources": true, "offered_resources": true, "inverse_offers": true, "statuses": true}

// absentFields are fields that the generated types of mesos-go do not have, so the simulator cannot send them. None of
// them matters to a scheduler: a deprecated flag, an empty echo, and an internal of GET_CONTAINERS.
var absentFields = map[string]bool{"checkpoint@agent_info": true, "checkpoint@recovered_agents": true, "offer_constraints@frameworks": true, "offer_constraints@framework": true}

// mismatch compares what was recorded with what came, binding placeholders on the way. It returns where and how they
// differ, or "".
func mismatch(want, got any, b binding) string { return differ(want, got, b, "", "") }

func differ(want, got any, b binding, path, parent string) string {
	say := func(format string, args ...any) string {
		if path == "" {
			path = "."
		}
		return path + ": " + fmt.Sprintf(format, args...)
	}
	switch w := want.(type) {
	case string:
		if strings.Contains(w, "${") {
			return unifyString(w, got, b, say)
		}
		if g, ok := got.(string); !ok || g != w {
			return say("%s, recorded is %q", short(got), w)
		}
	case float64:
		g, ok := got.(float64)
		if !ok || math.Abs(g-w) > 1e-9*max(1, math.Abs(w)) {
			return say("%s, recorded is %v", short(got), w)
		}
	case bool, nil:
		if got != want {
			return say("%s, recorded is %v", short(got), want)
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return say("%s, recorded is an object", short(got))
		}
		if parent == "resource_statistics" { // measured
			for k := range w {
				if _, has := g[k]; !has {
					return say("%s is missing", k)
				}
			}
			return ""
		}
		nested := false
		if parent == "container_status" {
			id, _ := w["container_id"].(map[string]any)
			_, nested = id["parent"]
		}
		for _, k := range sortedKeys(w) {
			if nested && k != "container_id" {
				continue // whether the pid and address of a nested container were known is chance
			}
			if text, ok := w[k].(string); ok && (k == "uuid" || k == "status_update_uuid" || k == "value" && parent == "uuid") && !strings.HasPrefix(text, "${") {
				if _, ok := g[k].(string); !ok {
					return say("%s is missing", k)
				}
				continue // an id that the recording has not given a name
			}
			value, has := g[k]
			if !has {
				if absentFields[k+"@"+parent] {
					continue
				}
				return say("%s is missing, recorded is %s", k, short(w[k]))
			}
			if text := differ(w[k], value, b, path+"."+k, k); text != "" {
				return text
			}
		}
		for _, k := range sortedKeys(g) {
			if _, has := w[k]; !has && !nested {
				return say("%s is there (%s), not recorded", k, short(g[k]))
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return say("%s, recorded are %d: %s", short(got), len(w), short(want))
		}
		if unordered[parent] {
			return assign(w, g, b, path, parent)
		}
		for i := range w {
			if text := differ(w[i], g[i], b, fmt.Sprintf("%s[%d]", path, i), parent); text != "" {
				return text
			}
		}
	}
	return ""
}

// assign matches the items of two lists of one length in any order.
func assign(want, got []any, b binding, path, parent string) string {
	if len(want) == 0 {
		return ""
	}
	first := ""
	for i := range got {
		trial := maps.Clone(b)
		if text := differ(want[0], got[i], trial, path+"[]", parent); text != "" {
			if first == "" || len(text) > len(first) { // the difference that lies deepest says most
				first = text
			}
			continue
		}
		rest := append(append([]any(nil), got[:i]...), got[i+1:]...)
		text := assign(want[1:], rest, trial, path, parent)
		if text == "" {
			clear(b)
			maps.Copy(b, trial)
			return ""
		}
		first = text
	}
	return first
}

func unifyString(want string, got any, b binding, say func(string, ...any) string) string {
	text, isString := got.(string)
	if name := placeholder.FindString(want); name == want {
		if wild(name) {
			return ""
		}
		if !isString {
			return say("%s, recorded is %s", short(got), want)
		}
		return b.bind(name, text, say)
	}
	if !isString {
		return say("%s, recorded is %q", short(got), want)
	}
	var names []string
	pattern := "(?s)^"
	rest := want
	for {
		at := placeholder.FindStringIndex(rest)
		if at == nil {
			break
		}
		pattern += regexp.QuoteMeta(rest[:at[0]]) + `(.*?)`
		names = append(names, rest[at[0]:at[1]])
		rest = rest[at[1]:]
	}
	pattern += regexp.QuoteMeta(rest) + "$"
	groups := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if groups == nil {
		return say("%q, recorded is %q", text, want)
	}
	for i, name := range names {
		if wild(name) {
			continue
		}
		if text := b.bind(name, groups[i+1], say); text != "" {
			return text
		}
	}
	return ""
}

// bind gives name the value. Two names of one kind never have the same value.
func (b binding) bind(name, value string, say func(string, ...any) string) string {
	if bound, ok := b[name]; ok {
		if bound != value {
			return say("%q, which is not %s (%s)", value, name, bound)
		}
		return ""
	}
	kind, _, _ := strings.Cut(strings.TrimPrefix(name, "${"), ".")
	for other, bound := range b {
		if bound == value && strings.HasPrefix(other, "${"+kind+".") {
			return say("%q is %s, recorded is another: %s", value, other, name)
		}
	}
	b[name] = value
	return ""
}

func short(v any) string {
	b, _ := json.Marshal(v)
	if len(b) > 300 {
		b = append(b[:300:300], "..."...)
	}
	return string(b)
}

// summary prints an event in one line.
func summary(event map[string]any) string {
	if event == nil {
		return "end of stream"
	}
	var parts []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch x := v.(type) {
		case map[string]any:
			keys := sortedKeys(x)
			for _, k := range keys {
				switch k {
				case "state", "reason", "message", "task_id", "offer_id", "executor_id", "id", "status", "role", "uuid":
					walk(path+"."+k, x[k])
				case "offers", "update", "rescind", "failure", "error", "inverse_offers", "launch", "task", "kill", "acknowledged":
					walk(path+"."+k, x[k])
				}
			}
		case []any:
			for _, item := range x {
				walk(path, item)
			}
		default:
			parts = append(parts, fmt.Sprint(v))
		}
	}
	for _, k := range sortedKeys(event) {
		if k != "type" {
			walk(k, event[k])
		}
	}
	return fmt.Sprint(event["type"], " ", strings.Join(parts, " "))
}
