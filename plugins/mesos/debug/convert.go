// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

func amountsOf(a resources.Amounts) v1.Amounts {
	return v1.Amounts{CPUs: float64(a.CPUs) / 1000, Mem: float64(a.Mem) / 1000, Disk: float64(a.Disk) / 1000, GPUs: float64(a.GPUs) / 1000}
}

func offerOf(o ledger.OfferInfo) v1.Offer {
	return v1.Offer{
		ID: o.ID, AgentID: o.AgentID, Node: o.Node, Role: o.Role, AgeSeconds: o.Age.Seconds(), Amounts: amountsOf(o.Regular),
		Revocable: amountsOf(o.Revocable), Ports: portsOf(o.Ports), Claimed: o.Claimed, Trouble: string(o.Trouble),
	}
}

func portsOf(p resources.PortSet) string {
	if len(p) == 0 {
		return ""
	}
	return p.String()
}

func agentOf(a *ledger.AgentInfo, running resources.Amounts) v1.Agent {
	out := v1.Agent{
		ID: a.ID, Hostname: a.Hostname, Node: a.Node, Serves: a.Serves, Trouble: string(a.Trouble), Gone: a.Gone,
		MaintenanceStart: a.Unavailable.Start, MaintenanceSeconds: a.Unavailable.Duration.Seconds(),
		Offers: a.Offers, Tasks: a.Tasks, Running: amountsOf(running), Attributes: attributesOf(a.Attributes),
	}
	out.Most = amountsOf(a.Most)
	if d := a.Domain.GetFaultDomain(); d != nil {
		out.Region, out.Zone = d.Region.Name, d.Zone.Name
	}
	var offered, claimed, last resources.Amounts
	for _, p := range a.Pools {
		offered, claimed, last = offered.Add(p.Offered), claimed.Add(p.Claimed), last.Add(p.Last)
		if p.LastAt.After(out.LastOfferedAt) {
			out.LastOfferedAt = p.LastAt
		}
		out.Pools = append(out.Pools, v1.Pool{
			Role: p.Role, Revocable: p.Revocable, Offered: amountsOf(p.Offered), Claimed: amountsOf(p.Claimed),
			Headroom: amountsOf(p.Headroom), Ports: portsOf(p.Ports), Executor: p.Executor,
		})
	}
	out.Offered, out.Claimed, out.LastOffered = amountsOf(offered), amountsOf(claimed), amountsOf(last)
	return out
}

func attributesOf(attributes []mesos.Attribute) map[string]string {
	if len(attributes) == 0 {
		return nil
	}
	out := make(map[string]string, len(attributes))
	for i := range attributes {
		a := &attributes[i]
		switch {
		case a.Text != nil:
			out[a.Name] = a.Text.Value
		case a.Scalar != nil:
			out[a.Name] = strconv.FormatFloat(a.Scalar.Value, 'f', -1, 64)
		case a.Set != nil:
			out[a.Name] = "{" + strings.Join(a.Set.Item, ",") + "}"
		case a.Ranges != nil:
			var parts []string
			for _, r := range a.Ranges.Range {
				parts = append(parts, strconv.FormatUint(r.Begin, 10)+"-"+strconv.FormatUint(r.End, 10))
			}
			out[a.Name] = "[" + strings.Join(parts, ",") + "]"
		}
	}
	return out
}

func taskOf(t *ledger.Task) v1.Task {
	out := v1.Task{
		Namespace: t.Namespace, Name: t.Name, UID: string(t.UID), State: t.State.String(), StateSince: t.ChangedAt, TaskID: t.ID,
		AgentID: t.AgentID, ExecutorID: t.ExecutorID, Node: t.Node, Role: t.Need.Role, Amounts: amountsOf(t.Need.Amounts), Ports: t.Need.Ports,
		Bound: t.Bound, Attempts: t.Attempts, KillSince: t.KillSince, PodGone: t.PodGone,
	}
	if t.State >= ledger.Starting {
		out.Status, out.Message = t.Last.State.String(), t.Last.Message
		if t.Last.HasWhy {
			out.Reason = t.Last.Reason.String()
		}
	}
	return out
}

func waitingOf(w *ledger.Waiting) v1.WaitingPod {
	return v1.WaitingPod{
		Namespace: w.Pod.Namespace, Name: w.Pod.Name, UID: string(w.Pod.UID), Priority: w.Priority, Since: w.Since, Role: w.Need.Role,
		Need: amountsOf(w.Need.Amounts), Ports: w.Need.Ports,
	}
}
