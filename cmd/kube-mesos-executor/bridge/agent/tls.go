// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// TLS says how to speak to an agent that takes https. Its files are read at each handshake, so that they can be renewed.
type TLS struct {
	// CAFile and CADir have the authorities to trust, in PEM; with neither, those of the host.
	CAFile, CADir string
	// CertFile and KeyFile are the executor's own certificate, for agents that ask for one; both may be empty.
	CertFile, KeyFile string
	// Verify says that the agent has to prove who it is.
	Verify bool
	// Names are host names and addresses; the agent's certificate has to be for one of them.
	Names []string
}

// Check reads the files and says what is wrong with them.
func (t *TLS) Check() error {
	_, err := t.authorities()
	if t.CertFile != "" {
		_, certErr := t.certificate(nil)
		err = errors.Join(err, certErr)
	}
	return err
}

func (t *TLS) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// verify does it: with authorities that can be renewed, and for any of several names.
		InsecureSkipVerify:   true,
		VerifyConnection:     t.verify,
		GetClientCertificate: t.certificate,
	}
}

func (t *TLS) verify(state tls.ConnectionState) error {
	if !t.Verify {
		return nil
	}
	roots, err := t.authorities()
	if err != nil {
		return err
	}
	if len(state.PeerCertificates) == 0 {
		return errors.New("the agent sent no certificate")
	}
	leaf := state.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return fmt.Errorf("certificate of the agent: %w", err)
	}
	var errs []error
	for _, name := range t.Names {
		err := leaf.VerifyHostname(name)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("certificate of the agent: it is for none of %q: %w", t.Names, errors.Join(errs...))
}

// certificate is the executor's own; an agent that asks for one gets none if there is none.
func (t *TLS) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if t.CertFile == "" {
		return &tls.Certificate{}, nil
	}
	c, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", t.CertFile, t.KeyFile, err)
	}
	return &c, nil
}

// authorities returns nil for those of the host.
func (t *TLS) authorities() (*x509.CertPool, error) {
	if t.CAFile == "" && t.CADir == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	found := false
	if t.CAFile != "" {
		data, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, err
		}
		if found = pool.AppendCertsFromPEM(data); !found {
			return nil, fmt.Errorf("%s has no certificate in PEM", t.CAFile)
		}
	}
	if t.CADir != "" {
		entries, err := os.ReadDir(t.CADir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			// What is no certificate is left out: such folders also hold revocation lists and links to both.
			if data, err := os.ReadFile(filepath.Join(t.CADir, e.Name())); err == nil {
				found = pool.AppendCertsFromPEM(data) || found
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("%s has no file with a certificate in PEM", t.CADir)
	}
	return pool, nil
}
