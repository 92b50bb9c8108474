// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// master asks a Mesos master by its operator API, as a person at a terminal would.
type master struct{ url string }

type id struct {
	Value string `json:"value"`
}

type framework struct {
	ID        string
	Connected bool
}

type task struct {
	ID      id     `json:"task_id"`
	Name    string `json:"name"`
	AgentID id     `json:"agent_id"`
	State   string `json:"state"`
}

// podUID is the UID of the task's pod: task ids are <pod uid>.<attempt>.
func (t task) podUID() string {
	uid, _, _ := strings.Cut(t.ID.Value, ".")
	return uid
}

// live says that the task has not ended.
func (t task) live() bool {
	switch t.State {
	case "TASK_STAGING", "TASK_STARTING", "TASK_RUNNING", "TASK_KILLING", "TASK_UNREACHABLE":
		return true
	}
	return false
}

// call makes an operator call and decodes the member of the answer that is named like the call.
func (m master) call(ctx context.Context, kind string, into any) error {
	body, err := json.Marshal(map[string]string{"type": kind})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/api/v1", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: the master answers %s: %.200s", kind, response.Status, answer)
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(answer, &members); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	member, ok := members[strings.ToLower(kind)]
	if !ok {
		return nil // a member without content is left out
	}
	if err := json.Unmarshal(member, into); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

// agents returns the host name of each active agent by its id.
func (m master) agents(ctx context.Context) (map[string]string, error) {
	var answer struct {
		Agents []struct {
			Active bool `json:"active"`
			Info   struct {
				ID       id     `json:"id"`
				Hostname string `json:"hostname"`
			} `json:"agent_info"`
		} `json:"agents"`
	}
	if err := m.call(ctx, "GET_AGENTS", &answer); err != nil {
		return nil, err
	}
	hosts := map[string]string{}
	for _, a := range answer.Agents {
		if a.Active {
			hosts[a.Info.ID.Value] = a.Info.Hostname
		}
	}
	return hosts, nil
}

// framework returns the only framework that the master has, or ever had.
func (m master) framework(ctx context.Context) (framework, error) {
	type entry struct {
		Info struct {
			ID id `json:"id"`
		} `json:"framework_info"`
		Connected bool `json:"connected"`
	}
	var answer struct {
		Frameworks []entry `json:"frameworks"`
		Completed  []entry `json:"completed_frameworks"`
	}
	if err := m.call(ctx, "GET_FRAMEWORKS", &answer); err != nil {
		return framework{}, err
	}
	if n := len(answer.Frameworks) + len(answer.Completed); n > 1 {
		return framework{}, fmt.Errorf("the master has seen %d frameworks, want one", n)
	}
	if len(answer.Frameworks) == 0 {
		return framework{}, errors.New("the master has no framework")
	}
	f := answer.Frameworks[0]
	return framework{ID: f.Info.ID.Value, Connected: f.Connected}, nil
}

// tasks returns all tasks that the master knows, ended ones too.
func (m master) tasks(ctx context.Context) ([]task, error) {
	var answer struct {
		Pending     []task `json:"pending_tasks"`
		Tasks       []task `json:"tasks"`
		Unreachable []task `json:"unreachable_tasks"`
		Completed   []task `json:"completed_tasks"`
		Orphan      []task `json:"orphan_tasks"`
	}
	if err := m.call(ctx, "GET_TASKS", &answer); err != nil {
		return nil, err
	}
	var all []task
	for _, list := range [][]task{answer.Pending, answer.Tasks, answer.Unreachable, answer.Completed, answer.Orphan} {
		all = append(all, list...)
	}
	return all, nil
}
