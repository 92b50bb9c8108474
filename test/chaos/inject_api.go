// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// apiActions are the faults between the programs and the API server. They hide nothing of Mesos from the scheduler.
func (in *injector) apiActions() map[string]action {
	strike := func(make func(f fault) *apiFault) action {
		return func(_ context.Context, f fault) error {
			in.begin(f, incident{})
			in.api.add(make(f))
			return nil
		}
	}
	return map[string]action{
		"api-refuse": strike(func(f fault) *apiFault {
			code, _ := strconv.Atoi(f.variant)
			return &apiFault{request: f.call, times: f.n, act: refuse(code)}
		}),
		"api-delay":        strike(func(f fault) *apiFault { return &apiFault{request: f.call, times: f.n, act: before(f.lasts)} }),
		"api-lose-request": strike(func(f fault) *apiFault { return &apiFault{request: f.call, times: f.n, act: loseRequest} }),
		"api-lose-answer": strike(func(f fault) *apiFault {
			out := &apiFault{request: f.call, times: f.n, act: loseAnswer(broken)}
			switch f.variant {
			case "timeout":
				out.act = loseAnswer(timedOut)
			case "late":
				out.act = loseAnswer(late(f.lasts))
			}
			return out
		}),
		"api-slow": func(ctx context.Context, f fault) error {
			in.begin(f, incident{})
			in.api.setSlow(time.Duration(f.n) * ms)
			pause(ctx, f.lasts)
			in.api.setSlow(0)
			return nil
		},
		"api-cut": func(_ context.Context, f fault) error {
			in.begin(f, incident{})
			in.proxy.Cut(clientsOf(f.variant))
			return nil
		},
		"api-away": func(ctx context.Context, f fault) error {
			in.begin(f, incident{})
			in.proxy.Away(clientsOf(f.variant), true)
			pause(ctx, f.lasts)
			in.proxy.Away(clientsOf(f.variant), false)
			return nil
		},
		"steal-lease":        in.stealLease,
		"rotate-credentials": in.rotateCredentials,
		"node-not-ready":     in.nodeNotReady,
	}
}

// stealLease gives the Lease to nobody that exists, as a person or a clock that is wrong might: the leader loses it.
func (in *injector) stealLease(ctx context.Context, f fault) error {
	leases := in.c.Client.CoordinationV1().Leases(cluster.SchedulerNamespace)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		lease, err := leases.Get(ctx, cluster.SchedulerName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		nobody, now := "nobody", metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &nobody, &now
		if _, err = leases.Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
			in.begin(f, incident{hides: true})
			return nil
		}
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// rotateCredentials gives the executors of a node a new certificate. The variant "wrong" first leaves them for a while with
// one that the API server does not accept.
func (in *injector) rotateCredentials(ctx context.Context, f fault) error {
	node := in.nodes[f.agent]
	in.begin(f, incident{text: ": " + node})
	if f.variant == "wrong" {
		if err := in.writeExecutorKubeconfig(node, in.c.WriteForeignNodeKubeconfig); err != nil {
			return err
		}
		in.proxy.Cut(clientsOf(executorOn(node))) // no connection outlives its certificate
		pause(ctx, f.lasts)
	}
	if err := in.writeExecutorKubeconfig(node, in.c.WriteNodeKubeconfig); err != nil {
		return err
	}
	in.proxy.Cut(clientsOf(executorOn(node)))
	return nil
}

// nodeNotReady has the kubelet of a node say that it is not ready, as when its container runtime is away.
func (in *injector) nodeNotReady(ctx context.Context, f fault) error {
	name := in.nodes[f.agent]
	in.begin(f, incident{text: ": " + name})
	nodes := in.c.Client.CoreV1().Nodes()
	mark := func(value any) error {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{cluster.NotReadyAnnotation: value}}})
		if err != nil {
			return err
		}
		return in.insist(ctx, func() error {
			_, err := nodes.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
			return err
		})
	}
	if err := mark("true"); err != nil {
		return err
	}
	now := metav1.Now()
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "container runtime is down", LastHeartbeatTime: now, LastTransitionTime: now,
	}}}})
	if err != nil {
		return err
	}
	err = in.insist(ctx, func() error {
		_, err := nodes.Patch(ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
		return err
	})
	pause(ctx, f.lasts)
	return errors.Join(err, mark(nil))
}

// insist repeats what the API server, which may be away, has to do, unless the object is gone.
func (in *injector) insist(ctx context.Context, do func() error) error {
	for range 200 {
		err := do()
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		in.journal.notef("the API server does not answer: %v", err)
		if !pause(ctx, 300*ms) {
			return err
		}
	}
	return fmt.Errorf("the API server never answered")
}
