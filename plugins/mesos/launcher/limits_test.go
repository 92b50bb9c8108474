// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// TestLimitsAreRefused launches tasks without limits on an agent that enforces none, and with them elsewhere.
func TestLimitsAreRefused(t *testing.T) {
	told := make(chan string, 10)
	f := setUp(t, func(o *Options) { o.OnLimitsRefused = func(_ context.Context, t ledger.Task) { told <- t.AgentID } })
	claim := func(uid, agent string) {
		need := resources.Need{Amounts: resources.Amounts{CPUs: 1000, Mem: 64_000}, Limits: resources.Amounts{CPUs: 2000}, Role: role}
		if err := f.book.Claim(ledger.Pod{UID: types.UID(uid), Name: uid}, need, "node-"+agent); err != nil {
			t.Fatal(err)
		}
	}
	cpus := func(a accept) float64 { return a.tasks[0].Limits["cpus"].Value }
	f.offer("S1")
	claim("a", "S1")
	done := f.launch("a")
	first := f.accept()
	if got := cpus(first); got != 2 {
		t.Errorf("limit %v, want 2", got)
	}
	first.answer <- nil
	f.book.Apply(ledger.Update{TaskID: first.tasks[0].TaskID.Value, AgentID: "S1", Status: ledger.Status{State: mesos.TASK_DROPPED, Source: mesos.SOURCE_AGENT,
		Reason: mesos.REASON_GC_ERROR, HasWhy: true, Message: "CPU limits can only be set on tasks launched in Mesos containers when the agent has loaded the 'cgroups/cpu' isolator"}})
	f.offer("S1")
	second := f.accept()
	if len(second.tasks[0].Limits) > 0 {
		t.Errorf("limits %v after the refusal", second.tasks[0].Limits)
	}
	second.answer <- nil
	f.says(second.tasks[0].TaskID.Value, mesos.TASK_STARTING)
	if got := next(f, time.Millisecond, done); got.err != nil {
		t.Error(got.err)
	}
	f.offer("S1")
	f.offer("S2")
	claim("b", "S1")
	claim("c", "S2")
	f.launch("b")
	f.launch("c")
	for range 2 {
		a := f.accept()
		want := map[string]float64{"S1": 0, "S2": 2}[a.tasks[0].AgentID.Value]
		if got := cpus(a); got != want {
			t.Errorf("limit %v on agent %s, want %v", got, a.tasks[0].AgentID.Value, want)
		}
		a.answer <- nil
	}
	if len(told) != 1 || <-told != "S1" {
		t.Errorf("told %d times", len(told))
	}
}
