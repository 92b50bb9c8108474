// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"fmt"
	"os"
	"testing"

	schedulerperf "k8s.io/kubernetes/test/integration/scheduler_perf"

	_ "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/scheme" // MesosArgs, for kube-scheduler's decoder
)

func TestMain(m *testing.M) {
	if err := schedulerperf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
