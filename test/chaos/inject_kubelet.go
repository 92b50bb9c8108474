// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// startHollow starts a hollow kubelet for each node.
func (w *world) startHollow(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range w.nodes {
		group.Go(func() error {
			p, err := w.c.StartHollowNode(ctx, name)
			if err != nil {
				return err
			}
			w.bench.Lock()
			defer w.bench.Unlock()
			w.kubelets[name] = p
			return nil
		})
	}
	return group.Wait()
}

// stopKubelet stops a node's kubelet with SIGSTOP for a while.
func (in *injector) stopKubelet(ctx context.Context, f fault) error {
	p := in.kubelets[in.nodes[f.agent]]
	in.begin(f, incident{})
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	pause(ctx, f.lasts)
	return p.Signal(syscall.SIGCONT)
}

// restartKubelet kills a node's kubelet and starts it again. The fake runtime goes with it, as when a host reboots.
func (in *injector) restartKubelet(ctx context.Context, f fault) error {
	p := in.kubelets[in.nodes[f.agent]]
	in.begin(f, incident{})
	if err := p.Kill(); err != nil {
		return err
	}
	pause(ctx, f.lasts)
	return p.Start()
}
