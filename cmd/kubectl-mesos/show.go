// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
)

// show makes a command that asks for one thing and prints it.
func show[T any](o *options, cmd *cobra.Command, path string, query func(url.Values), table func(*T) error) *cobra.Command {
	cmd.Args = nothing
	cmd.ValidArgsFunction = noFiles
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := o.limited(cmd)
		defer cancel()
		c, err := o.connect(ctx, false)
		if err != nil {
			return err
		}
		q := url.Values{}
		if query != nil {
			query(q)
		}
		var answer T
		if err := c.get(ctx, path, q, &answer); err != nil {
			return err
		}
		if done, err := o.structured(&answer); done {
			return err
		}
		return table(&answer)
	}
	return cmd
}

func (o *options) statusCommand() *cobra.Command {
	return show(o, &cobra.Command{
		Use: "status", Short: "Show the framework, its master and its offers",
		Example: "  kubectl mesos status\n  kubectl mesos status -o yaml",
	}, "/status", nil, o.printStatus)
}

func (o *options) printStatus(s *v1.Status) error {
	rows := [][2]cell{
		{text("Scheduler"), text("%s (%s), up for %s", s.Version, s.KubernetesVersion, o.age(s.Started))},
		{text("Leading"), text("%s", yes(s.Leading))},
		{text("Framework"), text("%s %s", s.Framework, s.FrameworkID)},
		{text("Master"), text("%s", s.Master)},
		{text("Subscription"), {fmt.Sprintf("%s for %s", s.Phase, orDash(o.age(s.PhaseSince))), stateColour(s.Phase)}},
		{text("Reconciled"), text("%s", yes(s.Reconciled))},
	}
	if s.Problem != "" {
		rows = append(rows, [2]cell{text("Problem"), {strings.Map(printable, s.Problem), bad}})
	}
	if !s.RemovalsStopped.IsZero() {
		rows = append(rows, [2]cell{text("Removals"), {fmt.Sprintf("stopped for %s; to release: annotate %s", o.age(s.RemovalsStopped), s.Release), bad}})
	}
	for _, r := range s.Roles {
		how := "offers flow"
		if r.Suppressed {
			how = "suppressed: no pod waits"
		}
		rows = append(rows, [2]cell{text("Role %s", r.Name), text("%s; asked for offers %s ago, last came %s ago", how, orDash(o.age(r.Revived)), orDash(o.age(r.Answered)))})
	}
	f := s.Offers
	rows = append(rows,
		[2]cell{text("Offers"), text("%d held; %d received = held + %d accepted + %d declined + %d rescinded + %d lost", f.Held, f.Received, f.Accepted, f.Declined, f.Rescinded, f.Lost)},
		[2]cell{text("Agents"), text("%d", s.Agents)},
		[2]cell{text("Tasks"), text("%s", counts(s.Tasks))},
		[2]cell{text("Waiting pods"), text("%s", waits(s.Waiting))},
	)
	if s.Strangers > 0 {
		rows = append(rows, [2]cell{text("Unknown tasks"), {strconv.Itoa(s.Strangers), doubt}})
	}
	return o.fields(rows)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// counts writes the numbers that are not zero, by name.
func counts(m map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", m[name], name))
		}
	}
	return orDefault(strings.Join(parts, ", "), "none")
}

func waits(m map[string]int) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%d: %s", m[reason], reason))
	}
	return orDefault(strings.Join(parts, "; "), "none")
}

