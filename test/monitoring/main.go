// SPDX-License-Identifier: Apache-2.0

// Command monitoring checks alert rules and a dashboard with Prometheus' own parser and query engine. It is a module of its
// own, so that the product does not depend on Prometheus.
//
//	monitoring test RULES_TEST              runs tests in the format of `promtool test rules`, where every alert has to fire
//	                                        in one and to be quiet in another
//	monitoring eval RULES DASHBOARD SCRAPE...  evaluates all expressions on scrapes of a running system, taken a minute
//	                                        apart, and prints the alerts whose expression is true
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == "test":
		return test(ctx, args[1], out)
	case len(args) >= 5 && args[0] == "eval":
		return eval(ctx, args[1], args[2], args[3:], out)
	default:
		return errors.New("usage: monitoring test RULES_TEST | monitoring eval RULES DASHBOARD SCRAPES, two at least")
	}
}

func test(ctx context.Context, file string, out io.Writer) error {
	c, err := runCases(ctx, file)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range c.rules {
		if !c.fires[r.Alert] {
			errs = append(errs, fmt.Errorf("%s: no test has alert %s fire", file, r.Alert))
		}
		if !c.quiet[r.Alert] {
			errs = append(errs, fmt.Errorf("%s: no test has alert %s be quiet", file, r.Alert))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d tests: each of %d alerts fires when it should and is quiet when it should\n", c.tests, len(c.rules))
	return nil
}

// eval fails if an expression is wrong, or asks for what the scrapes do not have.
func eval(ctx context.Context, rulesFile, dashboardFile string, scrapes []string, out io.Writer) error {
	rules, err := readRules(rulesFile)
	if err != nil {
		return err
	}
	panels, err := readDashboard(dashboardFile)
	if err != nil {
		return err
	}
	s := newStore()
	now := time.Unix(1e9, 0)
	for i, file := range scrapes {
		if i > 0 {
			now = now.Add(time.Minute)
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = s.addScrape(now, text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	e := evaluation{newEngine(), s, now}
	var errs []error
	for _, r := range rules {
		n, err := e.check(ctx, r.Expr)
		if err != nil {
			errs = append(errs, fmt.Errorf("alert %s: %w", r.Alert, err))
		}
		if n > 0 {
			fmt.Fprintf(out, "true: %s (severity %s)\n", r.Alert, r.Labels["severity"])
		}
	}
	for _, p := range panels {
		n, err := e.check(ctx, p.expr)
		if err == nil && n == 0 {
			err = fmt.Errorf("%s: no data", p.expr)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("panel %s: %w", p.title, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(out, "evaluated %d alerts and %d queries of the dashboard\n", len(rules), len(panels))
	return nil
}

// evaluation is what expressions are evaluated on.
type evaluation struct {
	engine *promql.Engine
	store  *store
	now    time.Time
}

// check evaluates an expression and says how many series it gives. All that it asks for has to be there, also where the
// whole has no data for another reason, such as a comparison that is false: each series, and each label that it groups by.
func (e evaluation) check(ctx context.Context, expr string) (int, error) {
	vector, err := query(ctx, e.engine, e.store, expr, e.now)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", expr, err)
	}
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return 0, err
	}
	var errs []error
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			found, err := query(ctx, e.engine, e.store, node.String(), e.now)
			if err == nil && len(found) == 0 {
				err = errors.New("no data")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", node, err))
			}
		case *parser.AggregateExpr:
			found, err := query(ctx, e.engine, e.store, node.Expr.String(), e.now)
			if err != nil || node.Without {
				return nil // the whole has failed, too
			}
			for _, label := range node.Grouping {
				if !slices.ContainsFunc(found, func(s promql.Sample) bool { return s.Metric.Has(label) }) {
					errs = append(errs, fmt.Errorf("%s: nothing has the label %s", node, label))
				}
			}
		}
		return nil
	})
	return len(vector), errors.Join(errs...)
}

type panel struct{ title, expr string }

func readDashboard(file string) ([]panel, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var out []panel
	for _, p := range dashboard.Panels {
		for _, t := range p.Targets {
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(t.Expr); err != nil {
				return nil, fmt.Errorf("%s: panel %s: %w", file, p.Title, err)
			}
			out = append(out, panel{p.Title, t.Expr})
		}
	}
	return out, nil
}
