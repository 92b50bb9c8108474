// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// testFile is what is used here of the format of `promtool test rules`.
type testFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []testCase     `yaml:"tests"`
}

type testCase struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Alerts []alertCase `yaml:"alert_rule_test"`
	Exprs  []exprCase  `yaml:"promql_expr_test"`
}

// alertCase says which instances of an alert fire at a time: none, unless some are expected.
type alertCase struct {
	EvalTime  model.Duration `yaml:"eval_time"`
	Alertname string         `yaml:"alertname"`
	Expect    []struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"` // left to promtool
	} `yaml:"exp_alerts"`
}

type exprCase struct {
	Expr     string         `yaml:"expr"`
	EvalTime model.Duration `yaml:"eval_time"`
	Expect   []struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	} `yaml:"exp_samples"`
}

// covered says what the tests are about: which alerts fire in one, and which are quiet in one.
type covered struct {
	tests        int
	rules        []rulefmt.Rule
	fires, quiet map[string]bool
}

func (c covered) note(alert string, fires bool) {
	if fires {
		c.fires[alert] = true
	} else {
		c.quiet[alert] = true
	}
}

// runCases runs the tests of a file and returns what they are about.
func runCases(ctx context.Context, file string) (covered, error) {
	c := covered{fires: map[string]bool{}, quiet: map[string]bool{}}
	data, err := os.ReadFile(file)
	if err != nil {
		return c, err
	}
	var f testFile
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	for _, name := range f.RuleFiles {
		more, err := readRules(filepath.Join(filepath.Dir(file), name))
		if err != nil {
			return c, err
		}
		c.rules = append(c.rules, more...)
	}
	if f.EvaluationInterval <= 0 {
		return c, fmt.Errorf("%s: evaluation_interval is missing", file)
	}
	c.tests = len(f.Tests)
	var errs []error
	for _, t := range f.Tests {
		if err := t.run(ctx, time.Duration(f.EvaluationInterval), c); err != nil {
			errs = append(errs, fmt.Errorf("%s: test %q: %w", file, t.Name, err))
		}
	}
	return c, errors.Join(errs...)
}

func (t *testCase) run(ctx context.Context, interval time.Duration, c covered) error {
	start := time.Unix(0, 0)
	s := newStore()
	for _, in := range t.InputSeries {
		if err := s.addSeries(start, time.Duration(t.Interval), in.Series, in.Values); err != nil {
			return fmt.Errorf("input series %s: %w", in.Series, err)
		}
	}
	var last time.Duration
	for _, a := range t.Alerts {
		last = max(last, time.Duration(a.EvalTime))
	}
	for _, e := range t.Exprs {
		last = max(last, time.Duration(e.EvalTime))
	}
	engine := newEngine()
	state := newAlerts(c.rules, engine, s)
	var errs []error
	for now := time.Duration(0); now <= last; now += interval {
		if err := state.evaluate(ctx, start.Add(now)); err != nil {
			return err
		}
		for _, a := range t.Alerts {
			// As with promtool, what counts is the last evaluation before.
			if d := time.Duration(a.EvalTime); now <= d && d < now+interval {
				if err := a.check(state.firing[a.Alertname], c); err != nil {
					errs = append(errs, err)
				}
			}
		}
	}
	for _, e := range t.Exprs {
		if alert, ok := firing(e.Expr); ok {
			c.note(alert, len(e.Expect) > 0)
		}
		vector, err := query(ctx, engine, s, e.Expr, start.Add(time.Duration(e.EvalTime)))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.Expr, err))
			continue
		}
		var got, want []string
		for _, v := range vector {
			got = append(got, fmt.Sprint(v.Metric, " ", v.F))
		}
		for _, x := range e.Expect {
			l, err := parser.NewParser(parser.Options{}).ParseMetric(x.Labels)
			if err != nil {
				return fmt.Errorf("labels %s: %w", x.Labels, err)
			}
			want = append(want, fmt.Sprint(l, " ", x.Value))
		}
		if !same(got, want) {
			errs = append(errs, fmt.Errorf("%s at %v is [%s], want [%s]", e.Expr, time.Duration(e.EvalTime), strings.Join(got, "; "), strings.Join(want, "; ")))
		}
	}
	return errors.Join(errs...)
}

// firing returns the alert of which an expression asks whether it fires.
func firing(expr string) (alert string, ok bool) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return "", false
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, isSelector := node.(*parser.VectorSelector); isSelector && selector.Name == alertMetric {
			by := map[string]string{}
			for _, m := range selector.LabelMatchers {
				if m.Type == labels.MatchEqual {
					by[m.Name] = m.Value
				}
			}
			alert, ok = by["alertname"], by["alertstate"] == "firing"
		}
		return nil
	})
	return alert, ok
}

func (a *alertCase) check(firing []labels.Labels, c covered) error {
	if !slices.ContainsFunc(c.rules, func(r rulefmt.Rule) bool { return r.Alert == a.Alertname }) {
		return fmt.Errorf("there is no alert %s", a.Alertname)
	}
	c.note(a.Alertname, len(a.Expect) > 0)
	var got, want []string
	for _, l := range firing {
		got = append(got, l.String())
	}
	for _, x := range a.Expect {
		want = append(want, labels.FromMap(x.Labels).String())
	}
	if !same(got, want) {
		return fmt.Errorf("alert %s at %v fires as [%s], want [%s]", a.Alertname, time.Duration(a.EvalTime), strings.Join(got, " "), strings.Join(want, " "))
	}
	return nil
}

func same(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
