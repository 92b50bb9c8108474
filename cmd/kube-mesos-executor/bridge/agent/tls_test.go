// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/agent/agenttest"
)

var discard = log.New(io.Discard, "", 0)

// serveTLS is an agent that takes https only.
func serveTLS(t *testing.T, cfg *tls.Config, certFile, keyFile string) (endpoint string) {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Certificates = []tls.Certificate{cert}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	s.Config.ErrorLog = discard
	s.TLS = cfg
	s.StartTLS()
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "https://")
}

func TestTLS(t *testing.T) {
	dir, otherDir := t.TempDir(), t.TempDir()
	ca, other := agenttest.NewAuthority(t, dir), agenttest.NewAuthority(t, otherDir)
	caDir, emptyDir := t.TempDir(), t.TempDir()
	data, err := os.ReadFile(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"5ed36f99.0": string(data), "crl": "no certificate"} {
		if err := os.WriteFile(filepath.Join(caDir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	byIP, byIPKey := ca.Sign(t, "127.0.0.1")
	byName, byNameKey := ca.Sign(t, "node-1")
	foreign, foreignKey := other.Sign(t, "executor")
	own, ownKey := ca.Sign(t, "executor")
	plain := serveTLS(t, &tls.Config{}, byIP, byIPKey)
	named := serveTLS(t, &tls.Config{}, byName, byNameKey)
	strict := serveTLS(t, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}, byIP, byIPKey)
	old := serveTLS(t, &tls.Config{MaxVersion: tls.VersionTLS11}, byIP, byIPKey)

	tests := []struct {
		name     string
		endpoint string
		tls      TLS
		want     string // part of the error; empty if there is none
	}{
		{name: "authority in a file", endpoint: plain, tls: TLS{CAFile: ca.File, Verify: true, Names: []string{"127.0.0.1"}}},
		{name: "authority in a folder", endpoint: plain, tls: TLS{CADir: caDir, Verify: true, Names: []string{"127.0.0.1"}}},
		{name: "another authority", endpoint: plain, tls: TLS{CAFile: other.File, Verify: true, Names: []string{"127.0.0.1"}}, want: "certificate of the agent"},
		{name: "authorities of the host", endpoint: plain, tls: TLS{Verify: true, Names: []string{"127.0.0.1"}}, want: "certificate of the agent"},
		{name: "another authority, not verified", endpoint: plain, tls: TLS{CAFile: other.File}},
		{name: "no authority, not verified", endpoint: plain},
		{name: "for the node's name", endpoint: named, tls: TLS{CAFile: ca.File, Verify: true, Names: []string{"127.0.0.1", "node-1"}}},
		{name: "for another name", endpoint: named, tls: TLS{CAFile: ca.File, Verify: true, Names: []string{"127.0.0.1", "node-2"}}, want: `none of ["127.0.0.1" "node-2"]`},
		{name: "for no name", endpoint: named, tls: TLS{CAFile: ca.File, Verify: true}, want: "none of"},
		{name: "own certificate", endpoint: strict, tls: TLS{CAFile: ca.File, Verify: true, Names: []string{"127.0.0.1"}, CertFile: own, KeyFile: ownKey}},
		{name: "own certificate is missing", endpoint: strict, tls: TLS{CAFile: ca.File, Verify: true, Names: []string{"127.0.0.1"}}, want: "certificate required"},
		{name: "own certificate of another authority", endpoint: strict, tls: TLS{CAFile: ca.File, Verify: true, Names: []string{"127.0.0.1"}, CertFile: foreign, KeyFile: foreignKey}, want: "tls: "},
		{name: "own certificate is gone", endpoint: strict, tls: TLS{CertFile: "/no/such/file", KeyFile: ownKey}, want: "/no/such/file"},
		{name: "authority is gone", endpoint: plain, tls: TLS{CAFile: "/no/such/file", Verify: true}, want: "/no/such/file"},
		{name: "authority is garbage", endpoint: plain, tls: TLS{CAFile: ownKey, Verify: true}, want: "no certificate in PEM"},
		{name: "folder without one", endpoint: plain, tls: TLS{CADir: emptyDir, Verify: true}, want: "no file with a certificate"},
		{name: "an old version", endpoint: old, tls: TLS{}, want: "protocol version"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewClient(Config{Endpoint: tt.endpoint, TLS: &tt.tls, Token: "secret"})
			defer c.Close()
			err := c.Update(t.Context(), mesos.TaskStatus{State: mesos.TASK_RUNNING.Enum()})
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// Certificates are renewed while the executor runs.
func TestTLSFilesAreReadAgain(t *testing.T) {
	ca, next := agenttest.NewAuthority(t, t.TempDir()), agenttest.NewAuthority(t, t.TempDir())
	cert, key := next.Sign(t, "127.0.0.1")
	file := filepath.Join(t.TempDir(), "ca.pem")
	copyFile := func(from string) {
		t.Helper()
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copyFile(ca.File)
	c := NewClient(Config{Endpoint: serveTLS(t, &tls.Config{}, cert, key), TLS: &TLS{CAFile: file, Verify: true, Names: []string{"127.0.0.1"}}})
	defer c.Close()
	status := mesos.TaskStatus{State: mesos.TASK_RUNNING.Enum()}
	if err := c.Update(t.Context(), status); err == nil {
		t.Error("An unknown authority is trusted")
	}
	copyFile(next.File)
	if err := c.Update(t.Context(), status); err != nil {
		t.Errorf("After the file has changed: %v", err)
	}
}

// An agent that takes TLS only hangs up on a plain request, or answers with an error of its own. libprocess does the first.
func TestPlainRequestToAnAgentWithTLS(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}))
	defer s.Close()
	c := NewClient(Config{Endpoint: strings.TrimPrefix(s.URL, "http://")})
	defer c.Close()
	if _, err := c.Subscribe(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "LIBPROCESS_SSL_ENABLED=true") {
		t.Errorf("Error %v does not say what may be missing", err)
	}
}

func TestTLSCheck(t *testing.T) {
	ca := agenttest.NewAuthority(t, t.TempDir())
	cert, key := ca.Sign(t, "executor")
	for name, tt := range map[string]struct {
		tls  TLS
		want []string
	}{
		"nothing":    {},
		"all":        {tls: TLS{CAFile: ca.File, CADir: filepath.Dir(ca.File), CertFile: cert, KeyFile: key}},
		"both wrong": {tls: TLS{CAFile: "/no/ca", CertFile: cert, KeyFile: "/no/key"}, want: []string{"/no/ca", "/no/key"}},
		"mixed up":   {tls: TLS{CAFile: key, CertFile: key, KeyFile: cert}, want: []string{"no certificate in PEM", "certificate " + key}},
		"no folder":  {tls: TLS{CADir: "/no/dir"}, want: []string{"/no/dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.tls.Check()
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("Error %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not name %q", err, want)
				}
			}
		})
	}
}
