// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

// options are the flags that all commands share.
type options struct {
	out, errOut io.Writer
	now         func() time.Time

	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides

	server             string
	schedulerNamespace string
	lease              string
	viewer, operator   string
	output             string
	timeout            time.Duration
}

func newCommand(out, errOut io.Writer) *cobra.Command {
	o := &options{out: out, errOut: errOut, now: time.Now, rules: clientcmd.NewDefaultClientConfigLoadingRules()}
	root := &cobra.Command{
		Use:         "kubectl-mesos",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl mesos"},
		Short:       "See what kube-mesos-scheduler does, and why a pod waits",
		Long: `See what kube-mesos-scheduler does, and why a pod waits.

It finds the scheduler that leads by its Lease and asks it through the API server's pod proxy, with your own
credentials: you need the Role kube-mesos-viewer in the scheduler's namespace (kube-mesos-operator for reconcile).`,
		Example: `  # How are the framework and its offers?
  kubectl mesos status

  # Why does this pod wait, and what happened to it so far?
  kubectl mesos pod default/web-0

  # What is on offer, agent by agent?
  kubectl mesos agents -o wide

  # The live web page, on this machine
  kubectl mesos ui`,
		Version:                    version,
		SilenceUsage:               true,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		Args:                       aCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains(outputs, o.output) {
				return fmt.Errorf("--output is %q, it must be one of: %s", o.output, strings.Join(outputs[1:], ", "))
			}
			if o.timeout <= 0 {
				return fmt.Errorf("--wait is %s, it must be greater than 0, such as 30s", o.timeout)
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: %s --help lists the flags", err, cmd.CommandPath())
	})
	root.SetOut(out)
	root.SetErr(errOut)
	f := root.PersistentFlags()
	f.StringVar(&o.rules.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file to use")
	clientcmd.BindOverrideFlags(&o.overrides, f, kubectlFlags())
	f.StringVar(&o.server, "server", "", "Address of a scheduler's status listener on loopback, such as http://127.0.0.1:10270, to ask it directly")
	f.StringVar(&o.schedulerNamespace, "scheduler-namespace", "kube-mesos", "Namespace of the scheduler's pods and of its Lease")
	f.StringVar(&o.lease, "lease", "kube-mesos-scheduler", "Name of the Lease whose holder leads")
	f.StringVar(&o.viewer, "viewer", "kube-mesos-viewer", "Service account that may read the debug API; you need to be allowed to make a token for it")
	f.StringVar(&o.operator, "operator", "kube-mesos-operator", "Service account that may ask for a reconciliation")
	f.StringVarP(&o.output, "output", "o", "", "Output format: wide, json or yaml. A table if empty")
	f.DurationVar(&o.timeout, "wait", 30*time.Second, "How long to wait for an answer")
	must(root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs[1:], cobra.ShellCompDirectiveNoFileComp)))
	must(root.MarkPersistentFlagFilename("kubeconfig"))

	root.AddCommand(
		o.statusCommand(), o.offersCommand(), o.agentsCommand(), o.tasksCommand(), o.podsCommand(), o.podCommand(), o.eventsCommand(),
		o.drainCommand(), o.reconcileCommand(), o.uiCommand(),
	)
	for _, cmd := range root.Commands() {
		if cmd.Args == nil {
			cmd.Args = nothing
		}
	}
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil && completion != root {
		completion.Args = aShell
		completion.RunE = func(*cobra.Command, []string) error { return errors.New("say which shell: " + shells(completion)) }
	}
	return root
}

// kubectlFlags are kubectl's own flags for clusters and credentials, but for --server, which is the scheduler here.
func kubectlFlags() clientcmd.ConfigOverrideFlags {
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	flags.ClusterOverrideFlags.APIServer.LongName = ""
	flags.ClusterOverrideFlags.APIServer.ShortName = ""
	// Passwords do not belong on a command line.
	flags.AuthOverrideFlags.Username.LongName = ""
	flags.AuthOverrideFlags.Password.LongName = ""
	return flags
}

var outputs = []string{"", "wide", "json", "yaml"}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// aCommand refuses arguments of the root: they are commands that do not exist.
func aCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		hint = ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q%s: %s --help lists the commands", args[0], hint, root.CommandPath())
}

// nothing says that a command takes no arguments.
func nothing(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, not %q: %s --help lists its flags", cmd.CommandPath(), args, cmd.CommandPath())
	}
	return nil
}

func aShell(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("there is no completion for %q: it must be one of: %s", args[0], shells(cmd))
	}
	return nil
}

func shells(completion *cobra.Command) string {
	var names []string
	for _, c := range completion.Commands() {
		names = append(names, c.Name())
	}
	return strings.Join(names, ", ")
}

// limited bounds a request in time.
func (o *options) limited(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(cmd.Context(), o.timeout, fmt.Errorf("no answer within %s", o.timeout))
}

// noFiles says that arguments are no files.
func noFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}
