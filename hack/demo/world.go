// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

const (
	mesosSim = "mesos-sim"
	// What an agent has. Its node looks larger to Kubernetes, so that it is Mesos who decides.
	agentResources = "cpus:4;mem:8192;disk:20000;ports:[31000-32000]"
	nodeCPU        = "16"
	nodeMemory     = "32Gi"
	// stepLimit bounds the wait for one thing; on an idle machine most take a second or two.
	stepLimit = 2 * time.Minute
)

var hosts = []string{"host-1", "host-2", "host-3"}

// world is everything that runs.
type world struct {
	*cluster.Cluster
	scheduler *cluster.Scheduler
	sim       *cluster.Process
	master    master
	say       func(format string, args ...any)
}

// build starts everything in dir. The caller stops it, also after an error.
func build(ctx context.Context, dir string, detached bool, say func(string, ...any)) (*world, error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"kube-mesos-scheduler", "kube-mesos-executor", mesosSim} {
		if _, err := os.Stat(filepath.Join(root, "bin", name)); err != nil {
			return nil, fmt.Errorf("run `make build`: %w", err)
		}
	}
	w := &world{say: say}
	say("Starting a Kubernetes control plane: etcd, kube-apiserver, kube-controller-manager.")
	w.Cluster, err = cluster.Start(ctx, cluster.Options{Dir: dir, ControllerManager: true, Detached: detached})
	if err != nil {
		return nil, err
	}
	var nodes []cluster.Node
	for _, host := range hosts {
		nodes = append(nodes, cluster.Node{Name: host, CPU: nodeCPU, Memory: nodeMemory})
	}
	say("Adding %d nodes, played by kwok: %s.", len(hosts), strings.Join(hosts, ", "))
	if err := w.AddKwokNodes(ctx, nodes...); err != nil {
		return w, err
	}
	if err := w.startMesos(ctx, filepath.Join(root, "bin", mesosSim)); err != nil {
		return w, err
	}
	say("Installing the scheduler as a second scheduler (namespace, service account and RBAC of manifests/) and starting it.")
	if err := w.InstallScheduler(ctx); err != nil {
		return w, err
	}
	w.scheduler, err = w.NewScheduler(ctx, cluster.SchedulerOptions{Masters: []string{w.master.url}})
	if err != nil {
		return w, err
	}
	if err := w.startScheduler(ctx); err != nil {
		return w, err
	}
	return w, nil
}

// startMesos starts the simulated Mesos cluster, whose agents have the host names of the nodes.
func (w *world) startMesos(ctx context.Context, binary string) error {
	port, err := w.Port()
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	w.master = master{url: "http://" + address}
	args := []string{"--listen=" + address, "--work-dir=" + filepath.Join(w.Dir(), "mesos"), "--v=2"}
	for _, host := range hosts {
		args = append(args, fmt.Sprintf("--agent=name=%s resources=%s", host, agentResources))
	}
	w.say("Starting a simulated Mesos master on %s with %d agents of the same host names, %s each.", w.master.url, len(hosts), agentResources)
	w.sim = w.NewProcess(mesosSim, binary, args...)
	w.sim.StopGrace = 10 * time.Second
	if err := w.sim.Start(); err != nil {
		return err
	}
	return w.wait(ctx, "the Mesos master to know its agents", func(ctx context.Context) error {
		agents, err := w.master.agents(ctx)
		if err == nil && len(agents) != len(hosts) {
			err = fmt.Errorf("it knows %d", len(agents))
		}
		return err
	})
}

// startScheduler starts the scheduler and waits until it leads and its framework is connected.
func (w *world) startScheduler(ctx context.Context) error {
	before, err := w.leader(ctx)
	if err != nil {
		return err
	}
	if err := w.scheduler.Start(); err != nil {
		return err
	}
	err = w.wait(ctx, "the scheduler to lead and to be connected to the Mesos master", func(ctx context.Context) error {
		switch now, err := w.leader(ctx); {
		case err != nil:
			return err
		case now == "":
			return errors.New("nobody leads yet")
		case now == before:
			return errors.New("the lease is still the former leader's")
		}
		f, err := w.master.framework(ctx)
		if err == nil && !f.Connected {
			err = errors.New("the framework is not connected")
		}
		return err
	})
	if err != nil {
		return err
	}
	return w.scheduler.WaitReady(ctx)
}

// leader is the holder of the scheduler's lease, empty if there is none.
func (w *world) leader(ctx context.Context) (string, error) {
	lease, err := w.Client.CoordinationV1().Leases(cluster.SchedulerNamespace).Get(ctx, cluster.SchedulerName, metav1.GetOptions{})
	if isNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return holder(lease), nil
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// wait waits for something. It says every ten seconds that it still does, and gives up when a program ends.
func (w *world) wait(ctx context.Context, what string, cond func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	said := time.Now()
	return cluster.WaitAtMost(ctx, stepLimit, what, func(ctx context.Context) error {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		for _, p := range w.Ended() {
			cancel(fmt.Errorf("%s has ended, last lines of its log:\n%s", p.Name, p.LogTail(15)))
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			w.say("... waiting for %s: %v", what, err)
		}
		return err
	})
}

// stop ends everything. What a simulator that was killed has left running is ended too.
func (w *world) stop() error {
	if w == nil || w.Cluster == nil {
		return nil
	}
	return errors.Join(w.Stop(), endExecutors(w.Dir()))
}
