// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Names in the manifests.
const (
	SchedulerNamespace = "kube-mesos"
	SchedulerName      = "kube-mesos-scheduler" // of the profile, the service account and the Lease
)

// SchedulerOptions adapt the shipped configuration of the scheduler to a cluster on loopback.
type SchedulerOptions struct {
	// Name of the process, its configuration and its log; empty means kube-mesos-scheduler. Two schedulers of one
	// cluster need two names.
	Name string
	// Binary is the scheduler's program; empty means bin/kube-mesos-scheduler.
	Binary string
	// Masters are the addresses of the Mesos masters.
	Masters []string
	// Executor is the path of the executor's program on the hosts; empty means bin/kube-mesos-executor.
	Executor string
	// LeaseDuration is how long a leader that was killed keeps its successor waiting; 0 means 3 s.
	LeaseDuration time.Duration
	// APIServer is the address of the API server, such as that of a Proxy; empty means the API server's own.
	APIServer string
	// Args are more flags.
	Args []string
	// Mesos is merged over the Mesos plugin's args; a map is merged key by key.
	Mesos map[string]any
	// Edit, if set, changes the configuration at last.
	Edit func(config map[string]any)
}

// Scheduler is a scheduler process that runs with the rights of the manifests' service account.
type Scheduler struct {
	*Process
	// StatusURL is the address of the scheduler's own status listener (/healthz, /readyz).
	StatusURL string
	// SecureURL is the address of kube-scheduler's usual listener (/metrics).
	SecureURL string
	// Config is the path of the configuration.
	Config string
}

// InstallScheduler applies what the scheduler needs in the cluster (namespaces and RBAC) from the manifests.
func (c *Cluster) InstallScheduler(ctx context.Context) error {
	dir, err := manifests()
	if err != nil {
		return err
	}
	_, err = c.Apply(ctx, filepath.Join(dir, "00-namespaces.yaml"), filepath.Join(dir, "10-rbac.yaml"))
	return err
}

func manifests() (string, error) {
	root, err := RepositoryRoot()
	return filepath.Join(root, "manifests"), err
}

// NewScheduler returns a scheduler that is not yet started: its configuration is the one of the manifests with what
// options change, its credentials are a token of the manifests' service account. InstallScheduler must have run.
func (c *Cluster) NewScheduler(ctx context.Context, options SchedulerOptions) (*Scheduler, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	options.Name = or(options.Name, SchedulerName)
	options.Binary = or(options.Binary, filepath.Join(root, "bin", "kube-mesos-scheduler"))
	options.Executor = or(options.Executor, filepath.Join(root, "bin", "kube-mesos-executor"))
	options.LeaseDuration = or(options.LeaseDuration, 3*time.Second)
	path := c.path("serviceaccounts", options.Name+".kubeconfig")
	kubeconfig, err := c.serviceAccountKubeconfig(ctx, path, or(options.APIServer, c.url), SchedulerNamespace, SchedulerName)
	if err != nil {
		return nil, err
	}
	secure, err := c.Port()
	if err != nil {
		return nil, err
	}
	status, err := c.Port()
	if err != nil {
		return nil, err
	}
	s := &Scheduler{
		StatusURL: fmt.Sprintf("http://127.0.0.1:%d", status),
		SecureURL: fmt.Sprintf("https://127.0.0.1:%d", secure),
		Config:    c.path(options.Name + ".yaml"),
	}
	config, err := shippedConfig()
	if err != nil {
		return nil, err
	}
	if err := c.adapt(config, kubeconfig, strings.TrimPrefix(s.StatusURL, "http://"), options); err != nil {
		return nil, err
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.Config, data, 0o644); err != nil {
		return nil, err
	}
	s.Process = c.NewProcess(options.Name, options.Binary, append([]string{
		"--config=" + s.Config,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", secure),
		"--v=2",
	}, options.Args...)...)
	s.StopGrace = 10 * time.Second
	return s, nil
}

// shippedConfig reads the scheduler's configuration from the manifests.
func shippedConfig() (map[string]any, error) {
	dir, err := manifests()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "20-config.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var object corev1.ConfigMap
	if err := yaml.UnmarshalStrict(data, &object); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	config := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(object.Data["config.yaml"]), &config); err != nil {
		return nil, fmt.Errorf("%s: config.yaml: %w", path, err)
	}
	return config, nil
}

// adapt changes the shipped configuration to the cluster's addresses and paths.
func (c *Cluster) adapt(config map[string]any, kubeconfig, statusAddress string, options SchedulerOptions) error {
	merge(config, map[string]any{
		"clientConnection": map[string]any{"kubeconfig": kubeconfig},
		// A successor must not wait long for the lease of a leader that was killed.
		"leaderElection": map[string]any{
			"leaseDuration": options.LeaseDuration.String(),
			"renewDeadline": (options.LeaseDuration * 2 / 3).String(),
			"retryPeriod":   (options.LeaseDuration / 6).String(),
		},
	})
	args := MesosArgs(config)
	if args == nil {
		return errors.New("the shipped configuration has no args for the plugin Mesos")
	}
	masters := make([]any, 0, len(options.Masters))
	for _, m := range options.Masters {
		masters = append(masters, m)
	}
	merge(args, map[string]any{
		"masters":       masters,
		"statusAddress": statusAddress,
		"webUIURL":      "http://" + statusAddress + "/mesos/",
		"executor": map[string]any{
			"path": options.Executor,
			// All nodes are on this host, so each has a file of its own.
			"kubeconfig": c.NodeKubeconfig("{node}"),
		},
	})
	merge(args, options.Mesos)
	if options.Edit != nil {
		options.Edit(config)
	}
	return nil
}

// MesosArgs returns the args of the plugin Mesos in a configuration's first profile that has some, nil if none has.
func MesosArgs(config map[string]any) map[string]any {
	profiles, _ := config["profiles"].([]any)
	for _, p := range profiles {
		profile, _ := p.(map[string]any)
		plugins, _ := profile["pluginConfig"].([]any)
		i := slices.IndexFunc(plugins, func(p any) bool {
			plugin, _ := p.(map[string]any)
			return plugin["name"] == "Mesos"
		})
		if i < 0 {
			continue
		}
		if args, ok := plugins[i].(map[string]any)["args"].(map[string]any); ok {
			return args
		}
	}
	return nil
}

// merge copies src over dst; where both have a map it merges the two.
func merge(dst, src map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(src)) {
		below, isMap := src[key].(map[string]any)
		above, wasMap := dst[key].(map[string]any)
		if isMap && wasMap {
			merge(above, below)
			continue
		}
		dst[key] = src[key]
	}
}

// WaitReady waits until /readyz of the scheduler's status listener answers 200. A scheduler that stands by is ready
// too.
func (s *Scheduler) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("gave up"))
	defer cancel()
	return s.WaitUntil(ctx, s.Name+" to be ready", func(ctx context.Context) error {
		return getOK(ctx, s.StatusURL+"/readyz")
	})
}

// getOK gets a URL and returns an error with the answer unless that is 200.
func getOK(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return err
}
