// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenSeconds is how long a service account's token is good for; no test runs longer.
const tokenSeconds = 7 * 24 * 3600

// ServiceAccountKubeconfig writes a kubeconfig with a token of an existing service account and returns its path. Its
// bearer may do what RBAC gives the service account, nothing else.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	return c.serviceAccountKubeconfig(ctx, c.path("serviceaccounts", namespace+"-"+name+".kubeconfig"), c.url, namespace, name)
}

func (c *Cluster) serviceAccountKubeconfig(ctx context.Context, path, url, namespace, name string) (string, error) {
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of service account %s/%s: %w", namespace, name, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, writeKubeconfig(path, url, c.ca.pem, namespace, &clientcmdapi.AuthInfo{Token: token.Status.Token})
}

// Kubectl runs kubectl as an administrator and returns what it prints. An error carries what it said.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlAs(ctx, c.AdminKubeconfig(), args...)
}

// KubectlAs is Kubectl with another kubeconfig.
func (c *Cluster) KubectlAs(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.tool("kubectl"), append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	cmd.Env = append(environment(), "HOME="+c.path("home")) // its discovery cache
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %v: %w: %s", args, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// Apply applies manifests (files or folders) with server-side apply and strict validation: an unknown or doubled field
// is an error.
func (c *Cluster) Apply(ctx context.Context, paths ...string) (string, error) {
	args := []string{"apply", "--server-side", "--validate=strict"}
	for _, path := range paths {
		args = append(args, "--filename="+path)
	}
	return c.Kubectl(ctx, args...)
}
