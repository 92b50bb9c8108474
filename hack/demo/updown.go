// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// parts are the programs of a cluster that is up.
var parts = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kwok", mesosSim, cluster.SchedulerName}

// stopGrace is what the scheduler and the simulator get to end by themselves.
const stopGrace = 10 * time.Second

func upDir(state string) string      { return filepath.Join(state, "up") }
func greeting(state string) string   { return filepath.Join(upDir(state), "greeting") }
func kubeconfig(state string) string { return filepath.Join(state, "kubeconfig") }

// up starts a cluster that outlives this process. If it runs already, up only says so.
func up(ctx context.Context, state string) (err error) {
	dir := upDir(state)
	running, err := cluster.Recorded(dir)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return slices.Contains(running, p) })
	if len(missing) == 0 {
		hello, err := os.ReadFile(greeting(state))
		if err == nil {
			fmt.Printf("It is up already.\n%s", hello)
			return nil
		}
	}
	if len(running) > 0 {
		fmt.Printf("Of a former cluster, %s no longer runs. Ending the rest.\n", strings.Join(missing, ", "))
	}
	if _, err := end(state); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	w, err := build(ctx, dir, true, narrator(time.Now()))
	if err != nil {
		return errors.Join(fmt.Errorf("%w\nlogs: %s/logs", err, dir), w.stop())
	}
	admin, err := os.ReadFile(w.AdminKubeconfig())
	if err == nil {
		err = os.WriteFile(kubeconfig(state), admin, 0o600)
	}
	hello := fmt.Sprintf(`
  export KUBECONFIG=%s
  kubectl get nodes                                    (.tools/kubectl if you have none)
  kubectl apply -f manifests/examples/deployment.yaml  (pods name schedulerName: %s)
  kubectl get pods -o wide

  Mesos master:      %s
  scheduler status:  %s/readyz
  scheduler's page:  %s/mesos/
  what it does:      bin/kubectl-mesos --server %s status
  logs:              %s/logs

It runs until "make down".
`, kubeconfig(state), cluster.SchedulerName, w.master.url, w.scheduler.StatusURL, w.scheduler.StatusURL, w.scheduler.StatusURL, dir)
	if err == nil {
		err = os.WriteFile(greeting(state), []byte(hello), 0o644)
	}
	if err != nil {
		return errors.Join(err, w.stop())
	}
	fmt.Print("It is up.\n" + hello)
	return nil
}

// down ends what up has started. If nothing runs, down only says so.
func down(state string) error {
	ended, err := end(state)
	if err != nil {
		return err
	}
	if len(ended) == 0 {
		fmt.Println("Nothing runs.")
		return nil
	}
	fmt.Printf("Ended %s.\n", strings.Join(ended, ", "))
	return nil
}

// end ends what runs and returns its names.
func end(state string) ([]string, error) {
	ended, err := cluster.StopRecorded(upDir(state), stopGrace, cluster.SchedulerName, mesosSim)
	err = errors.Join(err, endExecutors(upDir(state)))
	for _, file := range []string{greeting(state), kubeconfig(state)} {
		if removeErr := os.Remove(file); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return ended, err
}
