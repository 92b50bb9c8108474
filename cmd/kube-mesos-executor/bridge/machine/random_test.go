// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var ranks = map[string]int{"STARTING": 1, "RUNNING": 2, "KILLING": 3, "FINISHED": 4, "FAILED": 4, "KILLED": 4}

// Whatever happens in whatever order: no panic, states only in their order, one final state, and that only when the
// containers had stopped or nobody could know.
func TestRandomSchedules(t *testing.T) {
	const seeds = 400
	for seed := range uint64(seeds) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		r := newRig(t, func(c *Config) {
			if seed%2 == 0 {
				c.ForceDeleteAfter = time.Minute
			}
			c.MaxEnded = 1000
		})
		phases := []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown, ""}
		ids := []string{task, uid + ".2", "x", "x.1", ""}
		var history []string
		last := map[string]int{} // by task; an id that is used again is another task
		for range 200 {
			id := ids[rnd.IntN(len(ids))]
			name := ""
			act := func(text string, s do) { name = text; s(r) }
			switch rnd.IntN(17) {
			case 0:
				act("launch 1", launch())
			case 1:
				act("launch 2", launch(attempt(2)))
			case 2:
				act("garbage", func(r *rig) { r.m.Launch(r.now, Launch{TaskID: id, Data: []byte{byte(rnd.IntN(256))}}) })
			case 3:
				act("kill "+id, killTask(id, time.Duration(rnd.IntN(40)-2)*time.Second))
			case 4, 5, 6:
				p := phases[rnd.IntN(len(phases))]
				var change []func(*Pod)
				if rnd.IntN(3) == 0 {
					change = append(change, deleting(int64(rnd.IntN(60))))
				}
				if rnd.IntN(3) == 0 {
					change = append(change, stoppedContainers)
				}
				act("pod "+string(p), pod(p, change...))
			case 7:
				act("gone", gone())
			case 8, 9:
				c := Cgroup(rnd.IntN(4))
				act(fmt.Sprint("cgroup ", c), cgroup(c))
			case 10:
				act("synced", synced(rnd.IntN(3) > 0))
			case 11, 12:
				act("time", after(time.Duration(rnd.IntN(120))*time.Second))
			case 13:
				act("result", result(DeleteResult(rnd.IntN(3))))
			case 14:
				act("ack", func(r *rig) {
					_, updates := r.m.Unacknowledged()
					if len(updates) > 0 {
						u := updates[rnd.IntN(len(updates))]
						r.m.Acknowledge(u.TaskID, u.UUID)
					}
				})
			case 16:
				act("lookup", []do{absent(), bound(), lookupFails()}[rnd.IntN(3)])
			case 15:
				if rnd.IntN(4) == 0 {
					act("restart", restart())
				} else {
					act("relist", relist())
				}
			}
			history = append(history, name)
			before := len(r.log)
			r.step()
			for _, l := range r.log[before:] {
				history = append(history, "  -> "+l)
				id, state := task, l
				if i := strings.LastIndexByte(l, ' '); i >= 0 {
					id, state = l[:i], l[i+1:]
				}
				rank, isState := ranks[state]
				if !isState {
					continue
				}
				key := fmt.Sprint(id, " ", r.m.tasks[id].Order)
				if rank <= last[key] {
					t.Fatalf("seed %d: task %s goes back to %s:\n%s", seed, key, state, strings.Join(history, "\n"))
				}
				last[key] = rank
				if c := r.m.tasks[id].cgroup.state; state == "FINISHED" && (c == CgroupPopulated || c == CgroupUnknown) {
					t.Fatalf("seed %d: task %s finished while processes may exist:\n%s", seed, key, strings.Join(history, "\n"))
				}
			}
		}
	}
}
