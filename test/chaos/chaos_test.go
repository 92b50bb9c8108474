// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"os"
	"testing"
	"time"
)

// TestChaosFixedSeeds does two short runs of fixed seeds; `make chaos` does more and longer ones.
func TestChaosFixedSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("a run takes a minute")
	}
	dir, err := os.MkdirTemp("", "kube-mesos-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(t.Context(), dir+"/cluster")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log("the logs are in", dir)
		} else {
			_ = os.RemoveAll(dir)
		}
	})
	var result Result
	for _, seed := range []uint64{1, 2} {
		one, err := Run(t.Context(), c, seed, Options{Dir: dir, Length: 12 * time.Second, Out: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		result.Add(one)
	}
	t.Log(result)
	if result.Violations > 0 {
		t.Errorf("%d violations", result.Violations)
	}
}
