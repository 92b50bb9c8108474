// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"sync"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"k8s.io/klog/v2"
)

const (
	apiPath        = "/api/v1/scheduler"
	mediaType      = "application/x-protobuf"
	streamIDHeader = "Mesos-Stream-Id"
	maxStreamID    = 256
	maxHeader      = 64 << 10
	// maxHops bounds how many masters outside the configured ones are asked in one Subscribe.
	maxHops = 8
	// maxConns bounds the connections for calls to one master. Calls beyond it wait for one.
	maxConns = 128
	// idleTimeout is how long a connection without calls is kept.
	idleTimeout = 2 * defaultHeartbeat
)

// A Client subscribes frameworks with the masters of one cluster. It is safe for use by many goroutines.
type Client struct {
	cfg     Config
	masters []master
	zk      *zkGroup

	// Subscriptions get a connection of their own that is never used again; calls share a pool.
	subscriptions, calls *http.Transport

	mu   sync.Mutex
	last master // the master that took the last subscription
}

// New returns a client, or an error that names the field of the config, its value and what would be right. It opens no
// connection.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg}
	if c.masters, c.zk, err = parseMasters(cfg.Masters, cfg.defaultScheme()); err != nil {
		return nil, err
	}
	c.subscriptions, c.calls = c.transport(), c.transport()
	c.subscriptions.MaxIdleConnsPerHost = -1
	return c, nil
}

// transport returns a transport that does what it is told and no more: HTTP/1.1, no proxy from the environment, no
// compression, no redirects (RoundTrip follows none).
func (c *Client) transport() *http.Transport {
	t := &http.Transport{
		Proxy:                  nil,
		DialContext:            (&net.Dialer{Timeout: c.cfg.DialTimeout}).DialContext,
		TLSHandshakeTimeout:    c.cfg.DialTimeout,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    maxConns,
		MaxConnsPerHost:        maxConns,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if c.cfg.TLS != nil {
		t.TLSClientConfig = c.cfg.TLS.Clone()
	}
	return t
}

// Close gives back idle connections. Streams must be closed by themselves.
func (c *Client) Close() {
	c.subscriptions.CloseIdleConnections()
	c.calls.CloseIdleConnections()
}

// Subscribe finds the leading master and subscribes with it: one attempt over all masters. The stream lives until
// ctx ends, it is closed, or Next returns an error. If no master takes the subscription, the error is a *SubscribeError
// that holds what each one said. A refusal ends nothing: what refuses may not be a master, and a standby asked after the
// leader only points back at it.
func (c *Client) Subscribe(ctx context.Context, call *scheduler.Call) (*Stream, error) {
	body, err := encode(call, true)
	if err != nil {
		return nil, err
	}
	candidates, err := c.candidates(ctx)
	if err != nil {
		return nil, &SubscribeError{Attempts: []error{err}}
	}
	s := search{client: c, body: body, known: map[master]bool{}, asked: map[master]bool{}}
	for _, m := range candidates {
		s.known[m] = true
	}
	stream, err := s.run(ctx, candidates)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.last = stream.master
	c.mu.Unlock()
	klog.FromContext(ctx).V(2).Info("Opened an event stream", "master", stream.Master(), "streamID", stream.ID())
	return stream, nil
}

// candidates returns the masters to ask, the last leader first. They are the ones that may see the credential.
func (c *Client) candidates(ctx context.Context) ([]master, error) {
	if c.zk != nil {
		return c.zk.leader(ctx, c.cfg.defaultScheme(), c.cfg.CallTimeout)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]master, 0, len(c.masters))
	for _, m := range c.masters {
		if m == c.last {
			list = append(list, m)
		}
	}
	for _, m := range c.masters {
		if m != c.last {
			list = append(list, m)
		}
	}
	return list, nil
}

// A search is one attempt to subscribe over all masters.
type search struct {
	client   *Client
	body     []byte
	known    map[master]bool
	asked    map[master]bool
	attempts []error
}

// run asks the known masters, the target of a redirect next, and then those that redirects named and that are not
// known. The latter get no credential, whatever happens.
func (s *search) run(ctx context.Context, queue []master) (*Stream, error) {
	var strangers []master
	hops := 0
	for len(queue) > 0 || len(strangers) > 0 {
		if err := ctx.Err(); err != nil {
			s.attempts = append(s.attempts, context.Cause(ctx))
			break
		}
		var m master
		if len(queue) > 0 {
			m, queue = queue[0], queue[1:]
		} else {
			m, strangers = strangers[0], strangers[1:]
			if hops++; hops > maxHops {
				s.attempts = append(s.attempts, fmt.Errorf("%w: gave up after %d redirects", ErrNoLeader, maxHops))
				break
			}
		}
		if s.asked[m] {
			continue
		}
		s.asked[m] = true

		stream, target, err := s.client.attempt(ctx, m, s.body, s.known[m])
		if err == nil {
			return stream, nil
		}
		err = &CallError{Type: scheduler.Call_SUBSCRIBE, Master: m.String(), Err: err}
		s.attempts = append(s.attempts, err)
		switch {
		case target != nil && s.known[*target]:
			queue = append([]master{*target}, queue...)
		case target != nil:
			strangers = append(strangers, *target)
		}
	}
	return nil, &SubscribeError{Attempts: s.attempts}
}

