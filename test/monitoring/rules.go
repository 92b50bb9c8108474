// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/template"
)

const metricName = string(model.MetricNameLabel)

// alertMetric is the series that Prometheus makes of alerts.
const alertMetric = "ALERTS"

// readRules reads alert rules as Prometheus does, templates of annotations included.
func readRules(file string) ([]rulefmt.Rule, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	groups, errs := rulefmt.Parse(data, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var rules []rulefmt.Rule
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				return nil, fmt.Errorf("%s: %s is a recording rule; only alerts are supported here", file, r.Record)
			}
			rules = append(rules, r)
		}
	}
	return rules, nil
}

func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: 10 * time.Second, EnableAtModifier: true, EnableNegativeOffset: true,
		Parser: parser.NewParser(parser.Options{}),
	})
}

// query evaluates an expression at a time. What Prometheus would warn of, such as a rate of what is no counter, is an error.
func query(ctx context.Context, engine *promql.Engine, s *store, expr string, now time.Time) (promql.Vector, error) {
	q, err := engine.NewInstantQuery(ctx, s, nil, expr, now)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	r := q.Exec(ctx)
	if r.Err != nil {
		return nil, r.Err
	}
	if warnings := r.Warnings.AsErrors(); len(warnings) > 0 {
		return nil, errors.Join(warnings...)
	}
	switch v := r.Value.(type) {
	case promql.Vector:
		return slices.Clone(v), nil
	case promql.Scalar:
		return promql.Vector{{T: v.T, F: v.V}}, nil
	default:
		return nil, fmt.Errorf("the result is a %s", v.Type())
	}
}

// alerts follows alert rules through time.
type alerts struct {
	rules  []rulefmt.Rule
	engine *promql.Engine
	store  *store
	active map[string]map[string]time.Time // by alert and labels, since when its expression is true
	firing map[string][]labels.Labels
}

func newAlerts(rules []rulefmt.Rule, engine *promql.Engine, s *store) *alerts {
	return &alerts{rules: rules, engine: engine, store: s, active: map[string]map[string]time.Time{}}
}

// evaluate evaluates every rule at a time, after which firing says which alerts fire with which labels.
func (a *alerts) evaluate(ctx context.Context, now time.Time) error {
	a.firing = map[string][]labels.Labels{}
	for _, rule := range a.rules {
		vector, err := query(ctx, a.engine, a.store, rule.Expr, now)
		if err != nil {
			return fmt.Errorf("alert %s: %w", rule.Alert, err)
		}
		before := a.active[rule.Alert]
		a.active[rule.Alert] = map[string]time.Time{}
		for _, s := range vector {
			b := labels.NewBuilder(s.Metric)
			b.Del(metricName)
			for name, value := range rule.Labels {
				b.Set(name, value)
			}
			l := b.Labels()
			since, ok := before[l.String()]
			if !ok {
				since = now
			}
			a.active[rule.Alert][l.String()] = since
			state := "pending"
			if now.Sub(since) >= time.Duration(rule.For) {
				state = "firing"
				a.firing[rule.Alert] = append(a.firing[rule.Alert], l)
				if err := expand(ctx, rule, l, s.F, now); err != nil {
					return fmt.Errorf("alert %s: %w", rule.Alert, err)
				}
			}
			b.Set(metricName, alertMetric)
			b.Set("alertname", rule.Alert)
			b.Set("alertstate", state)
			a.store.add(b.Labels(), sample{t: now.UnixMilli(), v: 1})
		}
	}
	return nil
}

// expand fills in the templates of an alert's annotations, which may fail only then.
func expand(ctx context.Context, rule rulefmt.Rule, l labels.Labels, value float64, now time.Time) error {
	data := template.AlertTemplateData(l.Map(), nil, "", promql.Sample{F: value})
	for name, text := range rule.Annotations {
		const variables = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"
		none := func(context.Context, string, time.Time) (promql.Vector, error) { return nil, nil }
		e := template.NewTemplateExpander(ctx, variables+text, name, data, model.TimeFromUnixNano(now.UnixNano()), none, &url.URL{}, nil)
		if _, err := e.Expand(); err != nil {
			return fmt.Errorf("annotation %s: %w", name, err)
		}
	}
	return nil
}
