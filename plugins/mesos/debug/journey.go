// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/history"
	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
)

// pod answers /pods/NAMESPACE/NAME.
func (s *Server) pod(r *http.Request) (any, error) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	pod, err := s.options.Pods.Pods(namespace).Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	journey, known := s.options.History.Pod(namespace, name)
	switch {
	case pod == nil && !known:
		return nil, problem(http.StatusNotFound, "no pod %s/%s is known: it does not exist, or it ended before this scheduler began to lead or long ago", namespace, name)
	case pod != nil && !s.options.Ours(pod.Spec.SchedulerName):
		return nil, problem(http.StatusNotFound, "pod %s/%s names the scheduler %q: Mesos has nothing to do with it", namespace, name, pod.Spec.SchedulerName)
	case pod != nil && journey.UID != pod.UID:
		journey = history.Journey{UID: pod.UID, Namespace: namespace, Name: name, Created: pod.CreationTimestamp.Time}
	}
	out := v1.Pod{
		Kind: kind("Pod"), Namespace: namespace, Name: name, UID: string(journey.UID), Created: journey.Created,
		Steps: journey.Steps, OmittedSteps: journey.Omitted,
	}
	if out.Steps == nil {
		out.Steps = []v1.Step{}
	}
	if t, ok := s.options.Ledger.Task(journey.UID); ok {
		task := taskOf(&t)
		out.Task, out.Role, out.Need, out.Ports = &task, t.Need.Role, task.Amounts, t.Need.Ports
	}
	if w := s.waiting(journey.UID); w != nil {
		waits := waitingOf(w)
		waits.Reason = s.reasons([]ledger.Waiting{*w}).of(w)
		waits.Message = s.options.Explain(s.options.Ledger.Snapshot(), w.Pod, w.Need, s.options.Clock.Now())
		out.Waiting, out.Role, out.Need, out.Ports = &waits, w.Need.Role, waits.Need, w.Need.Ports
		out.Verdicts = s.verdicts(w)
	}
	out.Summary = summary(&out, pod)
	return out, nil
}

func (s *Server) waiting(uid types.UID) *ledger.Waiting {
	queue := s.options.Ledger.Queue()
	if i := slices.IndexFunc(queue, func(w ledger.Waiting) bool { return w.Pod.UID == uid }); i >= 0 {
		return &queue[i]
	}
	return nil
}

// verdicts says for each node of the cluster what a waiting pod lacks there, the nearest fit first.
func (s *Server) verdicts(w *ledger.Waiting) []v1.Verdict {
	nodes, err := s.options.Nodes.List(labels.Everything())
	if err != nil {
		return nil
	}
	snapshot, now := s.options.Ledger.Snapshot(), s.options.Clock.Now()
	type ranked struct {
		v1.Verdict
		share float64
	}
	all := make([]ranked, 0, len(nodes))
	for _, node := range nodes {
		view := snapshot.Node(node.Name)
		reason := view.Why(w.Need, s.options.Lead, now)
		v := ranked{Verdict: v1.Verdict{Node: node.Name, Fits: reason == ledger.Fits, Why: string(reason), Matches: s.options.Match(w.Pod, node.Name)}}
		if view != nil {
			offered, free, _ := view.Room(w.Need)
			v.AgentID, v.Offered, v.Free = view.AgentID, amountsOf(offered), amountsOf(free)
			last, at := view.LastOffer(w.Need)
			v.LastOffered, v.LastOfferedAt = amountsOf(last), at
			v.share = share(amountsOf(w.Need.Amounts), v.Free)
			if view.Offers == 0 {
				v.share = share(amountsOf(w.Need.Amounts), v.LastOffered)
			}
			if len(w.Need.Ports) > 0 {
				v.FreePorts = portsOf(view.Ports(w.Need))
			}
		}
		all = append(all, v)
	}
	rank := func(v *ranked) float64 {
		score := v.share
		if v.Fits {
			score += 4
		}
		if v.Matches {
			score += 2
		}
		return score
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(rank(&b), rank(&a)), strings.Compare(a.Node, b.Node))
	})
	out := make([]v1.Verdict, len(all))
	for i := range all {
		out[i] = all[i].Verdict
	}
	return out
}

// share is how much of the scarcest resource is there, from 0 to 1.
func share(need, free v1.Amounts) float64 {
	least := 1.0
	for _, r := range [][2]float64{{need.CPUs, free.CPUs}, {need.Mem, free.Mem}, {need.Disk, free.Disk}, {need.GPUs, free.GPUs}} {
		if r[0] > 0 {
			least = min(least, max(r[1], 0)/r[0])
		}
	}
	return least
}

// summary says in one sentence where a pod is.
func summary(p *v1.Pod, pod *corev1.Pod) string {
	switch t := p.Task; {
	case t != nil && !t.KillSince.IsZero():
		return fmt.Sprintf("its Mesos task %s is being killed (%s)", t.TaskID, t.State)
	case t != nil && !t.PodGone.IsZero():
		return fmt.Sprintf("the pod is gone; its Mesos task %s is about to end (%s)", t.TaskID, t.State)
	case t != nil && t.State == "Unheld":
		return fmt.Sprintf("runs on node %s without a Mesos task: its last one was lost, and a new one is being launched", t.Node)
	case t != nil && t.State == "Unreachable":
		return fmt.Sprintf("the Mesos master cannot reach the agent of node %s; the pod is kept", t.Node)
	case t != nil && t.State == "Claimed":
		return fmt.Sprintf("its resources are claimed on node %s; the task is about to be launched", t.Node)
	case t != nil && !t.Bound:
		return fmt.Sprintf("its Mesos task %s on node %s is %s; the pod is bound when the executor has it", t.TaskID, t.Node, t.State)
	case t != nil:
		return fmt.Sprintf("Mesos task %s holds its resources on node %s (%s)", t.TaskID, t.Node, t.State)
	case p.Waiting != nil && p.Waiting.Message != "":
		return p.Waiting.Message
	case p.Waiting != nil:
		return p.Waiting.Reason
	case pod == nil:
		return "the pod is gone, and nothing holds resources for it"
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return fmt.Sprintf("the pod is complete (%s), and nothing holds resources for it", pod.Status.Phase)
	case pod.Spec.NodeName != "":
		return fmt.Sprintf("bound to node %s by somebody else, without a Mesos task: it uses room that Mesos may give away", pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Sprintf("held back by its scheduling gate %s", pod.Spec.SchedulingGates[0].Name)
	}
	return "not tried yet, or refused before Mesos was asked: see the pod's condition PodScheduled"
}
