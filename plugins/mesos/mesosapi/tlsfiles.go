// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLSFiles names the files that a TLS configuration comes from.
type TLSFiles struct {
	// CAFile holds the certificate authorities of masters in PEM; empty means the system's.
	CAFile string
	// CertFile and KeyFile hold a client certificate and its key in PEM; empty means none.
	CertFile, KeyFile string
	// ServerName is checked against masters' certificates; empty means the host of each address.
	ServerName string
	// MinVersion is the lowest version of TLS, such as tls.VersionTLS12, which 0 means too.
	MinVersion uint16
}

// Config reads the files once to find errors in them. The client certificate is read again at each handshake, so that
// a rotated one is used by the next connection; the certificate authorities are not.
func (f TLSFiles) Config() (*tls.Config, error) {
	cfg := &tls.Config{ServerName: f.ServerName, MinVersion: max(f.MinVersion, tls.VersionTLS12)}
	if f.CAFile != "" {
		data, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate authorities: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", f.CAFile)
		}
	}
	if (f.CertFile == "") != (f.KeyFile == "") {
		return nil, fmt.Errorf("a client certificate needs both files: certificate %q, key %q", f.CertFile, f.KeyFile)
	}
	if f.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("reading the client certificate %s with the key %s: %w", f.CertFile, f.KeyFile, err)
			}
			return &cert, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return cfg, nil
}
