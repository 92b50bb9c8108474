// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// parseAgents reads the value of --agent. Mesos' own texts contain ; : and , so pairs are separated by white space. For
// those who write it with semicolons, one that is followed by a known key and = separates too.
func parseAgents(text string) ([]mesossim.AgentOptions, error) {
	keys := []string{"name", "hostname", "resources", "attributes", "region", "zone", "listen", "isolation", "synthetic", "count"}
	for _, key := range keys {
		text = strings.ReplaceAll(text, ";"+key+"=", " "+key+"=")
	}
	var options mesossim.AgentOptions
	count := 1
	for _, pair := range strings.Fields(text) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%q is no key=value", pair)
		}
		switch key {
		case "name":
			options.Name = value
		case "hostname":
			options.Hostname = value
		case "resources":
			options.Resources = value
		case "attributes":
			options.Attributes = value
		case "region":
			options.Region = value
		case "zone":
			options.Zone = value
		case "listen":
			options.Listen = value
		case "isolation":
			options.Isolation = strings.Split(value, ",")
		case "synthetic":
			on, err := strconv.ParseBool(value)
			if err != nil {
				return nil, fmt.Errorf("synthetic: %w", err)
			}
			if on {
				options.Synthetic = &mesossim.Script{}
			}
		case "count":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("count=%s: want a positive number", value)
			}
			count = n
		default:
			return nil, fmt.Errorf("unknown key %q (known: %s)", key, strings.Join(keys, ", "))
		}
	}
	if options.Name == "" {
		return nil, fmt.Errorf("name is missing")
	}
	if count == 1 {
		return []mesossim.AgentOptions{options}, nil
	}
	out := make([]mesossim.AgentOptions, count)
	for i := range out {
		out[i] = options
		out[i].Name = fmt.Sprintf("%s-%d", options.Name, i+1)
	}
	return out, nil
}

// klogFlags adds -v.
func klogFlags(flags *pflag.FlagSet) {
	local := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(local)
	flags.AddGoFlag(local.Lookup("v"))
}
