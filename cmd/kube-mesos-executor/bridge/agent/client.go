// SPDX-License-Identifier: Apache-2.0

// Package agent speaks the executor's side of the Mesos v1 HTTP API with the agent of this host.
package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
)

const (
	protobuf = "application/x-protobuf"
	// maxFrame bounds one event of the agent, in bytes; the largest is a LAUNCH.
	maxFrame = 16 << 20
	// maxBody bounds what is read of the body of an error.
	maxBody = 4 << 10
	// answerTimeout bounds the wait for the headers of an answer.
	answerTimeout = 10 * time.Second
)

// Config says where the agent is and who the executor is.
type Config struct {
	// Endpoint is the agent's `host:port`.
	Endpoint string
	// Socket is the path of the agent's unix socket; empty means Endpoint over TCP.
	Socket string
	// FrameworkID and ExecutorID identify the executor.
	FrameworkID, ExecutorID string
	// Token is the JSON web token that the agent gave the executor; empty if it asks for none.
	Token string
	// TLS says how to speak to Endpoint by https; nil means http. A unix socket is spoken to in plain.
	TLS *TLS
}

// A StatusError is an answer of the agent that is not the one that a call hopes for.
type StatusError struct {
	// Code is the HTTP status, Body the start of the text that came with it.
	Code int
	Body string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("agent answered %d %s: %s", e.Code, http.StatusText(e.Code), e.Body)
}

// Unknown says that the agent knows no such framework or executor.
func Unknown(err error) bool {
	var s *StatusError
	return errors.As(err, &s) && s.Code == http.StatusBadRequest &&
		(strings.Contains(s.Body, "Framework cannot be found") || strings.Contains(s.Body, "Executor cannot be found"))
}

// Invalid says that the agent refused a call for what it says, so that repeating it is of no use.
func Invalid(err error) bool {
	var s *StatusError
	return errors.As(err, &s) && s.Code == http.StatusBadRequest && !Unknown(err)
}

// Client makes calls to the agent.
type Client struct {
	cfg  Config
	base string
	http *http.Client
}

// NewClient returns a client; it opens no connection yet.
func NewClient(cfg Config) *Client {
	dialer := &net.Dialer{Timeout: answerTimeout}
	transport := &http.Transport{
		DialContext:           dialer.DialContext,
		ResponseHeaderTimeout: answerTimeout,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       time.Minute,
		DisableCompression:    true,
	}
	base := "http://" + cfg.Endpoint
	switch {
	case cfg.Socket != "":
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", cfg.Socket)
		}
	case cfg.TLS != nil:
		base = "https://" + cfg.Endpoint
		transport.TLSClientConfig = cfg.TLS.config()
		transport.TLSHandshakeTimeout = answerTimeout
	}
	return &Client{cfg: cfg, base: base, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *Client) plain() bool { return c.cfg.Socket == "" && c.cfg.TLS == nil }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Subscribe opens the stream of events. Both arguments list what the agent has not acknowledged.
func (c *Client) Subscribe(ctx context.Context, tasks []mesos.TaskInfo, updates []mesos.TaskStatus) (*Stream, error) {
	call := &executor.Call{Type: executor.Call_SUBSCRIBE, Subscribe: &executor.Call_Subscribe{UnacknowledgedTasks: tasks}}
	for _, status := range updates {
		call.Subscribe.UnacknowledgedUpdates = append(call.Subscribe.UnacknowledgedUpdates, executor.Call_Update{Status: status})
	}
	resp, err := c.post(ctx, call)
	if err != nil {
		if c.plain() && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
			err = fmt.Errorf("%w; if the agent takes TLS only, LIBPROCESS_SSL_ENABLED=true has to be in the executor's environment", err)
		}
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(resp)
	}
	if ct := resp.Header.Get("Content-Type"); !strings.HasPrefix(ct, protobuf) {
		resp.Body.Close()
		return nil, fmt.Errorf("agent answered SUBSCRIBE with content type %q, want %q", ct, protobuf)
	}
	return &Stream{body: resp.Body, frames: mesosapi.NewFrameReader(resp.Body, maxFrame)}, nil
}

// Update sends a status update. No error means that the agent took it, not that it keeps it: that is what ACKNOWLEDGED
// says.
func (c *Client) Update(ctx context.Context, status mesos.TaskStatus) error {
	return c.send(ctx, &executor.Call{Type: executor.Call_UPDATE, Update: &executor.Call_Update{Status: status}})
}

// Message sends data to the framework. No error means that the agent took it; whether the framework gets it nobody says.
func (c *Client) Message(ctx context.Context, data []byte) error {
	return c.send(ctx, &executor.Call{Type: executor.Call_MESSAGE, Message: &executor.Call_Message{Data: data}})
}

// send makes a call that the agent answers with 202.
func (c *Client) send(ctx context.Context, call *executor.Call) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	resp, err := c.post(ctx, call)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusAccepted {
		return statusError(resp)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
	return resp.Body.Close()
}

func (c *Client) post(ctx context.Context, call *executor.Call) (*http.Response, error) {
	call.FrameworkID.Value = c.cfg.FrameworkID
	call.ExecutorID.Value = c.cfg.ExecutorID
	body, err := call.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %v: %w", call.Type, err)
	}
	return c.do(ctx, "/api/v1/executor", protobuf, body)
}

func (c *Client) do(ctx context.Context, path, contentType string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", contentType)
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	return c.http.Do(req)
}

func statusError(resp *http.Response) error {
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	return &StatusError{Code: resp.StatusCode, Body: strings.TrimSpace(strings.ToValidUTF8(string(b), "?"))}
}

// Stream is an open stream of events.
type Stream struct {
	body   io.ReadCloser
	frames *mesosapi.FrameReader
}

// Next returns the next event, or the reason why there is none any more.
func (s *Stream) Next() (*executor.Event, error) {
	frame, err := s.frames.ReadFrame()
	if err != nil {
		return nil, err
	}
	return decode(frame)
}

// Close ends the stream.
func (s *Stream) Close() error { return s.body.Close() }

// decode reads an event. Generated code is not trusted to survive every input.
func decode(frame []byte) (event *executor.Event, err error) {
	defer func() {
		if r := recover(); r != nil {
			event, err = nil, fmt.Errorf("decode event: %v", r)
		}
	}()
	event = &executor.Event{}
	if err := event.Unmarshal(frame); err != nil {
		return nil, fmt.Errorf("decode event: %w", err)
	}
	return event, nil
}
