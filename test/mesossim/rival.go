// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
)

// RivalOptions describe a second framework that competes for offers.
type RivalOptions struct {
	// Role is the role it subscribes with.
	Role string
	// Name is its framework name, "rival" by default.
	Name string
	// CPUs and Mem (MiB) are what each of its tasks takes, 1 and 128 by default.
	CPUs, Mem float64
	// MaxTasks bounds its live tasks; 0 means that it takes one task an offer without bound.
	MaxTasks int
	// Hold makes it keep every offer unanswered instead of launching anything.
	Hold bool
	// Command is what its tasks run, "sleep 1000000" by default.
	Command string
}

// A Rival is a running second framework. It speaks the scheduler API like any other.
type Rival struct {
	c       *Cluster
	opts    RivalOptions
	cancel  context.CancelFunc
	done    chan struct{}
	mu      sync.Mutex
	id      string
	stream  string
	live    map[string]bool
	serial  int
	lastErr error
}

// StartRival subscribes a rival with the leading master; it returns when it is subscribed.
func (c *Cluster) StartRival(ctx context.Context, opts RivalOptions) (*Rival, error) {
	if opts.Role == "" {
		return nil, errors.New("a rival needs a role")
	}
	if opts.Name == "" {
		opts.Name = "rival"
	}
	if opts.CPUs == 0 {
		opts.CPUs = 1
	}
	if opts.Mem == 0 {
		opts.Mem = 128
	}
	if opts.Command == "" {
		opts.Command = "sleep 1000000"
	}
	r := &Rival{c: c, opts: opts, done: make(chan struct{}), live: map[string]bool{}}
	ctx, r.cancel = context.WithCancel(ctx)
	info := &mesos.FrameworkInfo{User: "nobody", Name: opts.Name, Roles: []string{opts.Role}, Checkpoint: proto.Bool(true), Capabilities: []mesos.FrameworkInfo_Capability{
		{Type: mesos.FrameworkInfo_Capability_MULTI_ROLE}, {Type: mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT}, {Type: mesos.FrameworkInfo_Capability_PARTITION_AWARE}}}
	response, err := r.post(ctx, &scheduler.Call{Type: scheduler.Call_SUBSCRIBE, Subscribe: &scheduler.Call_Subscribe{FrameworkInfo: info}})
	if err != nil {
		r.cancel()
		return nil, fmt.Errorf("subscribing the rival: %w", err)
	}
	r.stream = response.Header.Get(streamHeader)
	subscribed := make(chan struct{})
	go r.loop(ctx, response.Body, subscribed)
	select {
	case <-subscribed:
		return r, nil
	case <-r.done:
		r.cancel()
		return nil, fmt.Errorf("subscribing the rival: %w", r.err())
	}
}

// Stop ends the rival: its stream is closed and, as it has no failover timeout, its tasks are killed.
func (r *Rival) Stop() {
	r.cancel()
	<-r.done
}

// ID returns the rival's framework id.
func (r *Rival) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id
}

// Live counts its tasks that have not ended.
func (r *Rival) Live() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.live)
}

func (r *Rival) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastErr
}

func (r *Rival) post(ctx context.Context, call *scheduler.Call) (*http.Response, error) {
	body, err := call.Marshal()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.c.URL()+"/api/v1/scheduler", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", mediaProtobuf)
	request.Header.Set("Accept", mediaProtobuf)
	if call.Type != scheduler.Call_SUBSCRIBE {
		request.Header.Set(streamHeader, r.stream)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<12))
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s: %s: %s", call.Type, response.Status, text)
	}
	if call.Type != scheduler.Call_SUBSCRIBE {
		_ = response.Body.Close()
	}
	return response, nil
}

func (r *Rival) loop(ctx context.Context, body io.ReadCloser, subscribed chan struct{}) {
	defer close(r.done)
	defer body.Close()
	frames := mesosapi.NewFrameReader(body, 0)
	for {
		frame, err := frames.ReadFrame()
		event := &scheduler.Event{}
		if err == nil {
			err = event.Unmarshal(frame)
		}
		if err == nil {
			err = r.handle(ctx, event)
		}
		if err != nil {
			r.mu.Lock()
			r.lastErr = err
			r.mu.Unlock()
			return
		}
		if event.Type == scheduler.Event_SUBSCRIBED {
			close(subscribed)
		}
	}
}

func (r *Rival) handle(ctx context.Context, event *scheduler.Event) error {
	switch event.Type {
	case scheduler.Event_SUBSCRIBED:
		r.mu.Lock()
		r.id = event.Subscribed.FrameworkID.Value
		r.mu.Unlock()
	case scheduler.Event_ERROR:
		return errors.New(event.Error.Message)
	case scheduler.Event_OFFERS:
		if r.opts.Hold {
			return nil
		}
		for i := range event.Offers.Offers {
			if err := r.take(ctx, &event.Offers.Offers[i]); err != nil {
				return err
			}
		}
	case scheduler.Event_UPDATE:
		status := &event.Update.Status
		r.mu.Lock()
		if terminal(status.GetState()) {
			delete(r.live, status.TaskID.Value)
		}
		r.mu.Unlock()
		if len(status.UUID) > 0 {
			_, err := r.post(ctx, &scheduler.Call{Type: scheduler.Call_ACKNOWLEDGE, FrameworkID: &mesos.FrameworkID{Value: r.id},
				Acknowledge: &scheduler.Call_Acknowledge{AgentID: *status.AgentID, TaskID: status.TaskID, UUID: status.UUID}})
			return err
		}
	}
	return nil
}

// take launches one task on an offer, or declines it if there is no room or enough tasks run.
func (r *Rival) take(ctx context.Context, o *mesos.Offer) error {
	filters := &mesos.Filters{RefuseSeconds: proto.Float64(1)}
	framework := &mesos.FrameworkID{Value: r.id}
	want := newBag([]mesos.Resource{{Name: "cpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: r.opts.CPUs}},
		{Name: "mem", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: r.opts.Mem}}}).allocated(r.opts.Role)
	r.mu.Lock()
	enough := r.opts.MaxTasks > 0 && len(r.live) >= r.opts.MaxTasks
	r.mu.Unlock()
	if enough || !newBag(o.Resources).contains(want) {
		_, err := r.post(ctx, &scheduler.Call{Type: scheduler.Call_DECLINE, FrameworkID: framework, Decline: &scheduler.Call_Decline{OfferIDs: []mesos.OfferID{o.ID}, Filters: filters}})
		return err
	}
	r.mu.Lock()
	r.serial++
	id := r.opts.Name + "-" + strconv.Itoa(r.serial)
	r.live[id] = true
	r.mu.Unlock()
	info := mesos.TaskInfo{Name: id, TaskID: mesos.TaskID{Value: id}, AgentID: o.AgentID, Resources: want.toProto(),
		Command: &mesos.CommandInfo{Value: proto.String(r.opts.Command)}}
	_, err := r.post(ctx, &scheduler.Call{Type: scheduler.Call_ACCEPT, FrameworkID: framework, Accept: &scheduler.Call_Accept{
		OfferIDs: []mesos.OfferID{o.ID}, Filters: filters,
		Operations: []mesos.Offer_Operation{{Type: mesos.Offer_Operation_LAUNCH, Launch: &mesos.Offer_Operation_Launch{TaskInfos: []mesos.TaskInfo{info}}}}}})
	return err
}
