// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// TestCheckProfile has each wrong form of a profile: pods would be bound without a Mesos task.
func TestCheckProfile(t *testing.T) {
	set := func(names ...string) config.PluginSet {
		var s config.PluginSet
		for _, n := range names {
			s.Enabled = append(s.Enabled, config.Plugin{Name: n})
		}
		return s
	}
	full := func() *config.Plugins {
		return &config.Plugins{
			PreEnqueue: set("SchedulingGates", Name), PreFilter: set(Name, "NodeResourcesFit"), Filter: set(Name), PreScore: set(Name), Score: set(Name, "ImageLocality"),
			Reserve: set(Name), Bind: set(Name), PostBind: set("Other"),
		}
	}
	tests := []struct {
		name      string
		change    func(*config.Plugins)
		extenders int
		want      []string // in the error; nil is none
	}{
		{name: "as it should be"},
		{name: "not enabled at all", change: func(p *config.Plugins) {
			*p = config.Plugins{Filter: set("NodeResourcesFit"), Bind: set("DefaultBinder")}
		}},
		{name: "not enabled at all, with an extender that binds", change: func(p *config.Plugins) { *p = config.Plugins{Bind: set("DefaultBinder")} }, extenders: 1},
		{name: "not at Filter", change: func(p *config.Plugins) { p.Filter = set() }, want: []string{"not at filter", "multiPoint"}},
		{name: "not at Reserve", change: func(p *config.Plugins) { p.Reserve = set("VolumeBinding") }, want: []string{"not at reserve"}},
		{name: "not at PreFilter and PreEnqueue", change: func(p *config.Plugins) { p.PreFilter, p.PreEnqueue = set(), set() }, want: []string{"not at preEnqueue, preFilter"}},
		{name: "not at PreScore", change: func(p *config.Plugins) { p.PreScore = set() }, want: []string{"not at preScore"}},
		{name: "not at Score", change: func(p *config.Plugins) { p.Score = set() }, want: []string{"not at score"}},
		{name: "not at Bind", change: func(p *config.Plugins) { p.Bind = set("DefaultBinder") }, want: []string{"not at bind", "DefaultBinder"}},
		{name: "only at Bind", change: func(p *config.Plugins) { *p = config.Plugins{Bind: set(Name)} }, want: []string{"enabled at bind but not at"}},
		{name: "DefaultBinder before it", change: func(p *config.Plugins) { p.Bind = set("DefaultBinder", Name) }, want: []string{"DefaultBinder", "without a Mesos task", "bind.disabled"}},
		{name: "another binder after it", change: func(p *config.Plugins) { p.Bind = set(Name, "Other") }, want: []string{"Other"}},
		{name: "an extender that binds", extenders: 1, want: []string{"1 extenders", "bindVerb"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plugins := full()
			if tt.change != nil {
				tt.change(plugins)
			}
			err := checkProfile("a-profile", plugins, tt.extenders)
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("error %v", err)
			}
			for _, part := range append(tt.want, map[bool]string{true: "a-profile"}[tt.want != nil]) {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
	if err := CheckProfiles(nil); err != nil {
		t.Error(err)
	}
}
