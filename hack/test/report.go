// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// tally counts tests. A test with subtests counts as its subtests, unless it failed by itself.
type tally struct {
	passed, skipped int
	failed          []string // names
}

func (t *tally) add(other tally) {
	t.passed += other.passed
	t.failed = append(t.failed, other.failed...)
	t.skipped += other.skipped
}

// summary names the failed tests; its last line counts.
func (t tally) summary() string {
	var b strings.Builder
	for _, name := range t.failed {
		fmt.Fprintf(&b, "failed: %s\n", name)
	}
	if t.skipped > 0 {
		fmt.Fprintf(&b, "%d tests were skipped\n", t.skipped)
	}
	fmt.Fprintf(&b, "tests: %d passed, %d failed\n", t.passed, len(t.failed))
	return b.String()
}

// report turns the events of `go test -json` into lines a person reads, and counts.
type report struct {
	out      io.Writer
	packages map[string]*packageReport
	tally    tally
	start    time.Time
}

type packageReport struct {
	output  map[string]*strings.Builder // by test; "" is the package's own
	results map[string]string
	running []string // tests, in the order of their start
}

func newReport(out io.Writer) *report {
	return &report{out: out, packages: map[string]*packageReport{}, start: time.Now()}
}

func (r *report) add(e event) {
	if e.Action == "build-output" {
		fmt.Fprint(r.out, e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &packageReport{output: map[string]*strings.Builder{}, results: map[string]string{}}
		r.packages[e.Package] = p
	}
	switch e.Action {
	case "output":
		b := p.output[e.Test]
		if b == nil {
			b = &strings.Builder{}
			p.output[e.Test] = b
		}
		// The verdict on the package is ours to print.
		if e.Test != "" || !strings.HasPrefix(e.Output, "FAIL") {
			b.WriteString(e.Output)
		}
	case "run":
		p.running = append(p.running, e.Test)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.finish(e, p)
			return
		}
		p.results[e.Test] = e.Action
		p.running = slices.DeleteFunc(p.running, func(t string) bool { return t == e.Test })
		if e.Action != "fail" {
			delete(p.output, e.Test)
		}
	}
}

// finish counts and reports a package that is done.
func (r *report) finish(e event, p *packageReport) {
	delete(r.packages, e.Package)
	// What was running when a test binary died has failed.
	for _, test := range p.running {
		p.results[test] = "fail"
	}
	parents := map[string]map[string]bool{} // test to the results of its subtests
	for test, result := range p.results {
		for i := strings.LastIndex(test, "/"); i >= 0; i = strings.LastIndex(test[:i], "/") {
			parent := parents[test[:i]]
			if parent == nil {
				parent = map[string]bool{}
				parents[test[:i]] = parent
			}
			parent[result] = true
		}
	}
	var t tally
	var failed []string
	for test, result := range p.results {
		results := parents[test]
		switch {
		case result == "fail" && !results["fail"]:
			failed = append(failed, test)
		case results != nil:
		case result == "pass":
			t.passed++
		case result == "skip":
			t.skipped++
		}
	}
	slices.Sort(failed)
	for _, test := range failed {
		t.failed = append(t.failed, e.Package+" "+test)
	}
	if e.Action == "fail" && len(failed) == 0 {
		t.failed = []string{e.Package} // it did not build, or failed outside of its tests
	}
	r.tally.add(t)
	if e.Action == "fail" {
		fmt.Fprintf(r.out, "FAIL  %s (%d passed, %d failed, %.1f s)\n", e.Package, t.passed, len(t.failed), e.Elapsed)
		for _, test := range append(failed, "") {
			if b := p.output[test]; b != nil {
				fmt.Fprint(r.out, b.String())
			}
		}
		return
	}
	if t.passed+t.skipped > 0 {
		fmt.Fprintf(r.out, "ok    %s (%d tests, %.1f s)\n", e.Package, t.passed+t.skipped, e.Elapsed)
	}
}

// progress says what runs at the moment.
func (r *report) progress() {
	var running []string
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		p := r.packages[name]
		if len(p.running) > 0 {
			name += " " + p.running[len(p.running)-1]
		}
		running = append(running, name)
	}
	what := "compiling"
	if len(running) > 0 {
		what = strings.Join(running[:min(3, len(running))], ", ")
		if len(running) > 3 {
			what += fmt.Sprintf(" and %d more", len(running)-3)
		}
	}
	fmt.Fprintf(r.out, "  ... %.0f s, %d tests so far: %s\n", time.Since(r.start).Seconds(), r.tally.passed+len(r.tally.failed), what)
}
