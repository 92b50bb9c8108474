// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
)

const root = "../.."

func TestPagesAreUpToDate(t *testing.T) {
	for path, page := range pages {
		want, err := page(root)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is out of date, run `go run ./hack/docs` (-want,+got):\n%s", path, diff)
		}
	}
}

// Every field of the configuration says what it means.
func TestEveryOptionIsDocumented(t *testing.T) {
	types, err := structs(filepath.Join(root, "plugins/mesos/apis/config/v1/types.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range types {
		for _, f := range s.fields {
			if f.name != "" && (f.doc == "" || !strings.HasSuffix(f.doc, ".")) {
				t.Errorf("%s.%s has no comment that ends in a full stop", s.name, f.name)
			}
		}
	}
}

// docs/operations.md says that kube-scheduler exports no traces. When that changes, ours should, too.
func TestKubeSchedulerHasNoTracing(t *testing.T) {
	typ := reflect.TypeFor[kubeschedulerconfigv1.KubeSchedulerConfiguration]()
	for i := range typ.NumField() {
		if name := typ.Field(i).Name; strings.Contains(name, "Tracing") {
			t.Errorf("KubeSchedulerConfiguration has a field %s: docs/operations.md is out of date", name)
		}
	}
}

// Links in the pages lead to files and headings that are there.
func TestLinks(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, extra := range []string{"README.md", "CONTRIBUTING.md"} {
		if _, err := os.Stat(filepath.Join(root, extra)); err == nil {
			files = append(files, filepath.Join(root, extra))
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links(string(text)) {
			target, anchor, _ := strings.Cut(link, "#")
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), target)
			}
			content, err := os.ReadFile(path)
			if info, statErr := os.Stat(path); statErr == nil && info.IsDir() && anchor == "" {
				continue
			}
			if err != nil {
				t.Errorf("%s: link to %s: %v", file, link, err)
				continue
			}
			if anchor != "" && !strings.Contains(headings(string(content)), "\n"+anchor+"\n") {
				t.Errorf("%s: link to %s: there is no such heading", file, link)
			}
		}
	}
}

// links returns the relative links of a page.
func links(text string) []string {
	var out []string
	for {
		_, rest, ok := strings.Cut(text, "](")
		if !ok {
			return out
		}
		link, rest, ok := strings.Cut(rest, ")")
		if !ok {
			return out
		}
		if !strings.Contains(link, "://") {
			out = append(out, link)
		}
		text = rest
	}
}

// headings returns the anchors of a page, one a line.
func headings(text string) string {
	out := "\n"
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		title := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
				return r
			}
			return -1
		}, title)
		out += anchor + "\n"
	}
	return out
}
