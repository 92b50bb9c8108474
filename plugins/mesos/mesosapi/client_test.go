// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

func secret() (Credential, error) { return Credential{Principal: "me", Secret: "hush"}, nil }

// authorized lists, for each request that a master saw, whether it carried a credential.
func authorized(f *fakeMaster) []bool {
	var all []bool
	for _, r := range f.requests() {
		all = append(all, r.header.Get("Authorization") != "")
	}
	return all
}

func TestSubscribeSendsWhatAMasterWants(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://"+deadAddress(t))
	m := newFakeMaster(t, nil)
	s := subscribed(t, Config{Masters: []string{m.host()}, Credential: secret})
	if err := s.Call(t.Context(), reviveCall()); err != nil {
		t.Fatal(err)
	}
	if s.Master() != m.URL || s.ID() != "stream-1" {
		t.Errorf("Master %s, id %s", s.Master(), s.ID())
	}
	requests := m.requests()
	if len(requests) != 2 {
		t.Fatalf("%d requests, want 2", len(requests))
	}
	for i, want := range []http.Header{
		{"Accept": {mediaType}, "Content-Type": {mediaType}, "Authorization": {"Basic bWU6aHVzaA=="}},
		{"Content-Type": {mediaType}, "Authorization": {"Basic bWU6aHVzaA=="}, "Mesos-Stream-Id": {"stream-1"}},
	} {
		got := requests[i].header.Clone()
		for _, key := range []string{"User-Agent", "Content-Length"} {
			got.Del(key)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Header of request %d (-want,+got):\n%s", i, diff)
		}
	}
}

