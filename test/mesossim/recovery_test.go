// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"testing"
	"time"
)

// clockUntil advances the clock second by second until the condition holds. Processes run in real time, so after each
// step they are given a moment to be seen.
func clockUntil(t *testing.T, clock *TestClock, c *Cluster, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
		clock.Advance(100 * time.Millisecond)
		time.Sleep(2 * time.Millisecond)
	}
}

func TestAgentRestartBeforeItsExecutorSubscribed(t *testing.T) {
	clock := NewTestClock(time.Unix(1e9, 0))
	c := startCluster(t, Options{Clock: clock, Agents: []AgentOptions{{Name: "agent-1"}}})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	f.launch(f.offers()[0], executorInfo("x", "sleep 1000"), "t1")
	eventually(t, c, "the executor", func() bool { e := c.Executors(); return len(e) == 1 && e[0].Pid > 0 })
	pid := c.Executors()[0].Pid
	if err := c.Agent("agent-1").Restart(); err != nil {
		t.Fatal(err)
	}
	clockUntil(t, clock, c, "the end of the task", func() bool { task, _ := c.Task("t1"); return !task.Live() })
	if status := f.update(); status["state"] != "TASK_GONE" || status["reason"] != "REASON_EXECUTOR_REREGISTRATION_TIMEOUT" {
		t.Errorf("update %v", status)
	}
	if n := groupSize(t, pid); n != 0 {
		t.Errorf("%d processes of the executor are left", n)
	}
}

func TestFrameworkRemovedWhileItsAgentWasAway(t *testing.T) {
	clock := NewTestClock(time.Unix(1e9, 0))
	c := startCluster(t, Options{Clock: clock, Agents: syntheticAgents(1)})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	offer := running(t, c, f, "t1")
	f.call("KILL", obj{"task_id": id("t1"), "agent_id": offer["agent_id"]})
	f.ack(f.update()) // an executor without tasks is left
	c.Agent("agent-1").Cut()
	clock.Advance(2 * time.Minute)
	f.next("FAILURE")
	f.call("TEARDOWN", nil)
	if n := len(c.Executors()); n != 1 {
		t.Fatalf("%d executors on the agent that is away, want 1", n)
	}
	c.Agent("agent-1").Heal()
	clock.Advance(5 * time.Second)
	if n := len(c.Executors()); n != 0 {
		t.Errorf("%d executors of the removed framework are left", n)
	}
}

// A task lives as long as somebody may run it. What only an ended master or a wiped agent knew does not.
func TestTaskThatNobodyKnows(t *testing.T) {
	clock := NewTestClock(time.Unix(1e9, 0))
	c := startCluster(t, Options{Clock: clock, Agents: syntheticAgents(1)})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	offer := running(t, c, f, "runs")
	clock.Advance(2 * time.Second)
	c.Faults().LoseLaunches("agent-1", 1)
	f.launch(f.offers()[0], executorInfo("x", "true"), "lost")
	live := func(id string) bool {
		task, _ := c.Task(id)
		return task.Live()
	}
	if !live("runs") || !live("lost") {
		t.Fatalf("live: runs %v, lost %v", live("runs"), live("lost"))
	}
	if err := c.FailOver(FailOverOptions{}); err != nil {
		t.Fatal(err)
	}
	if !live("lost") {
		t.Error("given up before the agent was asked")
	}
	clock.Advance(10 * time.Second)
	if !live("runs") || live("lost") {
		t.Errorf("after the fail-over live: runs %v, lost %v", live("runs"), live("lost"))
	}
	if err := c.Agent("agent-1").Replace(); err != nil {
		t.Fatal(err)
	}
	if live("runs") {
		t.Errorf("the task of the wiped agent %s lives", value(offer["agent_id"]))
	}
}

// The history tells of the end of a task when a master learns of it, also of one that tells nobody.
func TestTaskThatEndedWhileItsAgentWasAway(t *testing.T) {
	clock := NewTestClock(time.Unix(1e9, 0))
	c := startCluster(t, Options{Clock: clock, Agents: syntheticAgents(1)})
	f := subscribe(t, c.URL(), frameworkInfo("kubernetes"), nil)
	running(t, c, f, "t1")
	agent := c.Agent("agent-1")
	agent.Cut()
	if !agent.ExitExecutor("x", 1) {
		t.Fatal("no executor ended")
	}
	if err := c.FailOver(FailOverOptions{}); err != nil {
		t.Fatal(err)
	}
	agent.Heal()
	clock.Advance(10 * time.Second)
	task, _ := c.Task("t1")
	for _, h := range task.History {
		if terminal(h.State) && h.Source == "" {
			return
		}
	}
	t.Errorf("the task is %s, its history %+v", task.State, task.History)
}
