// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
)

// completionLimit is how long a shell waits for suggestions.
const completionLimit = 3 * time.Second

// suggest asks the scheduler for names; without an answer there are no suggestions.
func (o *options) suggest(cmd *cobra.Command, names func(context.Context, *client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionLimit)
	defer cancel()
	c, err := o.connect(ctx, false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := names(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

func (o *options) completePods(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return noFiles(cmd, args, "")
	}
	return o.suggest(cmd, func(ctx context.Context, c *client) ([]string, error) {
		var pods v1.PodList
		var tasks v1.TaskList
		if err := c.get(ctx, "/pods", nil, &pods); err != nil {
			return nil, err
		}
		if err := c.get(ctx, "/tasks", nil, &tasks); err != nil {
			return nil, err
		}
		var names []string
		for i := range pods.Items {
			names = append(names, pods.Items[i].Namespace+"/"+pods.Items[i].Name+"\twaits")
		}
		for i := range tasks.Items {
			names = append(names, tasks.Items[i].Namespace+"/"+tasks.Items[i].Name+"\t"+tasks.Items[i].State)
		}
		return names, nil
	})
}

func (o *options) completeNodes(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return o.completeAgents(cmd, nil, "")
}

func (o *options) completeAgents(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return noFiles(cmd, args, "")
	}
	return o.suggest(cmd, func(ctx context.Context, c *client) ([]string, error) {
		var agents v1.AgentList
		if err := c.get(ctx, "/agents", nil, &agents); err != nil {
			return nil, err
		}
		var names []string
		for i := range agents.Items {
			names = append(names, agents.Items[i].Node+"\t"+agents.Items[i].ID)
		}
		return names, nil
	})
}
