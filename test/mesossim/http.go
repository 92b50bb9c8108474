// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/gogo/protobuf/proto"
)

const (
	mediaJSON     = "application/json"
	mediaProtobuf = "application/x-protobuf"
	streamHeader  = "Mesos-Stream-Id"

	// maxBody bounds the memory that one call can take.
	maxBody = 64 << 20
)

// An httpError is an answer other than success.
type httpError struct {
	status int
	text   string
	header http.Header
}

func refuse(status int, format string, args ...any) *httpError {
	return &httpError{status: status, text: fmt.Sprintf(format, args...)}
}

func (e *httpError) write(w http.ResponseWriter) {
	for k, v := range e.header {
		w.Header()[k] = v
	}
	if e.text != "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(e.text)))
	w.WriteHeader(e.status)
	_, _ = io.WriteString(w, e.text)
}

func writeNotFound(w http.ResponseWriter) { refuse(http.StatusNotFound, "404 Not Found.").write(w) }

// writeAccepted answers as a master does a call that it has taken: nothing but the status.
func writeAccepted(w http.ResponseWriter) {
	w.Header()["Content-Type"] = nil
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusAccepted)
}

// readBody reads the whole body before anything is looked at, as libprocess does, so that a request counts as arrived
// when its last byte has.
func readBody(r *http.Request) error {
	if r.ContentLength > maxBody {
		return fmt.Errorf("a body of %d bytes", r.ContentLength)
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), 64<<10)) + bytes.MinRead)
	if _, err := body.ReadFrom(http.MaxBytesReader(nil, r.Body, maxBody)); err != nil {
		return err
	}
	r.Body = &wholeBody{Reader: bytes.NewReader(body.Bytes()), data: body.Bytes()}
	return nil
}

// A wholeBody is a body that was read already.
type wholeBody struct {
	*bytes.Reader
	data []byte
}

func (*wholeBody) Close() error { return nil }

type message interface {
	proto.Message
	Unmarshal([]byte) error
}

// readCall checks method and content type and reads the call, in a master's order. The generated types cannot tell an
// absent type from type 0, so hasType says it.
func readCall(r *http.Request, call message) (hasType bool, herr *httpError) {
	hasType, _, herr = readCallBody(r, call)
	return hasType, herr
}

// readCallBody is readCall that also returns the body.
func readCallBody(r *http.Request, call message) (hasType bool, body []byte, herr *httpError) {
	if r.Method != http.MethodPost {
		e := refuse(http.StatusMethodNotAllowed, "405 Method Not Allowed. Expecting one of { 'POST' }, but received '%s'.", r.Method)
		e.header = http.Header{"Allow": {"POST"}}
		return false, nil, e
	}
	if whole, ok := r.Body.(*wholeBody); ok {
		body = whole.data
	} else {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return false, nil, refuse(http.StatusBadRequest, "Failed to read the body: %v", err)
		}
	}
	contentType, ok := r.Header["Content-Type"]
	if !ok || len(contentType) == 0 {
		return false, nil, refuse(http.StatusBadRequest, "Expecting 'Content-Type' to be present")
	}
	switch contentType[0] {
	case mediaProtobuf:
		if err := call.Unmarshal(body); err != nil {
			return false, nil, refuse(http.StatusBadRequest, "Failed to parse body into Call protobuf")
		}
		return hasField(body, call, "type"), body, nil
	case mediaJSON:
		if err := unmarshalJSON(body, call); err != nil {
			return false, nil, refuse(http.StatusBadRequest, "Failed to %v", err)
		}
		raw, _ := parseJSON(body)
		object, _ := raw.(map[string]any)
		value := object["type"]
		if name, ok := value.(string); ok {
			return knownEnum(call, name), body, nil
		}
		return value != nil, body, nil
	}
	return false, nil, refuse(http.StatusUnsupportedMediaType, "Expecting 'Content-Type' of %s or %s", mediaJSON, mediaProtobuf)
}

// acceptedMedia chooses the type of a streamed or plain answer from Accept; "" if nothing fits.
func acceptedMedia(r *http.Request) string {
	values := r.Header.Values("Accept")
	if len(values) == 0 {
		return mediaJSON
	}
	result := ""
	for _, part := range strings.Split(strings.Join(values, ","), ",") {
		media, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.Contains(strings.ReplaceAll(params, " ", ""), "q=0") && !strings.Contains(params, "q=0.") {
			continue
		}
		switch strings.TrimSpace(media) {
		case mediaJSON, "*/*", "application/*":
			return mediaJSON
		case mediaProtobuf:
			if result == "" {
				result = mediaProtobuf
			}
		}
	}
	return result
}

func notAcceptable() *httpError {
	return refuse(http.StatusNotAcceptable, "Expecting 'Accept' to allow '%s' or '%s'", mediaProtobuf, mediaJSON)
}
