// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// A recording can be compared with a real master too. MESOS_URL is its host:port. Its agents must be called agent-1 and
// agent-2 and have the resources and attributes that the recordings' first lines tell, for instance
//
//	mesos-agent --hostname=agent-1 --resources='cpus:4;mem:4096;disk:10000;ports:[31000-31999]' --attributes='rack:r1;zone:z1' ...
//	mesos-agent --hostname=agent-2 --resources='cpus:4;mem:4096;disk:10000;ports:[32000-32999]' --attributes='rack:r2;zone:z1' ...
//
// and nobody else may use the cluster. Recordings in which processes are killed, executors speak, or the master has special
// flags cannot be repeated from outside; they are skipped.
const realMaster = "MESOS_URL"

// realTolerance is what a real allocator's phase may move an offer by, in milliseconds.
const realTolerance = 1200

// master is the address of the master that is compared.
func (r *replay) master() string {
	if r.real != "" {
		return r.real
	}
	return r.cluster.URL()
}

// time is the replay's: that of the test clock, or the real one.
func (r *replay) time() time.Time {
	if r.real != "" {
		return time.Now()
	}
	return r.clock.Now()
}

// repeatable says why a recording cannot be repeated from outside, or "".
func (rec *recording) repeatable() string {
	if len(rec.MasterFlags) > 0 {
		return "the master has flags of its own"
	}
	if len(rec.Agents) != 2 {
		return "it wants other agents"
	}
	for i := range rec.Agents {
		if len(rec.Agents[i].Flags) > 0 {
			return "an agent has flags of its own"
		}
	}
	for i := range rec.steps {
		s := &rec.steps[i]
		switch {
		case s.Who == "" || strings.HasPrefix(s.Who, "X"):
			return "a process or an executor takes part"
		case s.Note != "" && s.Send == nil && !strings.Contains(s.Note, "EOF") && !strings.Contains(s.Note, "closes"):
			return "something is done to a process"
		}
		if update, ok := s.Event["update"].(obj); ok && update["status"].(obj)["source"] != "SOURCE_MASTER" {
			return "an executor takes part"
		}
		if call, ok := s.call(); ok && s.Who == "operator" && !strings.HasPrefix(call["type"].(string), "GET_") {
			return "an operator changes the cluster"
		}
	}
	if rec.ID == "C25" {
		return "it would crash the master"
	}
	return ""
}

// TestConformanceReal compares a real master with the recordings.
func TestConformanceReal(t *testing.T) {
	url := os.Getenv(realMaster)
	if url == "" {
		t.Skip(realMaster + " is not set")
	}
	ids := realAgents(t, url)
	for _, rec := range loadRecordings(t) {
		t.Run(rec.ID, func(t *testing.T) {
			if why := rec.repeatable(); why != "" {
				t.Skip(why)
			}
			var failed []string
			for try := range realTries { // in which order agents are offered is chance
				if failed = replayReal(rec, url, ids); len(failed) == 0 || try == realTries-1 {
					break
				}
				for i := range rec.steps {
					rec.steps[i].done = false
				}
			}
			if len(failed) > 0 {
				t.Errorf("%s: the master differs from the recording:\n%s", rec.Title, strings.Join(failed, "\n"))
			}
		})
	}
}

// realTries is how often a recording is tried.
const realTries = 6

func replayReal(rec *recording, url string, ids map[string]string) []string {
	r := &replay{rec: rec, real: url, try: 1, b: binding{}, actors: map[string]*actor{}, held: map[int]*heldCall{}, start: time.Now()}
	for name, id := range ids {
		r.b["${agent."+strings.TrimPrefix(name, "agent-")+"}"] = id
	}
	r.run()
	for name, a := range r.actors {
		if strings.HasPrefix(name, "F") {
			_, _ = r.tearDown(a)
		}
		a.hangUp()
	}
	return r.failed
}

// realAgents returns the ids of agent-1 and agent-2.
func realAgents(t *testing.T, url string) map[string]string {
	t.Helper()
	status, text := post(url, "/api/v1", "", obj{"type": "GET_AGENTS"})
	if status != 200 {
		t.Fatalf("GET_AGENTS of %s: %d %s", url, status, text)
	}
	var answer struct {
		GetAgents struct {
			Agents []struct {
				AgentInfo struct {
					Hostname string
					ID       struct{ Value string }
				} `json:"agent_info"`
			}
		} `json:"get_agents"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, a := range answer.GetAgents.Agents {
		ids[a.AgentInfo.Hostname] = a.AgentInfo.ID.Value
	}
	for i := 1; i <= 2; i++ {
		if ids[fmt.Sprintf("agent-%d", i)] == "" {
			t.Fatalf("the master has no agent called agent-%d (it has %v)", i, ids)
		}
	}
	return ids
}
