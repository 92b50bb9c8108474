// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/tools/clientcmd"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
)

func (o *options) podCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pod NAMESPACE/NAME", Short: "Show one pod's journey, and what it waits for on each node",
		Long: "Show one pod's journey with times: what it needs, its claims, its task's states with Mesos' reasons; for a pod that\nwaits, what each node lacks.",
		Example: `  kubectl mesos pod default/web-0

  # A name alone is looked for in the current namespace
  kubectl mesos pod web-0`,
		Args:              exactly("NAMESPACE/NAME"),
		ValidArgsFunction: o.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, err := o.podName(args[0])
			if err != nil {
				return err
			}
			ctx, cancel := o.limited(cmd)
			defer cancel()
			c, err := o.connect(ctx, false)
			if err != nil {
				return err
			}
			var pod v1.Pod
			if err := c.get(ctx, "/pods/"+url.PathEscape(namespace)+"/"+url.PathEscape(name), nil, &pod); err != nil {
				return err
			}
			if done, err := o.structured(&pod); done {
				return err
			}
			return o.printPod(&pod)
		},
	}
}

// exactly wants one argument and says which.
func exactly(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("give exactly one %s, not %d: %s --help has examples", what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

func (o *options) podName(arg string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(arg, "/")
	if !ok {
		name = arg
		namespace = "default"
		if o.server == "" || o.overrides.Context.Namespace != "" {
			if namespace, _, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(o.rules, &o.overrides).Namespace(); err != nil {
				return "", "", err
			}
		}
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", errors.New("a pod is named NAMESPACE/NAME, such as default/web-0, not " + arg)
	}
	return namespace, name, nil
}

func (o *options) printPod(p *v1.Pod) error {
	rows := [][2]cell{
		{text("Pod"), text("%s/%s (%s)", p.Namespace, p.Name, p.UID)},
		{text("State"), {strings.Map(printable, p.Summary), strong}},
	}
	if p.Need != (v1.Amounts{}) {
		rows = append(rows, [2]cell{text("Needs"), text("%s as Mesos role %s", withPorts(p.Need, p.Ports), p.Role)})
	}
	if w := p.Waiting; w != nil {
		rows = append(rows, [2]cell{text("Waits"), text("for %s: %s", o.age(w.Since), w.Reason)})
	}
	if t := p.Task; t != nil {
		rows = append(rows, [2]cell{text("Task"), text("%s (%s for %s)", orDash(t.TaskID), t.State, o.age(t.StateSince))},
			[2]cell{text("Node"), text("%s, agent %s", t.Node, t.AgentID)})
		if t.Status != "" {
			rows = append(rows, [2]cell{text("Mesos says"), text("%s", says(t.Status, t.Reason, t.Message))})
		}
	}
	if err := o.fields(rows); err != nil {
		return err
	}
	if len(p.Steps) > 0 {
		if err := o.printSteps(p); err != nil {
			return err
		}
	}
	if len(p.Verdicts) == 0 {
		return nil
	}
	fmt.Fprintln(o.out)
	header := []string{"NODE", "VERDICT", "FREE", "OFFERED", "LAST OFFER"}
	if o.wide() {
		header = append(header, "PORTS", "AGENT")
	}
	verdicts := make([][]cell, 0, len(p.Verdicts))
	for i := range p.Verdicts {
		v := &p.Verdicts[i]
		why := cell{v.Why, doubt}
		switch {
		case !v.Matches && v.Fits:
			why.text = "the pod's selector, affinity or tolerations exclude it"
		case !v.Matches:
			why.text += "; the pod's selector, affinity or tolerations exclude it"
		case v.Fits:
			why = cell{"fits", good}
		}
		row := []cell{text("%s", v.Node), why, text("%s", v.Free), text("%s", v.Offered), text("%s", lastOffer(o, v.LastOffered, v.LastOfferedAt))}
		if o.wide() {
			row = append(row, text("%s", v.FreePorts), text("%s", v.AgentID))
		}
		verdicts = append(verdicts, row)
	}
	return o.table(header, verdicts)
}

func (o *options) printSteps(p *v1.Pod) error {
	fmt.Fprintln(o.out)
	var rows [][]cell
	last := p.Created
	omitted := p.OmittedSteps
	for i, s := range p.Steps {
		if omitted > 0 && i == len(p.Steps)-24 {
			rows = append(rows, []cell{text(""), text(""), text("%d steps left out", omitted), text(""), text("")})
		}
		after := ""
		if !last.IsZero() {
			after = "+" + short(max(0, s.Time.Sub(last)))
		}
		what := cell{s.What, plain}
		if s.What == "state" {
			what = state(s.State)
		}
		rows = append(rows, []cell{text("%s", s.Time.Local().Format("15:04:05.000")), text("%s", after), what, text("%s", s.Node), text("%s", says(s.Status, s.Reason, s.Message))})
		last = s.Time
	}
	return o.table([]string{"TIME", "AFTER", "STEP", "NODE", "MESSAGE"}, rows)
}

// short writes a duration with what matters of it.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return duration.HumanDuration(d)
}

// lastOffer says what an offer held and how long ago it came.
func lastOffer(o *options, a v1.Amounts, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return a.String() + ", " + o.age(at) + " ago"
}