func TestSubscribeFindsTheLeader(t *testing.T) {
	// Each master is a word: leader, refused (nobody listens), 503, 404, 401, >n (redirects to number n),
	// >x (to a leader that is not configured), >loop (to a long chain of strangers).
	for name, tt := range map[string]struct {
		masters  []string
		want     int    // number of the leader, -1 for the stranger, -2 for none
		wantKind error  // for none
		wantText string // for none
	}{
		"first":                        {[]string{"leader", "503"}, 0, nil, ""},
		"last":                         {[]string{"503", "404", "refused", "leader"}, 3, nil, ""},
		"redirect forward":             {[]string{">2", "503", "leader"}, 2, nil, ""},
		"redirect backward":            {[]string{"refused", ">2", "leader"}, 2, nil, ""},
		"redirect to a dead one":       {[]string{">1", "refused", "leader"}, 2, nil, ""},
		"stale redirects":              {[]string{">1", ">0", "leader"}, 2, nil, ""},
		"stranger":                     {[]string{"503", ">x"}, -1, nil, ""},
		"configured before a stranger": {[]string{">x", "leader"}, 1, nil, ""},
		"one refuses, another leads":   {[]string{"401", "400", "leader"}, 2, nil, ""},
		"loop":                         {[]string{">1", ">0"}, -2, ErrNoLeader, "it redirects to"},
		"itself":                       {[]string{">0"}, -2, ErrNoLeader, "it redirects to"},
		"no end":                       {[]string{">loop"}, -2, ErrNoLeader, "8 redirects"},
		"not ready":                    {[]string{"503", "503"}, -2, ErrNoLeader, "Master has not finished recovery"},
		"starting":                     {[]string{"404"}, -2, ErrNoLeader, "404"},
		"unauthorized":                 {[]string{"401", "503"}, -2, ErrUnauthorized, `principal "me"`},
		"bad location":                 {[]string{">"}, -2, ErrNoLeader, "Location"},
	} {
		t.Run(name, func(t *testing.T) {
			stranger := newFakeMaster(t, nil)
			var masters []*fakeMaster
			var addresses []string
			for range tt.masters {
				m := newFakeMaster(t, nil)
				masters, addresses = append(masters, m), append(addresses, m.host())
			}
			for i, word := range tt.masters {
				m := masters[i]
				switch word {
				case "leader":
				case "refused":
					addresses[i] = deadAddress(t)
				case "503":
					m.subscribe = answer(http.StatusServiceUnavailable, "Master has not finished recovery")
				case "404":
					m.subscribe = answer(http.StatusNotFound, "404 Not Found.")
				case "400":
					m.subscribe = answer(http.StatusBadRequest, "Failed to parse body into Call protobuf")
				case "401":
					m.subscribe = answer(http.StatusUnauthorized, "401 Unauthorized.")
				case ">x":
					m.subscribe = redirectTo(stranger.host())
				case ">loop":
					last := m
					for range maxHops + 2 {
						next := newFakeMaster(t, nil)
						last.subscribe = redirectTo(next.host())
						last = next
					}
				case ">":
					m.subscribe = answer(http.StatusTemporaryRedirect, "")
				default:
					var n int
					if _, err := fmt.Sscanf(word, ">%d", &n); err != nil {
						t.Fatal(err)
					}
					m.subscribe = redirectTo(addresses[n])
				}
			}
			// A redirect may name an address that was found dead above.
			for i, word := range tt.masters {
				var n int
				if _, err := fmt.Sscanf(word, ">%d", &n); err == nil {
					masters[i].subscribe = redirectTo(addresses[n])
				}
			}
			c := newClient(t, Config{Masters: addresses, Credential: secret})
			for range 2 { // the second time the leader is known
				s, err := c.Subscribe(t.Context(), subscribeCall())
				if tt.want == -2 {
					var typed *SubscribeError
					if !errors.As(err, &typed) || !errors.Is(err, tt.wantKind) || !strings.Contains(err.Error(), tt.wantText) {
						t.Fatalf("Subscribe = %v, want kind %v with %q", err, tt.wantKind, tt.wantText)
					}
					if Ambiguous(err) {
						t.Errorf("%v is ambiguous", err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				leader := stranger
				if tt.want >= 0 {
					leader = masters[tt.want]
				}
				if s.Master() != leader.URL {
					t.Errorf("Master = %s, want %s", s.Master(), leader.URL)
				}
				if err := s.Call(t.Context(), reviveCall()); err != nil {
					t.Error(err)
				}
				s.Close()
			}
			// Credentials go to configured masters only, whatever the way there.
			if slices.Contains(authorized(stranger), true) {
				t.Error("A stranger saw the credential")
			}
			for i, m := range masters {
				if slices.Contains(authorized(m), false) {
					t.Errorf("Master %d got a request without the credential", i)
				}
				for _, r := range m.requests() {
					if r.host != m.host() {
						t.Errorf("Master %d was called %s", i, r.host)
					}
				}
			}
			if tt.want >= 0 {
				if got := masters[tt.want].requests(); len(got) != 4 {
					t.Errorf("The leader got %d requests, want SUBSCRIBE and REVIVE twice", len(got))
				}
			}
		})
	}
}

func TestSubscribeAsksTheLastLeaderFirst(t *testing.T) {
	standby, leader := newFakeMaster(t, nil), newFakeMaster(t, nil)
	standby.subscribe = redirectTo(leader.host())
	c := newClient(t, Config{Masters: []string{standby.host(), leader.host()}})
	for range 3 {
		s, err := c.Subscribe(t.Context(), subscribeCall())
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if got := len(standby.requests()); got != 1 {
		t.Errorf("The standby was asked %d times, want once", got)
	}
}

// A 401 of a master outside the configured ones says why it got no credential.
func TestSubscribeToAStrangerThatWantsACredential(t *testing.T) {
	standby, stranger := newFakeMaster(t, nil), newFakeMaster(t, nil)
	standby.subscribe = redirectTo(stranger.host())
	stranger.subscribe = answer(http.StatusUnauthorized, "401 Unauthorized.")
	_, err := newClient(t, Config{Masters: []string{standby.host()}, Credential: secret}).Subscribe(t.Context(), subscribeCall())
	if !errors.Is(err, ErrUnauthorized) || !strings.Contains(err.Error(), "not among the configured ones") || strings.Contains(err.Error(), "hush") {
		t.Errorf("Subscribe = %v", err)
	}
	if slices.Contains(authorized(stranger), true) {
		t.Error("The stranger saw the credential")
	}
}

func trusting(masters ...*fakeMaster) *tls.Config {
	pool := x509.NewCertPool()
	for _, m := range masters {
		pool.AddCert(m.Certificate())
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func TestSubscribeOverTLS(t *testing.T) {
	standby, leader := newFakeMaster(t, &tls.Config{}), newFakeMaster(t, &tls.Config{})
	standby.subscribe = redirectTo(leader.host())
	plain := newFakeMaster(t, nil)
	trust := trusting(standby, leader)

	t.Run("the scheme is kept", func(t *testing.T) {
		s := subscribed(t, Config{Masters: []string{standby.URL, leader.URL}, TLS: trust, Credential: secret})
		if s.Master() != leader.URL || !strings.HasPrefix(s.Master(), "https://") {
			t.Errorf("Master = %s, want %s", s.Master(), leader.URL)
		}
		if err := s.Call(t.Context(), reviveCall()); err != nil {
			t.Error(err)
		}
		if slices.Contains(authorized(leader), false) {
			t.Error("The leader got a request without the credential")
		}
	})
	t.Run("without a scheme it is https", func(t *testing.T) {
		s := subscribed(t, Config{Masters: []string{leader.host()}, TLS: trust})
		if s.Master() != leader.URL {
			t.Errorf("Master = %s, want %s", s.Master(), leader.URL)
		}
	})
	t.Run("no way from https to http", func(t *testing.T) {
		evil := newFakeMaster(t, &tls.Config{})
		evil.subscribe = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", plain.URL+"/master/api/v1/scheduler")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
		_, err := newClient(t, Config{Masters: []string{evil.URL}, TLS: trusting(evil), Credential: secret}).Subscribe(t.Context(), subscribeCall())
		if !errors.Is(err, ErrNoLeader) || !strings.Contains(err.Error(), "from https to http") {
			t.Errorf("Subscribe = %v", err)
		}
		if got := plain.requests(); len(got) != 0 {
			t.Errorf("The plain master got %d requests", len(got))
		}
	})
	t.Run("an unknown certificate", func(t *testing.T) {
		_, err := newClient(t, Config{Masters: []string{leader.URL}, TLS: &tls.Config{RootCAs: x509.NewCertPool()}, Credential: secret}).Subscribe(t.Context(), subscribeCall())
		var unknown x509.UnknownAuthorityError
		if !errors.As(err, &unknown) {
			t.Errorf("Subscribe = %v, want %T", err, unknown)
		}
	})
	t.Run("HTTP/2 is not spoken", func(t *testing.T) {
		both := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 1 {
				http.Error(w, r.Proto, http.StatusBadRequest)
				return
			}
			streamOf("s", subscribedFrame(15))(w, r)
		}))
		both.EnableHTTP2 = true
		both.StartTLS()
		t.Cleanup(func() { both.CloseClientConnections(); both.Close() })
		pool := x509.NewCertPool()
		pool.AddCert(both.Certificate())
		subscribed(t, Config{Masters: []string{both.URL}, TLS: &tls.Config{RootCAs: pool}})
	})
}

func TestSubscribeRefusesWhatIsNoEventStream(t *testing.T) {
	for name, tt := range map[string]http.Header{
		"no content type":  {streamIDHeader: {"s"}, "Content-Type": nil},
		"JSON":             {streamIDHeader: {"s"}, "Content-Type": {"application/json"}},
		"a web page":       {"Content-Type": {"text/html"}},
		"no stream id":     {"Content-Type": {mediaType}},
		"a long stream id": {"Content-Type": {mediaType}, streamIDHeader: {strings.Repeat("x", 1000)}},
		"gzip":             {"Content-Type": {mediaType}, streamIDHeader: {"s"}, "Content-Encoding": {"gzip"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFakeMaster(t, nil)
			m.subscribe = func(w http.ResponseWriter, r *http.Request) {
				for key, values := range tt {
					w.Header()[key] = values
				}
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
			_, err := newClient(t, Config{Masters: []string{m.host()}}).Subscribe(t.Context(), subscribeCall())
			if !errors.Is(err, ErrProtocol) {
				t.Errorf("Subscribe = %v, want kind %v", err, ErrProtocol)
			}
		})
	}
}

func TestSubscribeEndsWithItsContext(t *testing.T) {
	m := newFakeMaster(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	m.subscribe = func(_ http.ResponseWriter, r *http.Request) {
		cancel(why)
		<-r.Context().Done()
	}
	within(t, func() {
		_, err := newClient(t, Config{Masters: []string{m.host()}}).Subscribe(ctx, subscribeCall())
		if !errors.Is(err, why) {
			t.Errorf("Subscribe = %v, want %v", err, why)
		}
	})
}

func TestCredential(t *testing.T) {
	for name, tt := range map[string]struct {
		cred     Credential
		want     string // the header
		wantText string // of the error
	}{
		"none":                {Credential{}, "", ""},
		"basic":               {Credential{Principal: "me", Secret: "hush"}, "Basic bWU6aHVzaA==", ""},
		"bearer":              {Credential{Bearer: "abc.def"}, "Bearer abc.def", ""},
		"both":                {Credential{Principal: "me", Bearer: "abc"}, "", "exclude"},
		"colon in the secret": {Credential{Principal: "me", Secret: "hu:sh"}, "", `the principal "me" contains a colon`},
		"colon in the name":   {Credential{Principal: "m:e", Secret: "hush"}, "", "colon"},
		"no principal":        {Credential{Secret: "hush"}, "", "without a principal"},
		"two lines":           {Credential{Bearer: "hush\r\nX: y"}, "", "control character"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFakeMaster(t, nil)
			_, err := newClient(t, Config{Masters: []string{m.host()}, Credential: func() (Credential, error) { return tt.cred, nil }}).Subscribe(t.Context(), subscribeCall())
			if tt.wantText != "" {
				if !errors.Is(err, ErrUnauthorized) || !strings.Contains(err.Error(), tt.wantText) || strings.Contains(err.Error(), "hu") {
					t.Errorf("Subscribe = %v, want kind %v with %q and no secret", err, ErrUnauthorized, tt.wantText)
				}
				if len(m.requests()) != 0 {
					t.Error("A request was sent")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := m.requests()[0].header.Get("Authorization"); got != tt.want {
				t.Errorf("Authorization = %q, want %q", got, tt.want)
			}
		})
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		text := fmt.Sprintf(format, []Credential{{Principal: "me", Secret: "hush"}, {Bearer: "hush"}})
		if strings.Contains(text, "hush") {
			t.Errorf("%s shows a secret: %s", format, text)
		}
	}
}

// A rotated secret is used from the next request on; a file that cannot be read stops the request.
func TestFileCredentialReadsAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	basic, bearer := FileCredential("me", file, ""), FileCredential("", "", file)
	for _, secret := range []string{"one", "two"} {
		write(secret + "\n")
		if got, err := basic(); err != nil || got != (Credential{Principal: "me", Secret: secret}) {
			t.Errorf("Basic = %v, %v", got, err)
		}
		if got, err := bearer(); err != nil || got != (Credential{Bearer: secret}) {
			t.Errorf("Bearer = %v, %v", got, err)
		}
	}
	if got, err := FileCredential("", "", "")(); err != nil || got != (Credential{}) {
		t.Errorf("Without files: %v, %v", got, err)
	}
	for name, text := range map[string]string{"empty": " \n", "large": strings.Repeat("x", maxSecret+1)} {
		write(text)
		if _, err := basic(); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v, want an error that names the file", name, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	m := newFakeMaster(t, nil)
	_, err := newClient(t, Config{Masters: []string{m.host()}, Credential: basic}).Subscribe(t.Context(), subscribeCall())
	if !errors.Is(err, os.ErrNotExist) || len(m.requests()) != 0 {
		t.Errorf("Without the file: %v, %d requests", err, len(m.requests()))
	}
	if _, err := FileCredential("me", t.TempDir(), "")(); err == nil {
		t.Error("A folder is no secret")
	}
}

func TestSubscribeTakesOnlySubscribe(t *testing.T) {
	m := newFakeMaster(t, nil)
	c := newClient(t, Config{Masters: []string{m.host()}})
	for _, call := range []*scheduler.Call{nil, {}, reviveCall(), {Type: 99}} {
		if _, err := c.Subscribe(t.Context(), call); !errors.Is(err, ErrInvalidCall) || Ambiguous(err) {
			t.Errorf("Subscribe(%v) = %v, want kind %v", call, err, ErrInvalidCall)
		}
	}
	if len(m.requests()) != 0 {
		t.Error("A request was sent")
	}
}
