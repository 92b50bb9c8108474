// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"os"
	"path/filepath"
	"strings"
)

// Each scheduler and the executors of each node have an address of their own at the proxy, so that a fault can choose
// whom it strikes.

func clientOf(scheduler string) string { return "scheduler/" + scheduler }

func executorOn(node string) string { return "executor/" + node }

// clientsOf matches the clients of the proxy by the beginning of their names.
func clientsOf(prefix string) func(string) bool {
	return func(client string) bool { return strings.HasPrefix(client, prefix) }
}

// executorKubeconfig is what the executors of a node find the API server with; "{node}" stands for any.
func (w *world) executorKubeconfig(node string) string {
	return filepath.Join(w.dir, "nodes", node+".kubeconfig")
}

// writeExecutorKubeconfig puts a new kubeconfig of a node in the place of the old one at one moment.
func (w *world) writeExecutorKubeconfig(node string, write func(path, url, node string) error) error {
	path := w.executorKubeconfig(node)
	if err := write(path+".next", w.executorURLs[node], node); err != nil {
		return err
	}
	return os.Rename(path+".next", path)
}
