// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"io"
	"net/http"

	"github.com/mesos/mesos-go/api/v1/lib/executor"
)

// Message sends data to the framework. No error means that the agent took it; whether the framework gets it nobody says.
func (c *Client) Message(ctx context.Context, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	resp, err := c.post(ctx, &executor.Call{Type: executor.Call_MESSAGE, Message: &executor.Call_Message{Data: data}})
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusAccepted {
		return statusError(resp)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
	return resp.Body.Close()
}
