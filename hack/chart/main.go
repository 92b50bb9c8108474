// SPDX-License-Identifier: Apache-2.0

// Command chart renders the Helm chart with Helm's own engine. It is a module of its own, so that the product does not
// depend on Helm.
//
//	chart [-f VALUES]... CHART         prints what the chart renders
//	chart -write CHART MANIFESTS       writes the plain manifests: what it renders with its default values, and in the folder
//	                                   optional what it renders beside that with every option on
//	chart -check CHART MANIFESTS       fails if they differ from that
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("chart", flag.ContinueOnError)
	var files []string
	flags.Func("f", "file with values", func(f string) error { files = append(files, f); return nil })
	write := flags.Bool("write", false, "write the plain manifests")
	check := flags.Bool("check", false, "fail if the plain manifests differ")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if want := map[bool]int{true: 2, false: 1}[*write || *check]; flags.NArg() != want {
		return errors.New("usage: chart [-f VALUES]... CHART | chart -write|-check CHART MANIFESTS")
	}
	rendered, err := render(flags.Arg(0), files, nil)
	if err != nil {
		return err
	}
	if *write || *check {
		everything, err := render(flags.Arg(0), files, allOptions)
		if err != nil {
			return err
		}
		for name, text := range everything {
			if strings.HasPrefix(name, optional) {
				rendered[name] = text
			}
		}
	}
	if !*write && !*check {
		for _, name := range slices.Sorted(maps.Keys(rendered)) {
			fmt.Printf("---\n# Source: %s\n%s", name, rendered[name])
		}
		return nil
	}
	if *check {
		if err := lintChart(flags.Arg(0)); err != nil {
			return err
		}
	}
	for name, text := range rendered {
		file := filepath.Join(flags.Arg(1), name)
		if *write {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				return err
			}
			continue
		}
		plain, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !bytes.Equal(plain, text) {
			return fmt.Errorf("%s is not what the chart renders: %s; run `go -C hack/chart run . -write ../../manifests/chart ../../manifests`", file, difference(plain, text))
		}
	}
	return nil
}

// optional is the folder of templates that the default values leave empty, allOptions are the values that fill them all.
const optional = "optional/"

var allOptions = map[string]any{"gangs": true, "args": map[string]any{"inverseOffers": "Drain"}}

// render returns the chart's manifests by the name of their template; empty ones are left out.
func render(dir string, valueFiles []string, more map[string]any) (map[string][]byte, error) {
	c, err := loader.Load(dir)
	if err != nil {
		return nil, err
	}
	values := maps.Clone(more)
	if values == nil {
		values = map[string]any{}
	}
	for _, file := range valueFiles {
		more, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		values = chartutil.CoalesceTables(more, values)
	}
	merged, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "kube-mesos", Namespace: "kube-mesos"}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	templates, err := engine.Render(c, merged)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for name, text := range templates {
		if strings.TrimSpace(text) != "" {
			_, name, _ = strings.Cut(name, "/templates/")
			out[name] = []byte(text)
		}
	}
	return out, nil
}

func lintChart(dir string) error {
	linter := lint.AllWithKubeVersion(dir, nil, "kube-mesos", nil)
	var errs []error
	for _, m := range linter.Messages {
		if m.Severity >= support.WarningSev {
			errs = append(errs, fmt.Errorf("helm lint: %s: %w", m.Path, m.Err))
		}
	}
	return errors.Join(errs...)
}

// difference is the first line that differs.
func difference(a, b []byte) string {
	x, y := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := range max(len(x), len(y)) {
		var p, q string
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return fmt.Sprintf("line %d is %q, the chart has %q", i+1, p, q)
		}
	}
	return "no difference"
}
