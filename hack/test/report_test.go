// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	for name, tt := range map[string]struct {
		events  []string
		want    tally
		says    []string
		saysNot []string
	}{
		"a test with subtests counts as its subtests": {
			events: []string{
				`{"Action":"run","Package":"p","Test":"T"}`,
				`{"Action":"run","Package":"p","Test":"T/a"}`,
				`{"Action":"output","Package":"p","Test":"T/a","Output":"chatter\n"}`,
				`{"Action":"run","Package":"p","Test":"T/b/c"}`,
				`{"Action":"pass","Package":"p","Test":"T/b/c"}`,
				`{"Action":"pass","Package":"p","Test":"T/b"}`,
				`{"Action":"pass","Package":"p","Test":"T/a"}`,
				`{"Action":"pass","Package":"p","Test":"T"}`,
				`{"Action":"pass","Package":"p","Elapsed":1.5}`,
			},
			want:    tally{passed: 2},
			says:    []string{"ok    p (2 tests, 1.5 s)"},
			saysNot: []string{"chatter"},
		},
		"a failed subtest is one failure, shown with its output": {
			events: []string{
				`{"Action":"output","Package":"p","Test":"T/a","Output":"it broke\n"}`,
				`{"Action":"fail","Package":"p","Test":"T/a"}`,
				`{"Action":"fail","Package":"p","Test":"T"}`,
				`{"Action":"pass","Package":"p","Test":"U"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: tally{passed: 1, failed: []string{"p T/a"}},
			says: []string{"FAIL  p (1 passed, 1 failed", "it broke"},
		},
		"a test that fails although its subtests pass": {
			events: []string{
				`{"Action":"pass","Package":"p","Test":"T/a"}`,
				`{"Action":"fail","Package":"p","Test":"T"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want:    tally{passed: 1, failed: []string{"p T"}},
			saysNot: []string{"FAIL\n"},
		},
		"skipped": {
			events: []string{
				`{"Action":"skip","Package":"p","Test":"T"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want: tally{skipped: 1},
		},
		"a package that does not build": {
			events: []string{
				`{"ImportPath":"p","Action":"build-output","Output":"x.go:1: syntax error\n"}`,
				`{"ImportPath":"p","Action":"build-fail"}`,
				`{"Action":"start","Package":"p"}`,
				`{"Action":"fail","Package":"p","FailedBuild":"p"}`,
			},
			want: tally{failed: []string{"p"}},
			says: []string{"syntax error", "FAIL  p"},
		},
		"a test binary that dies": {
			events: []string{
				`{"Action":"run","Package":"p","Test":"T"}`,
				`{"Action":"output","Package":"p","Test":"T","Output":"panic: no\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: tally{failed: []string{"p T"}},
			says: []string{"panic: no"},
		},
		"a package without tests": {
			events: []string{`{"Action":"skip","Package":"p"}`},
		},
		"what is no event is shown": {
			events: []string{`go: cannot find module`},
			says:   []string{"cannot find module"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			for _, line := range tt.events {
				r.add(parse([]byte(line)))
			}
			require.Equal(t, tt.want, r.tally)
			for _, s := range tt.says {
				require.Contains(t, out.String(), s)
			}
			for _, s := range tt.saysNot {
				require.NotContains(t, out.String(), s)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	require.Equal(t, "tests: 3 passed, 0 failed\n", tally{passed: 3}.summary())
	require.Equal(t, "failed: p T\n2 tests were skipped\ntests: 3 passed, 1 failed\n", tally{3, 2, []string{"p T"}}.summary())
}
