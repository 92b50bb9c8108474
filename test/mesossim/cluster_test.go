// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"go.uber.org/goleak"
)

func TestSyntheticTaskLivesAndDies(t *testing.T) {
	c := startCluster(t, Options{Agents: syntheticAgents(2), Timing: fastTiming()})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	offers := f.offers()
	if len(offers) != 2 {
		t.Fatalf("%d offers, want one an agent", len(offers))
	}
	f.launch(offers[0], executorInfo("x", "true"), "t1", "t2")
	seen := map[string][]string{}
	for range 4 {
		status := f.update()
		seen[value(status["task_id"])] = append(seen[value(status["task_id"])], status["state"].(string))
		f.ack(status)
	}
	for _, name := range []string{"t1", "t2"} {
		if got := strings.Join(seen[name], " "); got != "TASK_STARTING TASK_RUNNING" {
			t.Errorf("%s: %s", name, got)
		}
	}
	f.call("KILL", obj{"task_id": id("t1"), "agent_id": offers[0]["agent_id"]})
	status := f.update()
	if status["state"] != "TASK_KILLED" {
		t.Fatalf("after KILL: %v", status)
	}
	f.ack(status)
	if err := c.Wait(t.Context(), func() bool { return len(c.LiveTasks()) == 1 }); err != nil {
		t.Fatal(err)
	}
	task, ok := c.Task("t1")
	if !ok || task.State != mesos.TASK_KILLED || !task.Removed || len(task.History) != 4 {
		t.Errorf("record of t1: %+v", task)
	}
	for _, transition := range task.History[1:] {
		if !transition.Delivered || !transition.Acknowledged {
			t.Errorf("transition %+v: want delivered and acknowledged", transition)
		}
	}
	f.call("TEARDOWN", nil)
	if event := f.next(""); event != nil {
		for ; event != nil; event = f.next("") {
			if event["type"] != "OFFERS" {
				t.Errorf("event after TEARDOWN: %v", event)
			}
		}
	}
	if n := c.CountLive(); n != 0 {
		t.Errorf("%d live tasks after TEARDOWN", n)
	}
}

func TestExecutorProcessDiesWithTheCluster(t *testing.T) {
	c := startCluster(t, Options{Agents: []AgentOptions{{Name: "agent-1"}}, Timing: fastTiming()})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	f.launch(f.offers()[0], executorInfo("x", "sleep 1000 & env > environment; sleep 1000"), "t1")
	if err := c.Wait(t.Context(), func() bool {
		e := c.Executors()
		return len(e) == 1 && e[0].Pid > 0
	}); err != nil {
		t.Fatal(err)
	}
	e := c.Executors()[0]
	if _, err := os.Stat(e.Directory); err != nil {
		t.Error(err)
	}
	if n := groupSize(t, e.Pid); n == 0 {
		t.Fatal("the executor's process group does not exist")
	}
	c.Close()
	if n := groupSize(t, e.Pid); n != 0 {
		t.Errorf("%d processes of the executor's group are left after Close", n)
	}
}

// groupSize counts the members of a process group that are not zombies.
func groupSize(t *testing.T, group int) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:])) // state ppid pgrp ...
		if len(fields) > 2 && fields[0] != "Z" && fields[0] != "X" && fields[2] == strconv.Itoa(group) {
			n++
		}
	}
	return n
}

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"), goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreTopFunction("internal/poll.runtime_pollWait")); err != nil {
			println("leaked goroutines: " + err.Error())
			code = 1
		}
	}
	if recordedTally.all.Load()+describedTally.all.Load() > 0 {
		fmt.Printf("conformance: %s recorded, %s described\n", &recordedTally, &describedTally)
	}
	os.Exit(code)
}
