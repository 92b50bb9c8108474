// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
)

// tlsOf makes the TLS configuration for the masters, nil if none is asked for. The client certificate is read again for
// each handshake, so that a rotated one is used.
func tlsOf(args *config.TLS) (*tls.Config, error) {
	if args == nil {
		return nil, nil
	}
	c := &tls.Config{ServerName: args.ServerName, MinVersion: tls.VersionTLS12}
	if args.MinVersion == "1.3" {
		c.MinVersion = tls.VersionTLS13
	}
	if args.CAFile != "" {
		pem, err := os.ReadFile(args.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.caFile: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.caFile: %s holds no certificate in PEM form", args.CAFile)
		}
	}
	if args.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(args.CertFile, args.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("tls.certFile and tls.keyFile: %w", err)
			}
			return &cert, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return c, nil
}
