// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
)

// An actor is a framework, an executor, or an operator of a recording. It holds at most one stream at a time.
type actor struct {
	r      *replay
	name   string
	client *http.Client
	puppet *puppet

	stream string // the stream id
	auth   string // the last Authorization

	mu     sync.Mutex
	got    []arrival
	ended  bool // the stream ended, whoever ended it
	endMs  int
	hang   func()
	reader chan struct{}
}

type arrival struct {
	ms    int
	event map[string]any
	raw   []byte
	taken bool
}

func (r *replay) actor(name string) *actor {
	a := r.actors[name]
	if a == nil {
		a = &actor{r: r, name: name, client: &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: strings.HasPrefix(name, "X")}}}
		r.actors[name] = a
	}
	return a
}

// hangUp closes the actor's stream, if it has one, and waits until both sides know.
func (a *actor) hangUp() {
	a.mu.Lock()
	hang, reader := a.hang, a.reader
	a.hang = nil
	a.mu.Unlock()
	if hang != nil {
		hang()
		<-reader
	}
	a.client.CloseIdleConnections()
}

// act sends a call and compares the answer.
func (r *replay) act(s *step) {
	a := r.actor(s.Who)
	if held := r.held[s.index]; held != nil {
		r.compareAnswer(s, a, held.finish())
		return
	}
	if s.Answer == nil {
		r.fail(s, "the recording has no answer")
		return
	}
	address := r.address(s, a)
	request, cancel := r.request(s, a, address)
	response, err := a.client.Do(request)
	r.compareAnswer(s, a, answer{response, err, cancel})
}

type answer struct {
	response *http.Response
	err      error
	cancel   context.CancelFunc
}

// address is where a call goes.
func (r *replay) address(s *step, a *actor) string {
	if s.Send.To != "" {
		for _, agent := range r.cluster.Agents() {
			if agent.Name == s.Send.To {
				return agent.Endpoint
			}
		}
	}
	if strings.HasPrefix(s.Who, "X") {
		if a.puppet == nil {
			a.puppet = r.claim(s)
		}
		if a.puppet == nil {
			r.fail(s, "no executor process was started for it")
			return r.master()
		}
		return a.puppet.environment()["MESOS_AGENT_ENDPOINT"]
	}
	return r.master()
}

// claim finds the process that an executor of the recording is.
func (r *replay) claim(s *step) *puppet {
	call, _ := s.Send.Call.(map[string]any)
	unbound := map[string]bool{}
	id, _ := r.b.substitute(call["executor_id"], unbound).(map[string]any)
	framework, _ := r.b.substitute(call["framework_id"], unbound).(map[string]any)
	agent := r.agentOf(s)
	base := strings.TrimSuffix(s.Who, "b")
	r.mu.Lock()
	defer r.mu.Unlock()
	var old *puppet
	for _, p := range r.puppets {
		if !p.alive() || p.launch.ExecutorID != id["value"] || p.launch.FrameworkID != framework["value"] || agent != "" && p.environment()["MESOS_SLAVE_ID"] != agent {
			continue
		}
		if p.actor == "" || p.actor == base {
			p.actor = base
			return p
		}
		old = p // a second process of the same container
	}
	return old
}

// agentOf looks ahead for the agent on which the executor runs.
func (r *replay) agentOf(s *step) string {
	for i := s.index - 1; i < len(r.rec.steps); i++ {
		next := &r.rec.steps[i]
		if next.Who != s.Who || next.Event == nil {
			continue
		}
		if launch, ok := next.Event["launch"].(map[string]any); ok {
			task := launch["task"].(map[string]any)
			return fmt.Sprint(r.b.substitute(value(task["agent_id"]), map[string]bool{}))
		}
		if subscribed, ok := next.Event["subscribed"].(map[string]any); ok {
			if info, ok := subscribed["agent_info"].(map[string]any); ok {
				return fmt.Sprint(r.b.substitute(value(info["id"]), map[string]bool{}))
			}
		}
	}
	return ""
}

