// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/history"
	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/session"
)

// Run takes a sample of everything from time to time, for the page and the gauges, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	ticker := s.options.Clock.NewTicker(history.SampleEvery)
	defer ticker.Stop()
	phase := session.Phase("")
	for {
		if now := s.options.Session.Status(); now.Phase != phase {
			s.options.History.Note("", "", "", "Framework", "the framework is "+string(now.Phase)+with(now))
			phase = now.Phase
		}
		s.sample()
		s.warnPorts(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

func with(st session.Status) string {
	switch {
	case st.Problem != "":
		return ": " + st.Problem
	case st.Phase == session.Subscribed:
		return " with " + st.Master + " as " + st.FrameworkID
	}
	return ""
}

func (s *Server) sample() {
	book, now := s.options.Ledger, s.options.Clock.Now()
	var offered, claimed, headroom, running, unheld resources.Amounts
	for _, a := range s.allAgents() {
		for _, p := range a.Pools {
			offered, claimed, headroom = offered.Add(p.Offered), claimed.Add(p.Claimed), headroom.Add(p.Headroom.Max(resources.Amounts{}))
		}
	}
	for _, t := range s.allTasks() {
		switch {
		case t.State.Sent():
			running = running.Add(t.Need.Amounts)
		case t.State == ledger.Unheld:
			unheld = unheld.Add(t.Need.Amounts)
		}
	}
	gauge(offered, "offered")
	gauge(claimed, "claimed")
	gauge(headroom, "headroom")
	gauge(running, "running")
	gauge(unheld, "unheld")
	var oldest time.Duration
	for _, o := range book.Offers() {
		oldest = max(oldest, o.Age)
	}
	metrics.OldestOffer.WithLabelValues().Set(oldest.Seconds())
	lag := 0.0
	if last := s.options.Session.LastEvent(); !last.IsZero() {
		lag = now.Sub(last).Seconds()
	}
	metrics.StreamLag.WithLabelValues().Set(lag)
	metrics.Agents.WithLabelValues().Set(float64(book.AgentCount()))

	queue := book.Queue()
	metrics.WaitingByReason.Reset()
	for reason, n := range s.reasons(queue).count {
		metrics.WaitingByReason.WithLabelValues(reason).Set(float64(n))
	}
	counts := book.Counts()
	s.options.History.Sample(v1.Sample{
		Time: now, Offers: book.Fates().Held, Waiting: len(queue), Running: counts[ledger.Running] + counts[ledger.Starting],
		OfferedCPUs: amountsOf(offered).CPUs, ClaimedCPUs: amountsOf(claimed).CPUs, RunningCPUs: amountsOf(running).CPUs,
	})
}

func gauge(a resources.Amounts, kind string) {
	v := amountsOf(a)
	for name, n := range map[string]float64{resources.CPUs: v.CPUs, resources.Mem: v.Mem, resources.Disk: v.Disk, resources.GPUs: v.GPUs} {
		metrics.Resources.WithLabelValues(name, kind).Set(n)
	}
}

// nodePorts are Kubernetes' default for --service-node-port-range.
var nodePorts = resources.NewPortSet(resources.PortRange{Begin: 30000, End: 32767})

// warnPorts says once that agents offer ports that Kubernetes may give to services: a task and a NodePort could get the same
// number. What range the API server uses cannot be asked.
func (s *Server) warnPorts(ctx context.Context) {
	if s.warned {
		return
	}
	for _, a := range s.allAgents() {
		for _, p := range a.Pools {
			if len(p.Ports.Intersect(nodePorts)) == 0 {
				continue
			}
			s.warned = true
			message := "agents offer ports of Kubernetes' default NodePort range, 30000-32767: unless the API server's --service-node-port-range is another one, a service and a pod or a Mesos task may get the same port; move one of the two ranges"
			klog.FromContext(ctx).Info("Port ranges overlap", "agent", a.ID, "node", a.Node, "ports", p.Ports.String(), "advice", message)
			s.options.History.Note("", "", "", "PortRangesOverlap", message)
			return
		}
	}
}
