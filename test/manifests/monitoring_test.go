// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAlertRules runs the tests of the alert rules and of the dashboard, with Prometheus' own engine in a module of its own.
func TestAlertRules(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "./...")
	cmd.Dir = "../monitoring"
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