// request builds the request of a step. Values that the recorded client made up are made up anew.
func (r *replay) request(s *step, a *actor, address string) (*http.Request, context.CancelFunc) {
	body := r.body(s)
	method := s.Send.Method
	if method == "" {
		method = http.MethodPost
	}
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+s.Send.Path, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	if s.Send.Method == "" {
		request.Header.Set("Content-Type", mediaJSON)
		request.Header.Set("Accept", mediaJSON)
	}
	binary := r.protobuf && strings.HasPrefix(s.Who, "F") && s.Send.Body == nil && s.Send.Method == ""
	if binary {
		call := &scheduler.Call{}
		if unmarshalJSON(body, call) == nil { // what is no good call stays JSON
			if encoded, err := call.Marshal(); err == nil {
				request.Body = io.NopCloser(bytes.NewReader(encoded))
				request.ContentLength = int64(len(encoded))
				request.Header.Set("Content-Type", mediaProtobuf)
				request.Header.Set("Accept", mediaProtobuf)
			}
		}
	}
	for k, v := range s.Send.Headers {
		if binary && (k == "Content-Type" || k == "Accept" && v == mediaJSON) {
			continue
		}
		text, _ := r.b.substitute(v, map[string]bool{}).(string)
		if k == "Authorization" {
			text = authorization(text)
			if a.auth == "" {
				a.auth = text
			}
		}
		request.Header.Set(k, text)
	}
	if s.Send.Headers["Mesos-Stream-Id"] != "" && a.auth != "" && s.Answer.Status != http.StatusUnauthorized && request.Header.Get("Authorization") == "" {
		request.Header.Set("Authorization", a.auth) // only headers that say something new are recorded
	}
	if header, ok := s.Send.Headers["Accept"]; !binary && s.Send.Method == "" && s.Send.Headers["Content-Type"] != "" && !ok && header == "" {
		request.Header.Del("Accept")
	}
	return request, cancel
}

// authorization writes out what the recording describes.
func authorization(text string) string {
	text = strings.Replace(text, "${credentials}", base64.StdEncoding.EncodeToString([]byte("p1:s1")), 1)
	if before, rest, ok := strings.Cut(text, "<base64 of "); ok {
		text = before + base64.StdEncoding.EncodeToString([]byte(strings.TrimSuffix(rest, ">")))
	}
	return text
}

func (r *replay) body(s *step) []byte {
	if s.Send.Body != nil {
		// A body that was no JSON is written as text in which each character stands for one byte.
		out := make([]byte, 0, len(*s.Send.Body))
		for _, c := range *s.Send.Body {
			out = append(out, byte(c))
		}
		return out
	}
	if s.Send.Call == nil {
		return nil
	}
	unbound := map[string]bool{}
	r.b.substitute(s.Send.Call, unbound)
	for name := range unbound {
		r.b[name] = r.invent(s, name)
	}
	call := r.b.substitute(s.Send.Call, map[string]bool{})
	now := r.time()
	return mustJSON(inventTimes(call, now))
}

// invent makes the value of a placeholder that the recorded client made up.
func (r *replay) invent(s *step, name string) string {
	reason, _ := s.Answer.Body.(string)
	switch {
	case strings.Contains(reason, "Invalid character"):
		return "!!!!"
	case strings.Contains(reason, "Not a valid UUID"):
		return base64.StdEncoding.EncodeToString([]byte("fifteen bytes.."))
	case strings.HasPrefix(name, "${uuid."):
		id := uuid.New()
		return base64.StdEncoding.EncodeToString(id[:])
	}
	return uuid.NewString()
}

// inventTimes replaces the placeholders of times by numbers.
func inventTimes(v any, now time.Time) any {
	switch x := v.(type) {
	case map[string]any:
		for k, item := range x {
			if item == "${time}" {
				if k == "nanoseconds" {
					x[k] = now.UnixNano()
				} else {
					x[k] = seconds(now)
				}
				continue
			}
			x[k] = inventTimes(item, now)
		}
	case []any:
		for i := range x {
			x[i] = inventTimes(x[i], now)
		}
	}
	return v
}

// compareAnswer compares an answer with the recorded one, and keeps the stream if it is one.
func (r *replay) compareAnswer(s *step, a *actor, got answer) {
	want := s.Answer
	if want.Error != "" {
		if got.err == nil {
			_ = got.response.Body.Close()
			r.fail(s, "answered %s, recorded is %q", got.response.Status, want.Error)
		}
		got.cancel()
		return
	}
	if got.err != nil {
		got.cancel()
		r.fail(s, "%v, recorded is %d", got.err, want.Status)
		return
	}
	response := got.response
	streams := response.StatusCode == http.StatusOK && want.Headers["Transfer-Encoding"] == "chunked"
	var body []byte
	if streams {
		a.listen(response, got.cancel)
	} else {
		if response.StatusCode == http.StatusOK && len(response.TransferEncoding) > 0 {
			got.cancel()
			r.fail(s, "a stream was opened, recorded is %d %v", want.Status, want.Body)
			return
		}
		body, _ = io.ReadAll(response.Body)
		_ = response.Body.Close()
		got.cancel()
	}
	if response.StatusCode != want.Status {
		r.fail(s, "status %d %q, recorded is %d %v", response.StatusCode, body, want.Status, want.Body)
		return
	}
	for k, v := range want.Headers {
		if r.protobuf && v == mediaJSON && strings.HasPrefix(s.Who, "F") {
			v = response.Request.Header.Get("Accept")
		}
		have := response.Header.Get(k)
		if k == "Transfer-Encoding" {
			have = strings.Join(response.TransferEncoding, ",")
		}
		if text := mismatch(v, have, r.b); text != "" {
			r.fail(s, "header %s: %s", k, text)
		}
	}
	if _, typed := want.Headers["Content-Type"]; want.Headers != nil && !typed && response.Header.Get("Content-Type") != "" {
		r.fail(s, "header Content-Type is %q, recorded is none", response.Header.Get("Content-Type"))
	}
	switch recorded := want.Body.(type) {
	case nil:
	case string:
		if text := mismatch(recorded, string(body), r.b); text != "" {
			r.fail(s, "body: %s", text)
		}
	default:
		var have any
		if err := json.Unmarshal(body, &have); err != nil {
			r.fail(s, "body: %v", err)
			return
		}
		if text := mismatch(recorded, have, r.b); text != "" {
			r.fail(s, "body: %s", text)
		}
	}
}

