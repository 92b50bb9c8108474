// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	const refusal = `Failed to validate scheduler::Call: Expecting 'type' to be present`
	answer := func(code int, text string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, secret, _ := r.BasicAuth(); r.Method != http.MethodPost || r.URL.Path != apiPath || r.ContentLength > 0 || user != "" && (user != "me" || secret != "hush") {
				t.Errorf("got %s %s with %d bytes as %q", r.Method, r.URL, r.ContentLength, user)
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(text))
		}))
		t.Cleanup(s.Close)
		return s
	}
	leader := answer(400, refusal)
	standby := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", strings.TrimPrefix(leader.URL, "http:")+apiPath)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	t.Cleanup(standby.Close)
	loop := httptest.NewServer(nil)
	t.Cleanup(loop.Close)
	loop.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", strings.TrimPrefix(loop.URL, "http:")+apiPath)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	for name, tt := range map[string]struct {
		masters    []string
		want, fail string
	}{
		"the leader":                        {masters: []string{leader.URL}, want: leader.URL},
		"a standby before it":               {masters: []string{standby.URL, leader.URL}, want: leader.URL},
		"one that is down before it":        {masters: []string{"127.0.0.1:1", leader.URL}, want: leader.URL},
		"a leader that is not configured":   {masters: []string{standby.URL}, fail: "add " + leader.URL + " to masters"},
		"one that redirects to itself":      {masters: []string{loop.URL}, fail: "it redirects to"},
		"one that refuses the credential":   {masters: []string{answer(401, "").URL}, fail: ErrUnauthorized.Error()},
		"one that recovers":                 {masters: []string{answer(503, "Master has not finished recovery").URL}, fail: "has not finished recovery"},
		"something else":                    {masters: []string{answer(200, "hello").URL}, fail: ErrProtocol.Error()},
		"something else that says bad call": {masters: []string{answer(400, "no").URL}, fail: ErrProtocol.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Config{Masters: tt.masters, Credential: func() (Credential, error) { return Credential{Principal: "me", Secret: "hush"}, nil }})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got, err := c.Probe(t.Context())
			switch {
			case tt.fail == "" && (err != nil || got != tt.want):
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			case tt.fail != "" && (err == nil || !strings.Contains(err.Error(), tt.fail)):
				t.Errorf("got %v, want an error with %q", err, tt.fail)
			case err != nil && strings.Contains(err.Error(), "hush"):
				t.Errorf("the error tells the secret: %v", err)
			}
		})
	}
}
