// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startLimit bounds the start of one program; a loaded machine needs seconds.
const startLimit = 2 * time.Minute

func (c *Cluster) startControlPlane(ctx context.Context, apiPort int) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	c.ports = append(c.ports, ports...)
	etcdURL := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", ports[1])

	c.Etcd = c.NewProcess("etcd", c.tool("etcd"),
		"--name=default",
		"--data-dir="+c.path("etcd"),
		"--listen-client-urls="+etcdURL,
		"--advertise-client-urls="+etcdURL,
		"--listen-peer-urls="+peerURL,
		"--initial-advertise-peer-urls="+peerURL,
		"--initial-cluster=default="+peerURL,
		"--unsafe-no-fsync",
		"--log-level=warn",
	)
	c.options.Logf("starting etcd on %s", etcdURL)
	if err := c.Etcd.Start(); err != nil {
		return err
	}
	policy, err := c.writeAuditPolicy()
	if err != nil {
		return err
	}
	c.APIServer = c.NewProcess("kube-apiserver", c.tool("kube-apiserver"), append(c.apiServerArgs(etcdURL, apiPort),
		"--audit-policy-file="+policy, "--audit-log-path="+c.auditLog(), "--audit-log-format=json")...)
	c.options.Logf("starting kube-apiserver on %s", c.url)
	// The API server waits for etcd by itself.
	if err := c.APIServer.Start(); err != nil {
		return err
	}
	if !c.options.ControllerManager {
		return nil
	}
	if err := c.waitAPIServer(ctx); err != nil {
		return err
	}
	c.ControllerManager = c.NewProcess("kube-controller-manager", c.tool("kube-controller-manager"), c.controllerManagerArgs(ports[2])...)
	c.options.Logf("starting kube-controller-manager")
	return c.ControllerManager.Start()
}

func (c *Cluster) apiServerArgs(etcdURL string, port int) []string {
	args := []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--cert-dir=" + c.path("pki"),
		"--tls-cert-file=" + c.path("pki", "apiserver.crt"),
		"--tls-private-key-file=" + c.path("pki", "apiserver.key"),
		"--client-ca-file=" + c.path("pki", "ca.crt"),
		"--requestheader-client-ca-file=" + c.path("pki", "front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + c.path("pki", "sa.key"),
		"--service-account-key-file=" + c.path("pki", "sa.pub"),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--endpoint-reconciler-type=none",
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=1500",
		// A stopped API server must not linger for its clients' watches.
		"--shutdown-delay-duration=0s",
		"--profiling=false",
	}
	if !c.options.ControllerManager {
		// Nobody makes the service accounts that this plugin asks of every pod.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if c.options.RuntimeConfig != "" {
		args = append(args, "--runtime-config="+c.options.RuntimeConfig)
	}
	return append(args, c.featureGates()...)
}

func (c *Cluster) controllerManagerArgs(port int) []string {
	grace := c.options.NodeMonitorGracePeriod
	if grace == 0 {
		grace = 40 * time.Second
	}
	return append([]string{
		"--kubeconfig=" + c.AdminKubeconfig(),
		"--authentication-kubeconfig=" + c.AdminKubeconfig(),
		"--authorization-kubeconfig=" + c.AdminKubeconfig(),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--cert-dir=" + c.path("pki"),
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.path("pki", "sa.key"),
		"--root-ca-file=" + c.path("pki", "ca.crt"),
		"--cluster-signing-cert-file=" + c.path("pki", "ca.crt"),
		"--cluster-signing-key-file=" + c.path("pki", "ca.key"),
		"--node-monitor-grace-period=" + grace.String(),
		"--node-monitor-period=1s",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--profiling=false",
	}, c.featureGates()...)
}

func (c *Cluster) featureGates() []string {
	if len(c.options.FeatureGates) == 0 {
		return nil
	}
	var gates []string
	for name, on := range c.options.FeatureGates {
		gates = append(gates, fmt.Sprintf("%s=%t", name, on))
	}
	slices.Sort(gates)
	return []string{"--feature-gates=" + strings.Join(gates, ",")}
}

// WaitReady waits until the API server serves and, with a controller manager, until pods can be made in the default
// namespace. Use it after a program was started again.
func (c *Cluster) WaitReady(ctx context.Context) error {
	if err := c.waitAPIServer(ctx); err != nil {
		return err
	}
	if c.ControllerManager == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("gave up"))
	defer cancel()
	return c.ControllerManager.WaitUntil(ctx, "kube-controller-manager's service account in namespace default", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (c *Cluster) waitAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("gave up"))
	defer cancel()
	return c.APIServer.WaitUntil(ctx, "kube-apiserver to be ready", func(ctx context.Context) error {
		if !c.Etcd.Running() {
			return fmt.Errorf("etcd does not run: %s", c.Etcd.LogTail(3))
		}
		var status int
		err := c.Client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status).Error()
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz answers %d", status)
		}
		if err != nil {
			return err
		}
		// Made by the API server itself shortly after it is ready.
		_, err = c.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return errors.New("namespace default is not there yet")
		}
		return err
	})
}
