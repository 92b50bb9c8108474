// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"context"
	"fmt"
)

// Probe asks the configured masters who leads and whether it takes the credential; nothing is subscribed. It returns the
// master's address.
func (s *System) Probe(ctx context.Context) (string, error) {
	s.mu.Lock()
	args := s.args
	s.mu.Unlock()
	client, err := newClient(args)
	if err != nil {
		return "", err
	}
	defer client.Close()
	return client.Probe(ctx)
}

// Warnings says what in the configuration is allowed, but seldom meant.
func (s *System) Warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.args
	var out []string
	if a.FailoverTimeout.Duration < s.args.ReholdTimeout.Duration*10 {
		out = append(out, fmt.Sprintf("failoverTimeout is %s: when no scheduler has been connected for so long, Mesos kills every task and never takes the framework id again", a.FailoverTimeout.Duration))
	}
	if a.TLS == nil && (a.Authentication.SecretFile != "" || a.Authentication.BearerTokenFile != "") {
		out = append(out, "authentication without tls: the secret crosses the network as it is, unless all masters are https")
	}
	if a.Revocable {
		out = append(out, "revocable: Mesos may take revocable resources back from running pods at any time")
	}
	return out
}
