// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync/atomic"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/agent"
)

const (
	// retryAfter is the time between attempts to subscribe. It does not grow: an agent that was restarted gives its
	// executors two seconds to come back.
	retryAfter = 100 * time.Millisecond
	// retryLeaving is the same while the executor shuts down, when the agent may refuse it for good.
	retryLeaving = time.Second
)

// unacknowledged is what a SUBSCRIBE lists, and the context that ends its stream.
type unacknowledged struct {
	ctx     context.Context
	stream  int
	tasks   []mesos.TaskInfo
	updates []mesos.TaskStatus
}

// subscription keeps a stream of events open.
type subscription struct {
	client  *agent.Client
	inbox   inbox
	leaving atomic.Bool
}

// run subscribes again and again until ctx ends. The events of one stream are handed on before the next begins: what
// the agent delivered over a dying stream is listed in the next SUBSCRIBE.
func (s *subscription) run(ctx context.Context) {
	for ctx.Err() == nil {
		stream, err := s.follow(ctx)
		s.inbox.put(disconnected{stream, err})
		wait := retryAfter
		if s.leaving.Load() {
			wait = retryLeaving
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func (s *subscription) follow(ctx context.Context) (int, error) {
	answer := make(chan unacknowledged, 1)
	s.inbox.put(wantSubscribe{answer})
	var u unacknowledged
	select {
	case u = <-answer:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	stream, err := s.client.Subscribe(u.ctx, u.tasks, u.updates)
	if err != nil {
		return u.stream, err
	}
	defer stream.Close()
	s.inbox.put(connected{u.stream})
	for {
		event, err := stream.Next()
		if err != nil {
			return u.stream, err
		}
		s.inbox.put(fromAgent{u.stream, event})
	}
}
