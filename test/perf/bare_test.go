// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// bare is a client that does nothing but launch tasks: no ledger, no claims, no reconciliation. It knows beforehand what
// it is to launch, so its ACCEPTs are the best possible. It asks for offers no more often than the plugin may: each REVIVE
// is an allocation over all agents, whoever sends it.
type bare struct {
	t         *testing.T
	stream    *mesosapi.Stream
	framework *mesos.FrameworkID
	events    chan *scheduler.Event
	acks      chan *scheduler.Call
	group     *errgroup.Group
	ctx       context.Context
	executors map[string]string // by agent
	executor  taskinfo.Executor
	revived   time.Time // when the last REVIVE was sent, or is to be
	latency   time.Duration
}

// Bounds of the time between two REVIVEs, as in plugins/mesos/session.
const (
	reviveAtLeast = 100 * time.Millisecond
	reviveSlow    = 200 * time.Millisecond
)

// pause is how long it is until the next REVIVE may be sent.
func (b *bare) pause() time.Duration {
	return time.Until(b.revived.Add(max(reviveAtLeast, min(5*b.latency, reviveSlow))))
}

// revive sends the next REVIVE as soon as it may be.
func (b *bare) revive() {
	wait := b.pause()
	b.revived = time.Now().Add(max(0, wait))
	b.group.Go(func() error {
		select {
		case <-time.After(wait):
		case <-b.ctx.Done():
			return nil
		}
		if err := b.call(calls.Revive()); err != nil && b.ctx.Err() == nil {
			return err
		}
		return nil
	})
}

// startBare subscribes a bare client.
func startBare(t *testing.T, master string) (*bare, func()) {
	t.Helper()
	client, err := mesosapi.New(mesosapi.Config{Masters: []string{"http://" + master}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	info := mesos.FrameworkInfo{User: "root", Name: "bare", Roles: []string{role}, Capabilities: []mesos.FrameworkInfo_Capability{
		{Type: mesos.FrameworkInfo_Capability_PARTITION_AWARE}, {Type: mesos.FrameworkInfo_Capability_MULTI_ROLE}, {Type: mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT}}}
	stream, err := client.Subscribe(ctx, calls.Subscribe(&info))
	if err != nil {
		t.Fatal(err)
	}
	b := &bare{t: t, stream: stream, events: make(chan *scheduler.Event, 1<<16), acks: make(chan *scheduler.Call, 1<<17), executors: map[string]string{},
		executor: taskinfo.Executor{Path: "/opt/kube-mesos/bin/kube-mesos-executor", Kubeconfig: "/etc/kubernetes/kubelet.conf",
			Amounts: resources.Amounts{CPUs: 100, Mem: 128_000}, BindTimeout: 10 * time.Minute, KillMargin: time.Minute, User: "root"}}
	event, err := stream.Next()
	if err != nil || event.Type != scheduler.Event_SUBSCRIBED {
		t.Fatalf("subscribing: %v %v", event, err)
	}
	b.framework = event.Subscribed.FrameworkID
	b.group, b.ctx = errgroup.WithContext(ctx)
	b.group.Go(func() error {
		for {
			event, err := stream.Next()
			if err != nil {
				return nil // the end
			}
			b.events <- event
		}
	})
	b.group.Go(b.acknowledge)
	return b, func() {
		cancel()
		stream.Close()
		if err := b.group.Wait(); err != nil {
			t.Error(err)
		}
		client.Close()
	}
}

// acknowledge sends acknowledgements, as many at once as have come.
func (b *bare) acknowledge() error {
	var batch []*scheduler.Call
	for {
		select {
		case call := <-b.acks:
			batch = append(batch[:0], call)
		case <-b.ctx.Done():
			return nil
		}
		for len(batch) < mesosapi.MaxAcknowledge && len(b.acks) > 0 {
			batch = append(batch, <-b.acks)
		}
		for _, call := range batch {
			call.FrameworkID = b.framework
		}
		if _, err := b.stream.Acknowledge(b.ctx, batch); err != nil && b.ctx.Err() == nil {
			return err
		}
	}
}

func (b *bare) call(call *scheduler.Call) error {
	call.FrameworkID = b.framework
	return b.stream.Call(b.ctx, call)
}

// launch launches n tasks, at most perAccept with one call, and returns how long it took until all of them ran, from when
// offers might be asked for.
func (b *bare) launch(n, perAccept int) time.Duration {
	select {
	case <-time.After(b.pause()):
	case <-b.ctx.Done():
		b.t.Fatal("the bare client ended")
	}
	begun := time.Now()
	b.revive()
	launched, running := 0, 0
	for running < n {
		var event *scheduler.Event
		select {
		case event = <-b.events:
		case <-b.ctx.Done():
			b.t.Fatal("the bare client ended")
		}
		switch event.Type {
		case scheduler.Event_UPDATE:
			status := &event.Update.Status
			if len(status.UUID) > 0 {
				b.acks <- calls.Acknowledge(status.AgentID.Value, status.TaskID.Value, status.UUID)
			}
			if status.GetState() == mesos.TASK_RUNNING {
				running++
			} else if ledger.IsTerminal(status.GetState()) {
				b.t.Fatalf("%s: %s", status.GetState(), status.GetMessage())
			}
		case scheduler.Event_OFFERS:
			offers := event.Offers.Offers
			if now := time.Now(); now.After(b.revived) {
				b.latency = now.Sub(b.revived)
			}
			for i := range offers {
				share := perAccept
				if left := n - launched; left < perAccept*len(offers) {
					share = min(perAccept, (left+len(offers)-i-1)/(len(offers)-i)) // the last tasks go to all agents alike
				}
				launched += b.accept(&offers[i], min(share, n-launched), launched < n)
			}
			if launched < n && !b.revived.After(time.Now()) {
				b.revive()
			}
		}
	}
	return time.Since(begun)
}

// accept launches up to n tasks on an offer and returns how many it holds.
func (b *bare) accept(o *mesos.Offer, n int, more bool) int {
	room, _ := resources.ParseOffer(o.Resources)
	agent := o.AgentID.Value
	id := b.executors[agent]
	held := resources.ExecutorResources(b.executor.Amounts, role, resources.Unreserved, false)
	if id == "" && n > 0 {
		var err error
		if held, _, err = room.TakeExecutor(b.executor.Amounts); err != nil {
			return 0
		}
		id = "bare-" + agent
		b.executors[agent] = id
	}
	info := b.executor.Info(id, o.Hostname, held)
	var tasks []mesos.TaskInfo
	for range n {
		part, err := room.Take(podNeed.Amounts, nil)
		if err != nil {
			break
		}
		uid := uuid.NewString()
		tasks = append(tasks, taskinfo.Task(uid+".1", agent, taskinfo.Reference{Namespace: "default", Name: "pod-" + uid, UID: uid, Node: o.Hostname, GraceSeconds: 30}, part, info))
	}
	b.group.Go(func() error {
		call := calls.Accept(calls.OfferOperations{calls.OpLaunch(tasks...)}.WithOffers(o.ID)).With(calls.RefuseSeconds(0))
		if len(tasks) == 0 && !more {
			call = calls.Decline(o.ID).With(calls.RefuseSeconds(time.Hour))
		}
		if err := b.call(call); err != nil && b.ctx.Err() == nil {
			return fmt.Errorf("launch %d tasks: %w", len(tasks), err)
		}
		return nil
	})
	return len(tasks)
}
