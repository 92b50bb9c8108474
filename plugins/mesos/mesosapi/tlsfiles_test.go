// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// writeCert writes a self-signed certificate and its key for a name.
func writeCert(t *testing.T, certFile, keyFile, name string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// A master that wants a client certificate gets the one that is in the files when the connection is made.
func TestTLSFilesWithAClientCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key, ca := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "ca")
	writeCert(t, cert, key, "first")
	m := newFakeMaster(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert})
	var mu sync.Mutex
	var names []string
	m.subscribe = func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		names = append(names, r.TLS.PeerCertificates[0].Subject.CommonName)
		mu.Unlock()
		streamOf("s", subscribedFrame(15))(w, r)
	}
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := TLSFiles{CAFile: ca, CertFile: cert, KeyFile: key, ServerName: "example.com", MinVersion: tls.VersionTLS13}.Config()
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Config{Masters: []string{m.URL}, TLS: cfg})
	for i := range 2 {
		s, err := c.Subscribe(t.Context(), subscribeCall())
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if i == 0 {
			writeCert(t, cert, key, "second")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(names, " "); got != "first second" {
		t.Errorf("The master saw the certificates %q, want first and second", got)
	}
}

func TestTLSFilesThatAreWrong(t *testing.T) {
	dir := t.TempDir()
	cert, key, other, text := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "other"), filepath.Join(dir, "text")
	writeCert(t, cert, other, "first")
	writeCert(t, cert, key, "second")
	if err := os.WriteFile(text, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent")
	for name, tt := range map[string]struct {
		files TLSFiles
		want  string // in the error; empty: none
	}{
		"nothing":               {TLSFiles{}, ""},
		"all":                   {TLSFiles{CAFile: cert, CertFile: cert, KeyFile: key}, ""},
		"absent authorities":    {TLSFiles{CAFile: absent}, absent},
		"authorities of text":   {TLSFiles{CAFile: text}, text},
		"no key":                {TLSFiles{CertFile: cert}, "both"},
		"no certificate":        {TLSFiles{KeyFile: key}, "both"},
		"absent certificate":    {TLSFiles{CertFile: absent, KeyFile: key}, absent},
		"the key of another":    {TLSFiles{CertFile: cert, KeyFile: other}, other},
		"a certificate of text": {TLSFiles{CertFile: text, KeyFile: key}, text},
	} {
		cfg, err := tt.files.Config()
		switch {
		case tt.want == "" && (err != nil || cfg.MinVersion != tls.VersionTLS12):
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want an error with %q", name, err, tt.want)
		}
	}
}
