// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"hash/fnv"
	"sync"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/agent"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/machine"
)

// senders is how many updates are under way at once. Updates of one task keep their order: they share a sender.
const senders = 8

// sender sends updates to the agent. It forgets what belongs to a stream that has ended: that is listed in the next
// SUBSCRIBE.
type sender struct {
	client     *agent.Client
	inbox      inbox
	executorID string
	lanes      [senders]lane
}

type lane struct {
	mu    sync.Mutex
	queue []sending
	wake  chan struct{}
}

type sending struct {
	stream int
	ctx    context.Context // ends with the stream
	update *machine.Update
}

func newSender(client *agent.Client, in inbox, executorID string) *sender {
	s := &sender{client: client, inbox: in, executorID: executorID}
	for i := range s.lanes {
		s.lanes[i].wake = make(chan struct{}, 1)
	}
	return s
}

// send queues an update; it does not wait.
func (s *sender) send(ctx context.Context, stream int, u *machine.Update) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(u.TaskID))
	l := &s.lanes[h.Sum32()%senders]
	l.mu.Lock()
	l.queue = append(l.queue, sending{stream: stream, ctx: ctx, update: u})
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run sends until ctx ends.
func (s *sender) run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range s.lanes {
		wg.Go(func() { s.runLane(ctx, &s.lanes[i]) })
	}
	wg.Wait()
}

func (s *sender) runLane(ctx context.Context, l *lane) {
	broken := 0 // the stream on which an update failed: later ones must not overtake it
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		l.mu.Lock()
		queue := l.queue
		l.queue = nil
		l.mu.Unlock()
		for _, q := range queue {
			if q.ctx.Err() != nil || q.stream == broken {
				continue
			}
			err := s.client.Update(q.ctx, status(q.update, s.executorID))
			switch {
			case err == nil:
				s.inbox.put(updateSent{q.update})
			case q.ctx.Err() == nil:
				if !agent.Invalid(err) {
					broken = q.stream
				}
				s.inbox.put(updateFailed{q.stream, q.update, err})
			}
		}
	}
}

// status is the form in which an update travels.
func status(u *machine.Update, executorID string) mesos.TaskStatus {
	state, source, timestamp := u.State, mesos.SOURCE_EXECUTOR, u.Timestamp
	s := mesos.TaskStatus{
		TaskID:     mesos.TaskID{Value: u.TaskID},
		State:      &state,
		Source:     &source,
		ExecutorID: &mesos.ExecutorID{Value: executorID},
		Timestamp:  &timestamp,
		UUID:       u.UUID,
	}
	if u.Message != "" {
		message := u.Message
		s.Message = &message
	}
	return s
}
