// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Identity asks the agent for its id. It needs an agent whose read-only API is open to everybody.
func (c *Client) Identity(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	resp, err := c.do(ctx, "/api/v1", "application/json", []byte(`{"type":"GET_AGENT"}`))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", statusError(resp)
	}
	defer resp.Body.Close()
	var answer struct {
		GetAgent struct {
			AgentInfo struct {
				ID struct {
					Value string `json:"value"`
				} `json:"id"`
			} `json:"agent_info"`
		} `json:"get_agent"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); err != nil {
		return "", fmt.Errorf("decode GET_AGENT: %w", err)
	}
	id := answer.GetAgent.AgentInfo.ID.Value
	if id == "" {
		return "", fmt.Errorf("GET_AGENT names no agent id")
	}
	return id, nil
}
