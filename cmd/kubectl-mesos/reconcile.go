// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
)

func (o *options) reconcileCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reconcile", Short: "Have the scheduler ask the master for the state of every task",
		Long:    "Have the scheduler ask the master for the state of every task, as it does by itself every quarter of an hour. Nothing is\nkilled or removed by it unless the master's answers call for it. It needs the Role kube-mesos-operator.",
		Example: "  kubectl mesos reconcile",
		Args:    nothing, ValidArgsFunction: noFiles,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := o.limited(cmd)
			defer cancel()
			c, err := o.connect(ctx, true)
			if err != nil {
				return err
			}
			var answer v1.Accepted
			if err := c.do(ctx, http.MethodPost, "/reconcile", &answer); err != nil {
				return err
			}
			if done, err := o.structured(&answer); done {
				return err
			}
			_, err = fmt.Fprintln(o.out, answer.Message)
			return err
		},
	}
}
