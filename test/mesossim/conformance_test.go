// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// tally counts scenarios for the line that ends a conformance run.
type tally struct{ passed, all atomic.Int64 }

var recordedTally, describedTally tally

func (c *tally) String() string { return fmt.Sprintf("%d of %d", c.passed.Load(), c.all.Load()) }

// seeds are tried one after the other: in which order a master offers its agents is random, and some recordings depend
// on it.
const seeds = 24

// TestConformanceInProtobuf replays the recordings, which are of JSON, with frameworks that speak protobuf. Four cannot
// be: C1 is protobuf itself, C2 is about the choice between the two, and C10 and P7 use offer constraints, which mesos-go's
// messages do not have.
func TestConformanceInProtobuf(t *testing.T) {
	for _, rec := range loadRecordings(t) {
		if slices.Contains([]string{"C1", "C2", "C10", "P7"}, rec.ID) {
			continue
		}
		t.Run(rec.ID, func(t *testing.T) {
			t.Parallel()
			var best []string
			reached := -1
			for seed := int64(1); seed <= seeds; seed++ {
				failed, at := replayAs(t, rec, seed, true)
				if len(failed) == 0 {
					return
				}
				if at > reached {
					best, reached = failed, at
				}
			}
			t.Errorf("%s: the replay differs from the recording:\n%s", rec.Title, strings.Join(best, "\n"))
		})
	}
}

// TestConformanceRecorded replays every recording of a real Mesos 1.12 master, none left out.
func TestConformanceRecorded(t *testing.T) {
	for _, rec := range loadRecordings(t) {
		t.Run(rec.ID, func(t *testing.T) {
			t.Parallel()
			recordedTally.all.Add(1)
			var best []string // of the try that came furthest
			reached := -1
			for seed := int64(1); seed <= seeds; seed++ {
				failed, at := replayOnce(t, rec, seed)
				if len(failed) == 0 {
					recordedTally.passed.Add(1)
					return
				}
				if at > reached {
					best, reached = failed, at
				}
			}
			t.Errorf("%s: the replay differs from the recording:\n%s", rec.Title, strings.Join(best, "\n"))
		})
	}
}
