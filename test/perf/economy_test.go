// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// TestEconomy measures what a second framework has of us while both want everything, and what we hold and ask for. Our tasks
// end after two seconds and others take their place; the rival takes one task an offer, which stays. fair is half of the
// cluster: both have one role of weight 1.
func TestEconomy(t *testing.T) {
	const agents, cpus = 50, 8
	life := []mesossim.Step{{State: mesos.TASK_STARTING}, {State: mesos.TASK_RUNNING}, {After: 2 * time.Second, State: mesos.TASK_FINISHED}}
	sim, nodes := startScripted(t, agents, fmt.Sprintf("cpus:%d;mem:16384;disk:100000;ports:[31000-32000]", cpus), mesossim.Script{
		For: func(task *mesos.TaskInfo) (mesossim.Script, bool) {
			return mesossim.Script{Launch: life}, strings.HasPrefix(task.GetExecutor().GetExecutorID().Value, "kube-mesos")
		},
	})
	c := startCore(t, sim.URL(), &memoryIdentity{}, nodes, nil)
	c.ended = make(chan types.UID, 1<<16)

	// Busy: twice as many pods of one cpu wait at any time as the whole cluster holds.
	need := resources.Need{Amounts: resources.Amounts{CPUs: 1000, Mem: 128_000}, Role: role}
	var pods []*v1.Pod
	begun, revives := time.Now(), sim.Counters().Calls["REVIVE"]
	try := func(pod *v1.Pod) {
		if _, held := c.book.Task(pod.UID); held || !c.place(pod, need) {
			return // it waits; the economy wakes it when an offer can hold it
		}
		go func() {
			if task, err := c.launcher.Launch(c.ctx, pod.UID); err == nil {
				c.book.Bound(pod.UID, task.ID)
			} else {
				c.book.Release(pod.UID)
			}
		}()
	}
	more := func() {
		pod := barePod(len(pods))
		pods = append(pods, pod)
		try(pod)
	}
	for range agents * cpus * 2 {
		more()
	}
	rival, err := sim.StartRival(t.Context(), mesossim.RivalOptions{Role: "rival"})
	if err != nil {
		t.Fatal(err)
	}
	const busy = 15 * time.Second
	end := time.After(busy)
	ended := 0
loop:
	for {
		select {
		case pod := <-c.woken:
			try(pod)
		case <-c.ended:
			ended++
			more()
		case <-end:
			break loop
		}
	}
	minutes := time.Since(begun).Minutes()
	perMinute := float64(sim.Counters().Calls["REVIVE"]-revives) / minutes
	theirs := float64(rival.Live())
	declines := sim.Counters().Calls["DECLINE"]
	share := min(1, theirs/(float64(agents*cpus)/2))
	rival.Stop()

	// Idle: nothing waits any more.
	for _, pod := range pods {
		if _, held := c.book.Task(pod.UID); !held {
			c.book.NotWaiting(pod.UID)
		}
	}
	await(t, "suppression", func() bool { return c.session.Suppressed(role) })
	held := 0
	for _, o := range sim.Offers() {
		if o.Role == role {
			held++
		}
	}
	fmt.Printf("economy: idle-held=%d idle-suppressed=%t other-share=%.2f revives-per-min=%.0f\n", held, c.session.Suppressed(role), share, perMinute)
	t.Logf("the rival holds %v of %d cpus; %d of our tasks have ended; %d DECLINE calls of both", theirs, agents*cpus, ended, declines)
}
