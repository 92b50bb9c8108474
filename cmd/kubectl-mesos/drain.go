// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
)

// drainPoll is the time between looks at what is left, and between attempts to evict a pod that a budget protects.
const drainPoll = 2 * time.Second

type drainOptions struct {
	*options
	limit    time.Duration
	dryRun   bool
	master   masterOptions
	grace    time.Duration
	markGone bool
}

func (o *options) drainCommand() *cobra.Command {
	d := &drainOptions{options: o}
	cmd := &cobra.Command{
		Use: "drain AGENT", Short: "Empty an agent of our pods, honouring disruption budgets, and then drain it in Mesos",
		Long: `Empty an agent: cordon its node, evict the pods on it whose resources Mesos tasks hold, and wait until their tasks have
ended. Evictions honour PodDisruptionBudgets, which Mesos does not know: so do this before Mesos drains the agent. With
--master, Mesos is then asked to drain it (DRAIN_AGENT) with the principal and the secret that you give.

AGENT is an agent's id, its host name or its node. All requests are made with your own credentials: you need the rights to
patch nodes and to create pods/eviction. kubectl uncordon ends it on the side of Kubernetes, REACTIVATE_AGENT on Mesos'.`,
		Example: `  # What would be evicted?
  kubectl mesos drain host-1 --dry-run

  # Empty host-1, then have Mesos drain it too
  kubectl mesos drain host-1 --master http://mesos-master:5050 --principal ops --secret-file ~/.mesos-secret`,
		Args: exactly("AGENT"), ValidArgsFunction: o.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error { return d.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.DurationVar(&d.limit, "timeout", 0, "How long to try; 0 means until done or interrupted")
	f.BoolVar(&d.dryRun, "dry-run", false, "Only say what would be done")
	f.StringVar(&d.master.url, "master", "", "Address of a Mesos master that is asked to drain the agent after its pods have gone, such as http://mesos-master:5050")
	f.StringVar(&d.master.principal, "principal", "", "Principal for the master")
	f.StringVar(&d.master.secretFile, "secret-file", "", "File with the principal's secret")
	f.StringVar(&d.master.caFile, "master-ca-file", "", "File with the certificate authorities of an https master; the system's if empty")
	f.DurationVar(&d.grace, "max-grace-period", 0, "Longest grace that Mesos gives tasks that are left; 0 means their own")
	f.BoolVar(&d.markGone, "mark-gone", false, "Have Mesos mark the agent as gone for ever when it is drained")
	return cmd
}

func (d *drainOptions) check(cmd *cobra.Command) error {
	if d.limit < 0 {
		return fmt.Errorf("--timeout is %s, it must not be negative", d.limit)
	}
	if d.grace < 0 {
		return fmt.Errorf("--max-grace-period is %s, it must not be negative", d.grace)
	}
	if d.master.url == "" {
		for _, name := range []string{"principal", "secret-file", "master-ca-file", "max-grace-period", "mark-gone"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s is for Mesos' own drain: say with --master which master to ask", name)
			}
		}
	}
	return d.master.check()
}

func (d *drainOptions) run(cmd *cobra.Command, arg string) error {
	ctx := cmd.Context()
	if err := d.check(cmd); err != nil {
		return err
	}
	if d.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d.limit, fmt.Errorf("not done within %s", d.limit))
		defer cancel()
	}
	c, err := d.connect(ctx, false)
	if err != nil {
		return err
	}
	agent, err := findAgent(ctx, c, arg)
	if err != nil {
		return err
	}
	_, kube, err := d.kubernetes()
	if err != nil {
		return err
	}
	if d.dryRun {
		tasks, err := tasksOf(ctx, c, agent.ID)
		if err != nil {
			return err
		}
		fmt.Fprintf(d.out, "would cordon node %s and evict %d pods\n", agent.Node, len(tasks))
		for i := range tasks {
			fmt.Fprintf(d.out, "would evict pod %s/%s\n", tasks[i].Namespace, tasks[i].Name)
		}
		if d.master.url != "" {
			fmt.Fprintf(d.out, "would ask %s to drain agent %s\n", d.master.url, agent.ID)
		}
		return nil
	}
	if err := d.cordon(ctx, kube, agent.Node); err != nil {
		return err
	}
	if err := d.evictAll(ctx, kube, c, agent); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "agent %s on node %s holds no task of ours any more\n", agent.ID, agent.Node)
	if d.master.url == "" {
		return nil
	}
	if err := d.master.drain(ctx, agent.ID, d.grace, d.markGone); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "asked %s to drain agent %s\n", d.master.url, agent.ID)
	return nil
}

// findAgent finds the one agent that an id, a host name or a node names.
func findAgent(ctx context.Context, c *client, arg string) (*v1.Agent, error) {
	var list v1.AgentList
	if err := c.get(ctx, "/agents", url.Values{"limit": {"20000"}}, &list); err != nil {
		return nil, err
	}
	var found []*v1.Agent
	for i := range list.Items {
		a := &list.Items[i]
		if a.ID == arg {
			return a, nil
		}
		if (a.Node == arg || a.Hostname == arg) && !a.Gone {
			found = append(found, a)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no agent is known with the id, host name or node %q; kubectl mesos agents lists them", arg)
	case 1:
		return found[0], nil
	}
	ids := make([]string, len(found))
	for i, a := range found {
		ids[i] = a.ID
	}
	return nil, fmt.Errorf("several agents are on %q, name one by its id: %s", arg, strings.Join(ids, ", "))
}

func (d *drainOptions) cordon(ctx context.Context, kube kubernetes.Interface, node string) error {
	if node == "" {
		return errors.New("no node is known for that agent")
	}
	_, err := kube.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cordon node %s: %w", node, err)
	}
	fmt.Fprintf(d.out, "node %s cordoned\n", node)
	return nil
}

func tasksOf(ctx context.Context, c *client, agentID string) ([]v1.Task, error) {
	var list v1.TaskList
	err := c.get(ctx, "/tasks", url.Values{"limit": {"20000"}, "agent": {agentID}}, &list)
	return list.Items, err
}

// evictAll evicts until the agent has no task of ours.
func (d *drainOptions) evictAll(ctx context.Context, kube kubernetes.Interface, c *client, agent *v1.Agent) error {
	evicted := map[string]bool{}
	said := ""
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	for {
		tasks, err := tasksOf(ctx, c, agent.ID)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			return nil
		}
		var blocked []string
		for i := range tasks {
			t := &tasks[i]
			if evicted[t.UID] || !t.PodGone.IsZero() {
				continue
			}
			switch err := evict(ctx, kube, t); {
			case err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err):
				evicted[t.UID] = true
				fmt.Fprintf(d.out, "pod %s/%s evicted\n", t.Namespace, t.Name)
			case apierrors.IsTooManyRequests(err):
				blocked = append(blocked, fmt.Sprintf("%s/%s (%s)", t.Namespace, t.Name, err))
			default:
				return fmt.Errorf("evict pod %s/%s: %w", t.Namespace, t.Name, err)
			}
		}
		slices.Sort(blocked)
		if now := strings.Join(blocked, ", "); now != said {
			said = now
			if now != "" {
				fmt.Fprintf(d.errOut, "waiting for a disruption budget: %s\n", now)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %d tasks are left on agent %s", context.Cause(ctx), len(tasks), agent.ID)
		}
	}
}

func evict(ctx context.Context, kube kubernetes.Interface, t *v1.Task) error {
	uid := types.UID(t.UID)
	return kube.PolicyV1().Evictions(t.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
}