func orDefault(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (o *options) offersCommand() *cobra.Command {
	var node, role string
	cmd := show(o, &cobra.Command{
		Use: "offers", Aliases: []string{"offer"}, Short: "List the Mesos offers in hand",
		Example: "  kubectl mesos offers\n  kubectl mesos offers --node host-1",
	}, "/offers", filter("node", &node, "role", &role), o.printOffers)
	cmd.Flags().StringVar(&node, "node", "", "Only offers of this node's agent")
	cmd.Flags().StringVar(&role, "role", "", "Only offers for this Mesos role")
	must(cmd.RegisterFlagCompletionFunc("node", o.completeNodes))
	return cmd
}

// filter passes flags on as parameters, all items wanted.
func filter(pairs ...any) func(url.Values) {
	return func(q url.Values) {
		q.Set("limit", "20000")
		for i := 0; i < len(pairs); i += 2 {
			if v := *pairs[i+1].(*string); v != "" {
				q.Set(pairs[i].(string), v)
			}
		}
	}
}

func (o *options) printOffers(list *v1.OfferList) error {
	header := []string{"NODE", "ROLE", "CPUS", "MEM", "DISK", "GPUS", "AGE", "STATE"}
	if o.wide() {
		header = append(header, "PORTS", "REVOCABLE", "OFFER", "AGENT")
	}
	var rows [][]cell
	for _, of := range list.Items {
		how := state(of.Trouble)
		switch {
		case of.Trouble == "" && of.Claimed:
			how = cell{"claimed", good}
		case of.Trouble == "":
			how = cell{"free", plain}
		}
		row := append([]cell{text("%s", of.Node), text("%s", of.Role)}, amounts(of.Amounts)...)
		row = append(row, text("%s", duration.HumanDuration(time.Duration(of.AgeSeconds*float64(time.Second)))), how)
		if o.wide() {
			row = append(row, text("%s", of.Ports), text("%s", of.Revocable), text("%s", of.ID), text("%s", of.AgentID))
		}
		rows = append(rows, row)
	}
	return o.list("No offers in hand. When no pod waits, the role is suppressed: see kubectl mesos status.", list.List, header, rows)
}

func amounts(a v1.Amounts) []cell {
	return []cell{number(a.CPUs), number(a.Mem), number(a.Disk), number(a.GPUs)}
}

func number(v float64) cell { return cell{text: strconv.FormatFloat(v, 'f', -1, 64)} }

// list prints a table, or says that it is empty.
func (o *options) list(empty string, l v1.List, header []string, rows [][]cell) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(o.errOut, empty)
		return err
	}
	if err := o.table(header, rows); err != nil {
		return err
	}
	if l.Truncated {
		_, err := fmt.Fprintf(o.errOut, "%d of %d are shown.\n", len(rows), l.Total)
		return err
	}
	return nil
}

func (o *options) agentsCommand() *cobra.Command {
	var node string
	cmd := show(o, &cobra.Command{
		Use: "agents", Aliases: []string{"agent"}, Short: "List Mesos agents with what is offered, claimed and running",
		Example: "  kubectl mesos agents\n  kubectl mesos agents -o wide",
	}, "/agents", filter("node", &node), o.printAgents)
	cmd.Flags().StringVar(&node, "node", "", "Only the agents of this node")
	must(cmd.RegisterFlagCompletionFunc("node", o.completeNodes))
	return cmd
}

func (o *options) printAgents(list *v1.AgentList) error {
	header := []string{"NODE", "STATE", "TASKS", "OFFERED", "CLAIMED", "RUNNING", "AGENT"}
	if o.wide() {
		header = append(header, "LAST OFFER", "HOSTNAME", "OFFERS", "EXECUTORS", "ATTRIBUTES")
	}
	var rows [][]cell
	for i := range list.Items {
		a := &list.Items[i]
		how := cell{"ok", good}
		switch {
		case a.Gone:
			how = cell{"gone", bad}
		case a.Trouble != "":
			how = state(a.Trouble)
		case !a.MaintenanceStart.IsZero():
			how = cell{"maintenance from " + a.MaintenanceStart.UTC().Format(time.RFC3339), doubt}
		}
		row := []cell{
			text("%s", a.Node), how, text("%d", a.Tasks), text("%s", a.Offered), text("%s", a.Claimed), text("%s", a.Running), text("%s", a.ID),
		}
		if o.wide() {
			var executors, attributes []string
			for _, p := range a.Pools {
				if p.Executor != "" {
					executors = append(executors, p.Executor)
				}
			}
			for _, k := range slices.Sorted(maps.Keys(a.Attributes)) {
				attributes = append(attributes, k+":"+a.Attributes[k])
			}
			row = append(row, text("%s", lastOffer(o, a.LastOffered, a.LastOfferedAt)), text("%s", a.Hostname), text("%d", a.Offers), text("%s", strings.Join(executors, ",")), text("%s", strings.Join(attributes, ";")))
		}
		rows = append(rows, row)
	}
	return o.list("No agent is known: none has made an offer yet.", list.List, header, rows)
}

func (o *options) tasksCommand() *cobra.Command {
	var node, of string
	cmd := show(o, &cobra.Command{
		Use: "tasks", Aliases: []string{"task"}, Short: "List pods that hold, or are about to hold, Mesos resources",
		Example: "  kubectl mesos tasks\n  kubectl mesos tasks -n default --node host-1 --state Running",
	}, "/tasks", filter("namespace", &o.overrides.Context.Namespace, "node", &node, "state", &of), o.printTasks)
	cmd.PreRunE = aState(&of)
	cmd.Flags().StringVar(&node, "node", "", "Only tasks on this node")
	cmd.Flags().StringVar(&of, "state", "", "Only tasks in this state: "+strings.Join(states, ", "))
	must(cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.RegisterFlagCompletionFunc("node", o.completeNodes))
	return cmd
}