// listen reads an event stream until it ends.
func (a *actor) listen(response *http.Response, cancel context.CancelFunc) {
	a.mu.Lock()
	a.ended, a.endMs = false, 0
	a.hang = cancel
	a.stream = response.Header.Get(streamHeader)
	a.reader = make(chan struct{})
	done := a.reader
	a.mu.Unlock()
	r := a.r
	r.mu.Lock()
	r.open++
	r.mu.Unlock()
	protobuf := response.Header.Get("Content-Type") == mediaProtobuf
	go func() {
		defer close(done)
		frames := mesosapi.NewFrameReader(response.Body, 0)
		for {
			frame, err := frames.ReadFrame()
			if err != nil {
				break
			}
			next := arrival{ms: r.clockMs()}
			event := &scheduler.Event{}
			if protobuf && r.protobuf {
				if err := event.Unmarshal(frame); err == nil {
					err = json.Unmarshal(marshalJSON(event), &next.event)
					if err != nil {
						next.event = map[string]any{"type": "UNREADABLE", "text": err.Error()}
					}
				}
			} else if protobuf {
				next.raw = append([]byte(nil), frame...)
			} else if err := json.Unmarshal(frame, &next.event); err != nil {
				next.event = map[string]any{"type": "UNREADABLE", "text": string(frame)}
			}
			a.mu.Lock()
			a.got = append(a.got, next)
			a.mu.Unlock()
			r.mu.Lock()
			r.received++
			r.mu.Unlock()
		}
		_ = response.Body.Close()
		cancel()
		a.mu.Lock()
		a.ended, a.endMs = true, r.clockMs()
		a.mu.Unlock()
		r.mu.Lock()
		r.open--
		r.mu.Unlock()
	}()
}

// clockMs is the time since the start of the replay, without the shift, which only the main goroutine may read.
func (r *replay) clockMs() int { return int(r.time().Sub(r.start) / time.Millisecond) }

// A heldCall is a request whose last byte is held back.
type heldCall struct {
	release chan struct{}
	result  chan answer
}

type holdingReader struct {
	data    []byte
	at      int
	release chan struct{}
}

func (h *holdingReader) Read(p []byte) (int, error) {
	if h.at == len(h.data) {
		return 0, io.EOF
	}
	end := len(h.data) - 1
	if h.at == end {
		<-h.release
		end++
	}
	n := copy(p, h.data[h.at:end])
	h.at += n
	return n, nil
}

// hold begins the call of a later step and holds back its last byte.
func (r *replay) hold(note *step) {
	for i := note.index; i < len(r.rec.steps); i++ {
		s := &r.rec.steps[i]
		if s.Send == nil || !strings.Contains(s.Note, "last byte of the held ACCEPT") || r.held[s.index] != nil {
			continue
		}
		a := r.actor(s.Who)
		request, cancel := r.request(s, a, r.address(s, a))
		data, _ := io.ReadAll(request.Body)
		held := &heldCall{release: make(chan struct{}), result: make(chan answer, 1)}
		request.Body = io.NopCloser(&holdingReader{data: data, release: held.release})
		request.ContentLength = int64(len(data))
		client := &http.Client{Transport: &http.Transport{}}
		r.held[s.index] = held
		go func() {
			response, err := client.Do(request)
			held.result <- answer{response, err, func() { cancel(); client.CloseIdleConnections() }}
		}()
		return
	}
	r.fail(note, "no step sends the last byte")
}

func (h *heldCall) finish() answer {
	close(h.release)
	select {
	case a := <-h.result:
		return a
	case <-time.After(10 * time.Second):
		return answer{err: errors.New("no answer"), cancel: func() {}}
	}
}
