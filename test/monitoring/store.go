// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// sample is one value of a series, at a time in milliseconds.
type sample struct {
	t int64
	v float64
}

func (s sample) T() int64                    { return s.t }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.v }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

// store holds series in memory, in the form in which the PromQL engine asks for them.
type store struct {
	series map[string]*stored
}

type stored struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func newStore() *store { return &store{series: map[string]*stored{}} }

// add adds a sample; those of one series come in order.
func (s *store) add(l labels.Labels, v sample) {
	key := l.String()
	if s.series[key] == nil {
		s.series[key] = &stored{labels: l}
	}
	s.series[key].samples = append(s.series[key].samples, v)
}

// addSeries adds a series in the notation of rule tests, such as `up{job="x"}` and `0+1x30`.
func (s *store) addSeries(start time.Time, interval time.Duration, series, values string) error {
	l, sequence, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(series + " " + values)
	if err != nil {
		return err
	}
	for i, v := range sequence {
		if v.Histogram != nil {
			return errors.New("native histograms are not supported here")
		}
		if !v.Omitted {
			s.add(l, sample{t: start.Add(time.Duration(i) * interval).UnixMilli(), v: v.Value})
		}
	}
	return nil
}

// addScrape adds what a scrape at a time said.
func (s *store) addScrape(now time.Time, text []byte) error {
	p := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case entry != textparse.EntrySeries:
			continue
		}
		_, _, value := p.Series()
		var l labels.Labels
		p.Labels(&l)
		s.add(l, sample{t: now.UnixMilli(), v: value})
	}
}

// Querier implements storage.Queryable.
func (s *store) Querier(mint, maxt int64) (storage.Querier, error) {
	return &querier{MockQuerier: &storage.MockQuerier{}, store: s, mint: mint, maxt: maxt}, nil
}

type querier struct {
	*storage.MockQuerier
	store      *store
	mint, maxt int64
}

// Select implements storage.Querier.
func (q *querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, s := range q.store.series {
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
			continue
		}
		within := slices.DeleteFunc(slices.Clone(s.samples), func(v chunks.Sample) bool { return v.T() < q.mint || v.T() > q.maxt })
		found = append(found, storage.NewListSeries(s.labels, within))
	}
	slices.SortFunc(found, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return &seriesSet{series: found}
}

type seriesSet struct {
	series []storage.Series
	next   int
}

func (s *seriesSet) Next() bool                        { s.next++; return s.next <= len(s.series) }
func (s *seriesSet) At() storage.Series                { return s.series[s.next-1] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
