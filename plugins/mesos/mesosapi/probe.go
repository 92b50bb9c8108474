// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// probeAnswer is what a leading master says to a call without a type, once it has taken the credential
// (src/master/validation.cpp).
const probeAnswer = "Expecting 'type' to be present"

// Probe finds the leading master and has it check the credential, without subscribing: it sends a call without a type,
// which a master authenticates, and then refuses. It returns the master's address. If there is none, the
// error has a line for each one asked.
func (c *Client) Probe(ctx context.Context) (string, error) {
	queue, err := c.candidates(ctx)
	if err != nil {
		return "", err
	}
	known, asked := map[master]bool{}, map[master]bool{}
	for _, m := range queue {
		known[m] = true
	}
	var attempts []error
	for hops := 0; len(queue) > 0 && hops < len(known)+maxHops; hops++ {
		m := queue[0]
		queue = queue[1:]
		if asked[m] {
			continue
		}
		asked[m] = true
		target, err := c.probe(ctx, m, known[m])
		if err == nil {
			return m.String(), nil
		}
		attempts = append(attempts, fmt.Errorf("%s: %w", m, err))
		if target != nil {
			queue = append([]master{*target}, queue...)
		}
	}
	return "", errors.Join(attempts...)
}

// probe asks one master. With a redirect the error comes with the master that it names.
func (c *Client) probe(ctx context.Context, m master, trusted bool) (*master, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.DialTimeout, fmt.Errorf("%w: no answer within %v", ErrSilent, c.cfg.DialTimeout))
	defer cancel()
	req, cred, err := c.request(ctx, m, nil, trusted)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", mediaType)
	resp, err := c.calls.RoundTrip(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.DeadlineExceeded) {
			err = cause
		}
		return nil, err
	}
	text, _ := readBody(resp.Body)
	if resp.StatusCode == http.StatusBadRequest && strings.Contains(text, probeAnswer) {
		if c.cfg.Credential != nil && !trusted {
			return nil, fmt.Errorf("it leads, but is not among the configured masters, so that no credential would be sent to it: add %s to masters", m)
		}
		return nil, nil
	}
	status := newStatusError(scheduler.Call_UNKNOWN, resp.StatusCode, text)
	switch {
	case resp.StatusCode == http.StatusTemporaryRedirect:
		target, err := redirectTarget(m, resp.Header.Get("Location"))
		if err != nil {
			status.note = "it redirects, but " + err.Error()
			return nil, status
		}
		status.note = "it redirects to " + target.String()
		return &target, status
	case status.kind == ErrUnauthorized:
		status.note = c.authNote(cred, trusted)
	case resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusBadRequest:
		return nil, fmt.Errorf("%w: %w", ErrProtocol, status)
	}
	return nil, status
}
