// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"

	"k8s.io/utils/clock"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// A message counts if it is a report of an executor of ours; anything else is ignored.
func TestMessage(t *testing.T) {
	book := ledger.New(ledger.Options{Clock: clock.RealClock{}, NodeName: func(o *mesos.Offer) string { return o.Hostname }})
	book.AddOffers([]mesos.Offer{{ID: mesos.OfferID{Value: "O1"}, AgentID: mesos.AgentID{Value: "S1"}, Hostname: "n"}})
	s := New(Options{Clock: clock.RealClock{}}, Hooks{}, book)
	ours := taskinfo.ExecutorID{Digest: "0123456789abcdef", Kind: resources.Unreserved, Incarnation: 1}.String()
	report := taskinfo.Report{CPUs: 4000, Mem: 1024_000}.Marshal()
	for _, test := range []struct {
		name, executor string
		data           []byte
		want           string
	}{
		{"of another executor", "default", report, ""},
		{"no report", ours, []byte("hello"), ""},
		{"a report", ours, report, "cpus:4;mem:1024"},
		{"no report any more", ours, nil, "cpus:4;mem:1024"},
	} {
		s.message(t.Context(), &scheduler.Event_Message{AgentID: mesos.AgentID{Value: "S1"}, ExecutorID: mesos.ExecutorID{Value: test.executor}, Data: test.data})
		if got := book.Agents()[0].Total.String(); got != test.want {
			t.Errorf("%s: the agent has %q, want %q", test.name, got, test.want)
		}
	}
	s.message(t.Context(), nil)
}