// aState refuses a state that no task can have: it would find none, for ever.
func aState(of *string) func(*cobra.Command, []string) error {
	return func(*cobra.Command, []string) error {
		if *of != "" && !slices.Contains(states, *of) {
			return fmt.Errorf("--state is %q, it must be one of: %s", *of, strings.Join(states, ", "))
		}
		return nil
	}
}

var states = []string{"Claimed", "Launching", "Unclear", "Restored", "Starting", "Running", "Unreachable", "Unheld", "Terminal"}

func (o *options) printTasks(list *v1.TaskList) error {
	header := []string{"NAMESPACE", "POD", "STATE", "SINCE", "NODE", "RESOURCES", "MESOS"}
	if o.wide() {
		header = append(header, "ROLE", "TASK", "EXECUTOR", "AGENT", "ATTEMPTS")
	}
	var rows [][]cell
	for i := range list.Items {
		t := &list.Items[i]
		row := []cell{
			text("%s", t.Namespace), text("%s", t.Name), state(t.State), text("%s", o.age(t.StateSince)), text("%s", t.Node),
			text("%s", withPorts(t.Amounts, t.Ports)), text("%s", says(t.Status, t.Reason, "")),
		}
		if o.wide() {
			row = append(row, text("%s", t.Role), text("%s", t.TaskID), text("%s", t.ExecutorID), text("%s", t.AgentID), text("%d", t.Attempts))
		}
		rows = append(rows, row)
	}
	return o.list("No pod holds Mesos resources.", list.List, header, rows)
}

func withPorts(a v1.Amounts, ports []int32) string {
	s := a.String()
	if len(ports) > 0 {
		s += ";ports:" + strings.ReplaceAll(strings.Trim(fmt.Sprint(ports), "[]"), " ", ",")
	}
	return s
}

// says writes what Mesos said in one line.
func says(status, reason, message string) string {
	out := status
	if reason != "" {
		out = strings.TrimSpace(out + " (" + reason + ")")
	}
	if message != "" {
		if out != "" {
			out += ": "
		}
		out += message
	}
	return out
}

func (o *options) podsCommand() *cobra.Command {
	return show(o, &cobra.Command{
		Use: "pods", Aliases: []string{"waiting"}, Short: "List the pods that wait for Mesos offers, and why",
		Example: "  kubectl mesos pods",
	}, "/pods", filter("namespace", &o.overrides.Context.Namespace), o.printPods)
}

func (o *options) printPods(list *v1.PodList) error {
	header := []string{"NAMESPACE", "POD", "WAITS", "PRIORITY", "ROLE", "NEEDS", "REASON"}
	if o.wide() {
		header = append(header, "MESSAGE")
	}
	var rows [][]cell
	for i := range list.Items {
		p := &list.Items[i]
		row := []cell{
			text("%s", p.Namespace), text("%s", p.Name), text("%s", o.age(p.Since)), text("%d", p.Priority), text("%s", p.Role),
			text("%s", withPorts(p.Need, p.Ports)), {orDash(p.Reason), doubt},
		}
		if o.wide() {
			row = append(row, text("%s", p.Message))
		}
		rows = append(rows, row)
	}
	return o.list("No pod waits for Mesos offers.", list.List, header, rows)
}

func (o *options) eventsCommand() *cobra.Command {
	return show(o, &cobra.Command{
		Use: "events", Short: "List what happened lately",
		Example: "  kubectl mesos events",
	}, "/events", func(q url.Values) { q.Set("limit", "200") }, func(list *v1.EventList) error {
		var rows [][]cell
		for i := range list.Items {
			e := &list.Items[i]
			pod := e.Pod
			if pod != "" {
				pod = e.Namespace + "/" + pod
			}
			rows = append(rows, []cell{text("%s", e.Time.Local().Format(time.TimeOnly)), text("%s", pod), text("%s", e.What), state(e.State), text("%s", e.Node), text("%s", says(e.Status, e.Reason, e.Message))})
		}
		return o.list("Nothing has happened.", list.List, []string{"TIME", "POD", "WHAT", "STATE", "NODE", "MESSAGE"}, rows)
	})
}
