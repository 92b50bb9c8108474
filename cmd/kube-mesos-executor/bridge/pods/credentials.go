// SPDX-License-Identifier: Apache-2.0

// Package pods watches and deletes the pods of one node with the node's own credentials.
package pods

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// QPS and Burst of the client. All pods of a node are deleted at once when the executor is shut down.
const (
	clientQPS   = 200
	clientBurst = 400
)

// credentials is a client and what it was made of.
type credentials struct {
	client      kubernetes.Interface
	http        *http.Client
	fingerprint [sha256.Size]byte
}

// loadConfig reads the kubeconfig and every file that it names. The fingerprint changes when any of them does: the
// kubelet replaces its certificate behind an unchanged kubeconfig.
func loadConfig(path string) (*rest.Config, [sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, sum, fmt.Errorf("read kubeconfig: %w", err)
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, sum, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	h := sha256.New()
	h.Write(raw)
	for _, name := range []string{cfg.CertFile, cfg.KeyFile, cfg.CAFile, cfg.BearerTokenFile} {
		if name == "" {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, sum, fmt.Errorf("kubeconfig %s: %w", path, err)
		}
		fmt.Fprintf(h, "\x00%s\x00%d\x00", name, len(b))
		h.Write(b)
	}
	copy(sum[:], h.Sum(nil))
	// With the data inside, the client neither reads the files again on its own nor keeps a goroutine for that.
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return nil, sum, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = "", "", ""
	cfg.QPS, cfg.Burst = clientQPS, clientBurst
	cfg.UserAgent = "kube-mesos-executor"
	return cfg, sum, nil
}

// Check says whether the kubeconfig at path can be used.
func Check(path string) error {
	_, _, err := loadConfig(path)
	return err
}

func newCredentials(path string) (*credentials, error) {
	cfg, sum, err := loadConfig(path)
	if err != nil {
		return nil, err
	}
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	client, err := kubernetes.NewForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return &credentials{client: client, http: hc, fingerprint: sum}, nil
}

func (c *credentials) close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }
