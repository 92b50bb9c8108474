// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// masterOptions say how a Mesos master is reached with an operator's own credentials.
type masterOptions struct {
	url, principal, secretFile, caFile string
}

func (m *masterOptions) check() error {
	if m.url == "" {
		return nil
	}
	if !strings.Contains(m.url, "://") {
		m.url = "http://" + m.url
	}
	u, err := url.Parse(m.url)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("--master is %q, it must be a URL such as http://mesos-master:5050", m.url)
	case u.User != nil:
		return errors.New("--master must hold no password: use --principal and --secret-file")
	case (m.principal == "") != (m.secretFile == ""):
		return errors.New("--principal and --secret-file go together")
	}
	return nil
}

// drain sends DRAIN_AGENT of Mesos' v1 operator API.
func (m *masterOptions) drain(ctx context.Context, agentID string, grace time.Duration, markGone bool) error {
	call := map[string]any{"agent_id": map[string]string{"value": agentID}}
	if grace > 0 {
		call["max_grace_period"] = map[string]int64{"nanoseconds": grace.Nanoseconds()}
	}
	if markGone {
		call["mark_gone"] = true
	}
	body, err := json.Marshal(map[string]any{"type": "DRAIN_AGENT", "drain_agent": call})
	if err != nil {
		return err
	}
	client, err := m.client()
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(m.url, "/")+"/api/v1", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if m.secretFile != "" {
		secret, err := os.ReadFile(m.secretFile)
		if err != nil {
			return fmt.Errorf("--secret-file: %w", err)
		}
		request.SetBasicAuth(m.principal, strings.TrimRight(string(secret), "\r\n"))
	}
	// A master that does not lead redirects to the one that does; Go keeps the body, and credentials for the same host only.
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the Mesos master to drain agent %s: %w", agentID, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	if err != nil {
		return fmt.Errorf("the Mesos master refuses to drain agent %s: %w", agentID, err)
	}
	return nil
}

func (m *masterOptions) client() (*http.Client, error) {
	if m.caFile == "" {
		return http.DefaultClient, nil
	}
	pem, err := os.ReadFile(m.caFile)
	if err != nil {
		return nil, fmt.Errorf("--master-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--master-ca-file: %s holds no certificate in PEM form", m.caFile)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}, nil
}
