// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// The executor tells the scheduler what its agent has, at each subscription: the agent may have been started with more.
func TestReport(t *testing.T) {
	h := newHost(t)
	has := func(cpus float64) {
		h.agent.set(func() {
			h.agent.resources = []mesos.Resource{{Name: "cpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: cpus}}}
		})
	}
	told := func(cpus int64) {
		t.Helper()
		want := string(taskinfo.Report{CPUs: cpus}.Marshal())
		h.agent.await("a report of "+want, func() bool {
			h.agent.mu.Lock()
			defer h.agent.mu.Unlock()
			return slices.Contains(h.agent.messages, want)
		})
	}
	has(4)
	h.start()
	told(4000)
	has(8)
	h.agent.disconnect()
	told(8000)
	// An agent that does not take it does not keep the executor from its work.
	h.agent.set(func() {
		h.agent.refuse = func(call *executor.Call) (int, string) {
			if call.Type == executor.Call_MESSAGE {
				return 501, ""
			}
			return 0, ""
		}
	})
	h.agent.disconnect()
	h.agent.awaitSubscribed(3)
	h.agent.launch(task("u1", "a"))
	h.agent.awaitStates("u1.1", starting)
}
