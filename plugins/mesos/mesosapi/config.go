// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"crypto/tls"
	"fmt"
	"time"

	"k8s.io/utils/clock"
)

// A Config says how to reach the masters of one Mesos cluster.
type Config struct {
	// Masters are the masters in any order, each as host:port, http://host:port or https://host:port, or exactly one
	// zk://[user:password@]host:port[,host:port...]/path. Without a scheme, and for masters found in ZooKeeper, https is
	// used if TLS is set and http if not.
	Masters []string
	// Credential returns what authenticates a request. It is called for each request, from many goroutines, so that
	// files can be read again when they change. Nil means that requests carry no credential.
	Credential func() (Credential, error)
	// TLS is for masters that are reached by https; nil means the system's defaults.
	TLS *tls.Config
	// MaxFrame caps the size of one event in bytes; 0 means DefaultMaxFrame.
	MaxFrame int
	// DialTimeout bounds a TCP connect, and a TLS handshake; 0 means 10 s.
	DialTimeout time.Duration
	// CallTimeout bounds a call from its first byte to its answer, and the wait for the answer to SUBSCRIBE; 0 means 30 s.
	CallTimeout time.Duration
	// MissedHeartbeats is how many heartbeat intervals without a byte end a stream; 0 means 5.
	MissedHeartbeats int
	// Clock times the silence of a stream; nil means the real one. Timers run on monotonic time.
	Clock clock.WithDelayedExecution
}

// defaultHeartbeat is the interval that masters use (src/master/constants.hpp); a stream announces its own when it begins.
const defaultHeartbeat = 15 * time.Second

// complete returns the config with its defaults filled in, or an error that names the field, its value and what would
// be right.
func (c Config) complete() (Config, error) {
	if c.MaxFrame < 0 {
		return c, fmt.Errorf("maxFrame: %d: want a number of bytes, or 0 for %d", c.MaxFrame, DefaultMaxFrame)
	}
	if c.DialTimeout < 0 {
		return c, fmt.Errorf("dialTimeout: %v: want a positive time, or 0 for 10s", c.DialTimeout)
	}
	if c.CallTimeout < 0 {
		return c, fmt.Errorf("callTimeout: %v: want a positive time, or 0 for 30s", c.CallTimeout)
	}
	if c.MissedHeartbeats < 0 {
		return c, fmt.Errorf("missedHeartbeats: %d: want a positive number, or 0 for 5", c.MissedHeartbeats)
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = 10 * time.Second
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = 30 * time.Second
	}
	if c.MissedHeartbeats == 0 {
		c.MissedHeartbeats = 5
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return c, nil
}

func (c Config) defaultScheme() string {
	if c.TLS != nil {
		return "https"
	}
	return "http"
}
