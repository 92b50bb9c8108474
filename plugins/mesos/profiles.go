// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// points are the extension points that the plugin must have, all or none.
func points(p *config.Plugins) map[string]config.PluginSet {
	return map[string]config.PluginSet{
		"preEnqueue": p.PreEnqueue, "preFilter": p.PreFilter, "filter": p.Filter, "preScore": p.PreScore,
		"score": p.Score, "reserve": p.Reserve, "bind": p.Bind,
	}
}

const wiring = "use multiPoint.enabled: [{name: Mesos}] and bind.disabled: [{name: DefaultBinder}]"

// CheckProfiles refuses profiles in which pods could be bound without a Mesos task: the plugin has to stand at all its
// extension points or at none, it has to be the only Bind plugin, and no extender may bind.
func CheckProfiles(profiles map[string]framework.Framework) error {
	names := make([]string, 0, len(profiles))
	for name := range profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		binders := 0
		for _, e := range profiles[name].Extenders() {
			if e.IsBinder() {
				binders++
			}
		}
		if err := checkProfile(name, profiles[name].ListPlugins(), binders); err != nil {
			return err
		}
	}
	return nil
}

func checkProfile(name string, plugins *config.Plugins, bindingExtenders int) error {
	var with, without []string
	for point, set := range points(plugins) {
		if slices.ContainsFunc(set.Enabled, func(p config.Plugin) bool { return p.Name == Name }) {
			with = append(with, point)
		} else {
			without = append(without, point)
		}
	}
	slices.Sort(with)
	slices.Sort(without)
	if len(with) == 0 {
		return nil
	}
	if len(without) > 0 {
		return fmt.Errorf("profile %q: plugin Mesos is enabled at %s but not at %s: it must be enabled at all its extension points or at none; %s",
			name, strings.Join(with, ", "), strings.Join(without, ", "), wiring)
	}
	for _, p := range plugins.Bind.Enabled {
		if p.Name != Name {
			return fmt.Errorf("profile %q: Bind plugin %s is enabled beside Mesos: it would bind pods without a Mesos task; %s", name, p.Name, wiring)
		}
	}
	if bindingExtenders > 0 {
		return fmt.Errorf("profile %q: %d extenders have a bindVerb: they would bind pods without a Mesos task; remove the bindVerb, or run these profiles in a scheduler of their own", name, bindingExtenders)
	}
	return nil
}