// attempt sends SUBSCRIBE to one master. With a redirect the error comes with the master that it names.
func (c *Client) attempt(ctx context.Context, m master, body []byte, trusted bool) (*Stream, *master, error) {
	streamCtx, cancel := context.WithCancelCause(ctx)
	opened := false
	defer func() {
		if !opened {
			cancel(context.Canceled)
		}
	}()
	req, cred, err := c.request(streamCtx, m, body, trusted)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", mediaType)

	limit := c.cfg.DialTimeout + c.cfg.CallTimeout
	timer := c.cfg.Clock.AfterFunc(limit, func() {
		cancel(fmt.Errorf("%w: no answer to SUBSCRIBE within %v", ErrSilent, limit))
	})
	defer timer.Stop()
	resp, err := c.subscriptions.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusOK {
		timer.Stop() // from here on the watchdog times the silence
	}
	if cause := context.Cause(streamCtx); cause != nil {
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, nil, cause
	}
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := readBody(resp.Body)
		status := newStatusError(scheduler.Call_SUBSCRIBE, resp.StatusCode, text)
		switch {
		case resp.StatusCode == http.StatusTemporaryRedirect:
			target, err := redirectTarget(m, resp.Header.Get("Location"))
			if err != nil {
				status.note = "it redirects, but " + err.Error()
				return nil, nil, status
			}
			status.note = "it redirects to " + target.String()
			return nil, &target, status
		case status.kind == ErrUnauthorized:
			status.note = c.authNote(cred, trusted)
		}
		return nil, nil, status
	}

	stream, err := newStream(c, m, streamCtx, cancel, resp, trusted)
	if err != nil {
		_ = resp.Body.Close()
		return nil, nil, err
	}
	opened = true
	return stream, nil, nil
}

func (c *Client) authNote(cred Credential, trusted bool) string {
	if c.cfg.Credential != nil && !trusted {
		return "no credential was sent, since this master was named by a redirect and is not among the configured ones"
	}
	return cred.String()
}

// request builds a POST of a marshalled call. The credential that is in it is returned too.
func (c *Client) request(ctx context.Context, m master, body []byte, trusted bool) (*http.Request, Credential, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.String()+apiPath, bytes.NewReader(body))
	if err != nil {
		return nil, Credential{}, err
	}
	req.Header.Set("Content-Type", mediaType)
	req.Header.Set("User-Agent", "kube-mesos-scheduler")
	var cred Credential
	if c.cfg.Credential != nil && trusted {
		if cred, err = c.cfg.Credential(); err == nil {
			err = cred.check()
		}
		if err != nil {
			return nil, Credential{}, fmt.Errorf("%w: the credential cannot be used: %w", ErrUnauthorized, err)
		}
		cred.apply(req)
	}
	return req, cred, nil
}

// checkStream reports what in an answer 200 to SUBSCRIBE is not as a master sends it.
func checkStream(resp *http.Response) error {
	id := resp.Header.Get(streamIDHeader)
	switch kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case err != nil || kind != mediaType:
		return fmt.Errorf("%w: the event stream has the content type %.100q, want %q", ErrProtocol, resp.Header.Get("Content-Type"), mediaType)
	case resp.Header.Get("Content-Encoding") != "" && resp.Header.Get("Content-Encoding") != "identity":
		return fmt.Errorf("%w: the event stream is encoded as %.100q, which was not asked for", ErrProtocol, resp.Header.Get("Content-Encoding"))
	case id == "" || len(id) > maxStreamID || !printable(id):
		return fmt.Errorf("%w: the event stream has the id %.100q in %s", ErrProtocol, id, streamIDHeader)
	}
	return nil
}

// readBody returns the beginning of the body of an answer and closes it. A short rest is read so that the connection
// can be used again; whole says that nothing of the body is left on it.
func readBody(body io.ReadCloser) (text string, whole bool) {
	if body == http.NoBody {
		return "", true
	}
	defer func() { _ = body.Close() }()
	data, _ := io.ReadAll(io.LimitReader(body, maxBody))
	_, err := io.CopyN(io.Discard, body, maxBody)
	return string(bytes.ToValidUTF8(bytes.TrimSpace(data), []byte("?"))), err == io.EOF
}
