// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// TestFrameworkRemoved: somebody tears the framework down. Mesos shuts its executors down, which take their pods along; when
// none is left, the scheduler registers a new framework by itself and goes on.
func TestFrameworkRemoved(t *testing.T) {
	w := newWorld(t, worldOptions{agents: 2})
	w.pod("runs", "500m", "64Mi")
	w.waitRunning("runs")
	old := w.sim.Frameworks()[0].ID

	call := fmt.Sprintf(`{"type":"TEARDOWN","teardown":{"framework_id":{"value":%q}}}`, old)
	response, err := http.Post("http://"+w.sim.URLs()[0]+"/api/v1", "application/json", bytes.NewBufferString(call))
	w.ok(err)
	response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)

	w.waitFor("the pod to be gone", func() error {
		if _, err := w.get("runs"); err == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	w.pod("next", "500m", "64Mi")
	next := w.waitRunning("next")
	require.NotEqual(t, old, next.Annotations[wellknown.FrameworkIDAnnotation])
	out, errs, err := w.kubectlMesos("status", "--server="+w.scheduler.StatusURL)
	require.NoError(t, err, errs)
	require.Contains(t, out, next.Annotations[wellknown.FrameworkIDAnnotation])
	w.settle()
}
