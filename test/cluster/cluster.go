// SPDX-License-Identifier: Apache-2.0

// Package cluster starts a real Kubernetes control plane on loopback, with kwok and hollow kubelets as its nodes, for
// whole-system tests and for the demo.
//
// The programs are the ones that hack/control-plane.sh builds into .tools: etcd, kube-apiserver,
// kube-controller-manager, kwok, kubemark and kubectl. The API server authorizes with Node,RBAC and runs the
// NodeRestriction admission plugin, so that whatever acts as a node is held to what a node may do. Every program can
// be stopped, killed and started again by itself; it comes back on its old address with its old data.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Options say what to start and where.
type Options struct {
	// Dir is the state directory: data, certificates, kubeconfigs and logs. It is made if it does not exist.
	Dir string
	// Tools is the folder of the control plane's programs; empty means the one that FindTools finds.
	Tools string
	// ControllerManager starts kube-controller-manager: Deployments, Jobs, garbage collection, service accounts, node
	// lifecycle. Without it pods are created by the test itself and need no service account.
	ControllerManager bool
	// NodeMonitorGracePeriod is after what silence of a node's kubelet the node counts as not ready; 0 means 40 s.
	NodeMonitorGracePeriod time.Duration
	// FeatureGates are for the API server and the controller manager.
	FeatureGates map[string]bool
	// RuntimeConfig switches API groups and versions, as in --runtime-config.
	RuntimeConfig string
	// Detached lets the programs outlive this process; StopRecorded ends them.
	Detached bool
	// Logf, if set, hears in plain words what long steps do.
	Logf func(format string, args ...any)
}

// Cluster is a running control plane with its nodes.
type Cluster struct {
	// AdminConfig and Client act as a cluster administrator, without client-side rate limits.
	AdminConfig *rest.Config
	Client      kubernetes.Interface

	// Etcd, APIServer and ControllerManager are the control plane's programs; ControllerManager is nil unless it was
	// asked for. After one was started again, wait with WaitReady.
	Etcd, APIServer, ControllerManager *Process
	// Kwok plays the nodes of AddKwokNodes; nil before the first.
	Kwok *Process

	options Options
	url     string
	ca      *authority
	// frontProxy signs for those who speak for others, see Proxy.
	frontProxy *authority
	record     *record

	mu        sync.Mutex
	processes []*Process // in the order of their making
	ports     []int
}

// Start starts a control plane and waits until it serves. On an error nothing is left running.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.Dir == "" {
		return nil, errors.New("cluster: Options.Dir is empty")
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, err
	}
	options.Dir = dir
	if options.Tools == "" {
		if options.Tools, err = FindTools(); err != nil {
			return nil, err
		}
	}
	if options.Logf == nil {
		options.Logf = func(string, ...any) {}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	c := &Cluster{options: options, record: &record{path: recordPath(dir)}}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	var err error
	if c.ca, err = newAuthority(); err != nil {
		return err
	}
	if c.frontProxy, err = newAuthority(); err != nil {
		return err
	}
	if err := writePKI(c.path("pki"), c.ca, c.frontProxy); err != nil {
		return err
	}
	port, err := c.Port()
	if err != nil {
		return err
	}
	c.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	if err := c.clientKubeconfig(c.AdminKubeconfig(), c.url, "kube-mesos-admin", "system:masters"); err != nil {
		return err
	}
	if c.AdminConfig, err = clientcmd.BuildConfigFromFlags("", c.AdminKubeconfig()); err != nil {
		return err
	}
	c.AdminConfig.QPS = -1
	if c.Client, err = kubernetes.NewForConfig(c.AdminConfig); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx, port); err != nil {
		return err
	}
	return c.WaitReady(ctx)
}

// FindTools returns the .tools folder of this repository, looking upwards from the working directory.
func FindTools() (string, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return "", err
	}
	tools := filepath.Join(root, ".tools")
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kwok", "kubemark"} {
		if _, err := os.Stat(filepath.Join(tools, name)); err != nil {
			return "", fmt.Errorf("the control plane's programs are not built, run `make tools`: %w", err)
		}
	}
	return tools, nil
}

// RepositoryRoot is the folder with go.mod, looking upwards from the working directory.
func RepositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod in %s or above", start)
		}
	}
}

// Dir is the state directory, an absolute path.
func (c *Cluster) Dir() string { return c.options.Dir }

// URL is the address of the API server.
func (c *Cluster) URL() string { return c.url }

// AdminKubeconfig is the path of a kubeconfig that may do everything.
func (c *Cluster) AdminKubeconfig() string { return c.path("kubeconfig") }

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.options.Dir}, elem...)...)
}

func (c *Cluster) tool(name string) string { return filepath.Join(c.options.Tools, name) }

// Port returns a free port on 127.0.0.1 that is the cluster's until Stop.
func (c *Cluster) Port() (int, error) {
	port, err := FreePort()
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports = append(c.ports, port)
	return port, nil
}

// NewProcess returns a program, not yet started, that Stop will end. It logs to logs/NAME.log in the state directory.
func (c *Cluster) NewProcess(name, path string, args ...string) *Process {
	p := &Process{
		Name:     name,
		Path:     path,
		Args:     args,
		LogFile:  c.path("logs", name+".log"),
		Detached: c.options.Detached,
		started:  func(pid int) { c.record.add(name, pid) },
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return p
}

// Ended returns the programs that were started and do not run.
func (c *Cluster) Ended() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ended []*Process
	for _, p := range c.processes {
		if p.PID() != 0 && !p.Running() {
			ended = append(ended, p)
		}
	}
	return ended
}

// Stop ends every program of the cluster, the last made first. The state directory stays.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	processes, ports := c.processes, c.ports
	c.processes, c.ports = nil, nil
	c.mu.Unlock()
	var errs []error
	for i := len(processes) - 1; i >= 0; i-- {
		errs = append(errs, processes[i].Stop())
	}
	for _, port := range ports {
		ReleasePort(port)
	}
	return errors.Join(append(errs, c.record.remove())...)
}

// clientKubeconfig writes a kubeconfig for the API server at url with a client certificate for user, a member of groups.
func (c *Cluster) clientKubeconfig(path, url, user string, groups ...string) error {
	pair, err := c.ca.client(user, groups...)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return writeKubeconfig(path, url, c.ca.pem, "", &clientcmdapi.AuthInfo{
		ClientCertificateData: pair.cert,
		ClientKeyData:         pair.key,
	})
}
