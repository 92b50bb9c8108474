// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

func (in *injector) onAgent(act func(context.Context, fault, *mesossim.AgentHandle) error) action {
	return func(ctx context.Context, f fault) error {
		h := in.sim.Agent(in.nodes[f.agent])
		if h == nil {
			return errors.New("there is no such agent")
		}
		return act(ctx, f, h)
	}
}

func (in *injector) cutAgent(ctx context.Context, f fault, h *mesossim.AgentHandle) error {
	in.begin(f, incident{hides: true})
	h.Cut()
	pause(ctx, f.lasts)
	h.Heal()
	return nil
}

func (in *injector) stopAgent(ctx context.Context, f fault, h *mesossim.AgentHandle) error {
	in.begin(f, incident{hides: true})
	h.Stop()
	pause(ctx, f.lasts)
	h.Continue()
	return nil
}

func (in *injector) restartAgent(ctx context.Context, f fault, h *mesossim.AgentHandle) error {
	in.begin(f, incident{hides: true})
	h.Kill()
	pause(ctx, f.lasts)
	return h.Restart()
}

func (in *injector) slowAgent(ctx context.Context, f fault, h *mesossim.AgentHandle) error {
	in.begin(f, incident{hides: true})
	h.SetDelay(time.Duration(f.n) * ms)
	pause(ctx, f.lasts)
	h.SetDelay(0)
	return nil
}

// replaceAgent is a host whose agent lost its work folder: it comes back under another id.
func (in *injector) replaceAgent(ctx context.Context, f fault, h *mesossim.AgentHandle) error {
	id := h.ID()
	in.begin(f, incident{text: ", id " + id, hides: true})
	h.Kill()
	pause(ctx, f.lasts)
	in.journal.add(incident{text: "the agent's work folder is emptied: " + id, agentID: id, dead: true, hides: true})
	return h.Replace()
}

func (in *injector) unregisterAgent(ctx context.Context, f fault, h *mesossim.AgentHandle) error {
	id := h.ID()
	in.begin(f, incident{text: ", id " + id, agentID: id, hides: true})
	h.Unregister()
	pause(ctx, f.lasts)
	in.journal.add(incident{text: "the agent starts anew: " + id, agentID: id, dead: true, hides: true})
	return h.Replace()
}

func (in *injector) markGone(ctx context.Context, f fault, h *mesossim.AgentHandle) error {
	id := h.ID()
	in.begin(f, incident{text: ", id " + id, agentID: id, hides: true})
	if err := in.operate(ctx, "MARK_AGENT_GONE", "mark_agent_gone", map[string]any{"agent_id": map[string]any{"value": id}}); err != nil {
		return err
	}
	pause(ctx, f.lasts)
	in.journal.add(incident{text: "replacing the agent that was marked gone, " + id, agentID: id, dead: true, hides: true})
	return h.Replace()
}

func (in *injector) drainAgent(ctx context.Context, f fault, h *mesossim.AgentHandle) error {
	id := h.ID()
	in.begin(f, incident{text: ", id " + id, agentID: id, hides: true})
	agent := map[string]any{"agent_id": map[string]any{"value": id}}
	drain := map[string]any{"agent_id": agent["agent_id"], "max_grace_period": map[string]any{"nanoseconds": int64(2 * time.Second)}}
	if err := in.operate(ctx, "DRAIN_AGENT", "drain_agent", drain); err != nil {
		return err
	}
	pause(ctx, f.lasts)
	in.reactivate(ctx, id, id, agent)
	return nil
}

// reactivate tries for a while: a draining agent is reactivated only once it is drained, and one that does not get there
// (the agent has lost a KILL, the master its registry) stays out of use.
func (in *injector) reactivate(ctx context.Context, id, taken string, agent map[string]any) {
	const limit = 10 * time.Second
	for end := time.Now().Add(limit); ; {
		err := in.operate(ctx, "REACTIVATE_AGENT", "reactivate_agent", agent)
		if err == nil {
			in.journal.add(incident{text: "reactivated " + id, agentID: taken, hides: true})
			return
		}
		if time.Now().After(end) || !pause(ctx, 200*ms) {
			in.journal.add(incident{text: fmt.Sprintf("%s is not reactivated: %v", id, err), agentID: taken, hides: true})
			return
		}
	}
}

func (in *injector) deactivateAgent(ctx context.Context, f fault, h *mesossim.AgentHandle) error {
	in.begin(f, incident{hides: true})
	id := h.ID()
	agent := map[string]any{"agent_id": map[string]any{"value": id}}
	if err := in.operate(ctx, "DEACTIVATE_AGENT", "deactivate_agent", agent); err != nil {
		return err
	}
	pause(ctx, f.lasts)
	in.reactivate(ctx, id, "", agent)
	return nil
}

// operate makes an operator call, once more for as long as no master leads.
func (in *injector) operate(ctx context.Context, kind, field string, arguments map[string]any) error {
	body, err := jsonBody(map[string]any{"type": kind, field: arguments})
	if err != nil {
		return err
	}
	var last error
	for range 50 {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+in.sim.URL()+"/api/v1", bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			last = fmt.Errorf("%s: %s: %s", kind, response.Status, text)
			if response.StatusCode == http.StatusBadRequest {
				return last
			}
		} else {
			last = err
		}
		if !pause(ctx, 100*ms) {
			break
		}
	}
	return last
}

// executors returns the running executors of an agent.
func (in *injector) executors(h *mesossim.AgentHandle) []mesossim.Executor {
	var out []mesossim.Executor
	for _, e := range in.sim.Executors() {
		if e.Agent == h.Name() && e.Pid != 0 && e.State != "TERMINATED" {
			out = append(out, e)
		}
	}
	return out
}

var errNoExecutor = errors.New("there is no executor")

func (in *injector) killExecutor(_ context.Context, f fault, h *mesossim.AgentHandle) error {
	all := in.executors(h)
	if len(all) == 0 {
		return errNoExecutor
	}
	for _, e := range all {
		in.begin(f, incident{text: ": SIGKILL of " + e.ID, hides: true})
		h.KillExecutor(e.ID)
	}
	return nil
}

func (in *injector) killBridge(_ context.Context, f fault, h *mesossim.AgentHandle) error {
	bridges := in.bridges(h)
	if len(bridges) == 0 {
		return errNoExecutor
	}
	in.begin(f, incident{text: fmt.Sprintf(": SIGKILL of %v", bridges), hides: true})
	for _, pid := range bridges {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
	}
	return nil
}

func (in *injector) stopBridge(ctx context.Context, f fault, h *mesossim.AgentHandle) error {
	bridges := in.bridges(h)
	if len(bridges) == 0 {
		return errNoExecutor
	}
	in.begin(f, incident{text: fmt.Sprintf(": SIGSTOP of %v", bridges), hides: true})
	for _, pid := range bridges {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	pause(ctx, f.lasts)
	still := in.bridges(h)
	for _, pid := range bridges {
		for _, s := range still { // else the number may be another process' by now
			if s == pid {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		}
	}
	return nil
}

// bridges returns the process ids of the bridges, the children of the executors' first processes.
func (in *injector) bridges(h *mesossim.AgentHandle) []int {
	var out []int
	for _, e := range in.executors(h) {
		out = append(out, children(e.Pid)...)
	}
	return out
}

func children(pid int) []int {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	var out []int
	for _, thread := range threads {
		list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}
