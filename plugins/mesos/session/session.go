// SPDX-License-Identifier: Apache-2.0

// Package session is the Mesos framework: its identity, its subscription, the event loop, acknowledgements, kills,
// reconciliation and the economy of offers. What it learns goes into the ledger; what a change means for pods is told to
// OnChange. It runs only while this process leads.
package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/mesosapi"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// Options are the fixed properties of a session.
type Options struct {
	Clock  clock.WithTicker
	Client *mesosapi.Client
	// Framework describes the framework; its ID is set from Identity.
	Framework mesos.FrameworkInfo
	Roles     []string
	Identity  Identity
	// MayLead returns an error when another process may lead by now; nil stands for one that never does.
	MayLead func() error
	Economy Economy
	// ReconcileInterval is the time between implicit reconciliations.
	ReconcileInterval time.Duration
	// KillRepeat is the time between KILLs of one task; KillPatience is how long the executor may take to report the
	// end of a pod that is gone before a KILL is sent.
	KillRepeat, KillPatience time.Duration
	// LaunchLimit is how long a launched task may be silent before the master is asked for it.
	LaunchLimit time.Duration
	// ExecutorIdle is how long an executor without tasks is kept, 0 for ever; ExecutorMaxTasks is after how many tasks
	// new ones get a fresh executor.
	ExecutorIdle     time.Duration
	ExecutorMaxTasks int
}

// Hooks are what the session calls. They must not block.
type Hooks struct {
	// OnChange gets every change of a task that means something to a pod.
	OnChange func(ledger.Change)
	// Kick is called when an offer came or an executor answered.
	Kick func()
	// OnFrameworkGone gets the bound pods that have no task any more because the master removed the framework.
	OnFrameworkGone func([]ledger.Task)
	// OnInverseOffer gets the agent of an inverse offer, which is repeated at least every so often while it stands.
	OnInverseOffer func(agentID string, window ledger.Unavailability, every time.Duration)
	// Bound says how many bound pods of ours there are; a new framework id is never taken silently while there are any.
	Bound func() int
	// Match returns what says whether a pod's own rules (node selector, affinity, taints) allow a node.
	Match func(pod *v1.Pod) func(node string) bool
	// Usable says whether a node is there and not cordoned.
	Usable func(node string) bool
	// Activate wakes pods.
	Activate func(pods []*v1.Pod)
}

// Phase is what the session is doing.
type Phase string

// The phases of a session.
const (
	Standby    Phase = "standby"
	Connecting Phase = "connecting"
	Subscribed Phase = "subscribed"
	// Removed: the master has removed the framework id, and an operator has to confirm a new one.
	Removed Phase = "framework removed"
	// FailedOver: another instance has subscribed with this framework id.
	FailedOver Phase = "failed over"
)

// ErrFailedOver says that another instance has subscribed with this framework's id and leads.
var ErrFailedOver = errors.New("another instance has subscribed with this framework's id")

// errRemoved says that the master has removed the framework.
var errRemoved = errors.New("the framework was removed")

// What an ERROR says when the framework is removed (src/master/master.cpp), and when another instance subscribes.
const (
	textRemoved    = "Framework has been removed"
	textFailedOver = "Framework failed over"
)

// Status is the state of a session for people.
type Status struct {
	Phase       Phase
	FrameworkID string
	Master      string
	// Since is when the phase began.
	Since time.Time
	// Problem is the last error, "" while all is well.
	Problem string
	// Reconciled says that one full pass of reconciliation was done since this process leads.
	Reconciled bool
	// Began is when this process began to lead; LastSubscribed is when a subscription last stood.
	Began, LastSubscribed time.Time
}

// Session is made once and run once.
type Session struct {
	options Options
	hooks   Hooks
	ledger  *ledger.Ledger
	economy *economy

	stream     atomic.Pointer[mesosapi.Stream]
	lastEvent  atomic.Int64 // time of the last event, in nanoseconds
	subscribed chan struct{}
	acks       chan *scheduler.Call
	fence      chan struct{}
	reconciled atomic.Bool
	begun      atomic.Int64  // counts subscriptions
	again      chan struct{} // asks for a reconciliation now

	removed string // the id that the master has removed and that may be replaced; the subscription's own

	mu     sync.Mutex
	status Status
}

// New returns a session; it opens no connection before Run.
func New(options Options, hooks Hooks, book *ledger.Ledger) *Session {
	s := &Session{
		options: options, hooks: hooks, ledger: book,
		subscribed: make(chan struct{}, 1), acks: make(chan *scheduler.Call, maxAcks), fence: make(chan struct{}, 1), again: make(chan struct{}, 1),
		status: Status{Phase: Standby, Since: options.Clock.Now()},
	}
	s.economy = newEconomy(s)
	return s
}

// Status returns the state of the session.
func (s *Session) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Reconciled = s.reconciled.Load()
	if st.Phase == Subscribed {
		st.LastSubscribed = s.options.Clock.Now()
	}
	return st
}

func (s *Session) set(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.status.Phase
	change(&s.status)
	if s.status.Phase == before {
		return
	}
	now := s.options.Clock.Now()
	s.status.Since = now
	switch before {
	case Standby:
		s.status.Began = now
	case Subscribed:
		s.status.LastSubscribed = now
	}
}

// Reconciled says whether one full pass of reconciliation was done since the present subscription began: from then on
// what is not known to the ledger is not known to Mesos either. While this process was not subscribed, another one may
// have launched tasks.
func (s *Session) Reconciled() bool { return s.reconciled.Load() }

// Run subscribes, and subscribes again after every end of the stream, until ctx ends or another instance has taken over.
func (s *Session) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.subscribeLoop(ctx) })
	group.Go(func() error { return s.economy.run(ctx) })
	group.Go(func() error { return s.reconcileLoop(ctx) })
	group.Go(func() error { return s.killLoop(ctx) })
	group.Go(func() error { return s.ackLoop(ctx) })
	return group.Wait()
}

// firstPause and lastPause bound the pauses between attempts to subscribe.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

func (s *Session) subscribeLoop(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	backoff := func() wait.Backoff {
		return wait.Backoff{Duration: firstPause, Factor: 2, Jitter: 0.5, Steps: 1 << 20, Cap: lastPause}
	}
	pause := backoff()
	for ctx.Err() == nil {
		s.set(func(st *Status) { st.Phase = Connecting })
		err := s.subscribe(ctx, func() { pause = backoff() })
		s.ledger.SetConnected(false)
		s.stream.Store(nil)
		metrics.Subscribed.WithLabelValues().Set(0)
		if ctx.Err() != nil {
			break
		}
		switch {
		case errors.Is(err, ErrFailedOver):
			s.set(func(st *Status) { st.Phase, st.Problem = FailedOver, err.Error() })
			return err
		case errors.Is(err, errRemoved):
			if err := s.replaceIdentity(ctx); err != nil {
				logger.Error(err, "Cannot replace the framework id")
			}
		}
		s.set(func(st *Status) { st.Problem = err.Error() })
		delay := pause.Step()
		logger.Info("Not subscribed with a Mesos master; trying again", "err", err, "pause", delay)
		if !s.sleep(ctx, delay) {
			break
		}
	}
	s.set(func(st *Status) { st.Phase = Standby })
	return ctx.Err()
}

// sleep waits for d; it returns false if ctx ended before.
func (s *Session) sleep(ctx context.Context, d time.Duration) bool {
	timer := s.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// subscribe holds one subscription to its end. good is called once it stands.
func (s *Session) subscribe(ctx context.Context, good func()) error {
	id, err := s.options.Identity.Load(ctx)
	if err != nil {
		metrics.Subscriptions.WithLabelValues("identity").Inc()
		return fmt.Errorf("read the framework id: %w", err)
	}
	if id == "" {
		if err := s.lostIdentity(ctx); err != nil {
			return err
		}
	}
	info := s.options.Framework
	call := calls.Subscribe(&info)
	if id != "" && id != s.removed {
		info.ID = &mesos.FrameworkID{Value: id}
		call.FrameworkID = info.ID
	}
	if s.options.MayLead != nil {
		// To subscribe is to take the framework from whoever holds it.
		if err := s.options.MayLead(); err != nil {
			metrics.Subscriptions.WithLabelValues("failed").Inc()
			return err
		}
	}
	stream, err := s.options.Client.Subscribe(ctx, call)
	if err != nil {
		metrics.Subscriptions.WithLabelValues("failed").Inc()
		return err
	}
	defer stream.Close()
	for {
		event, err := stream.Next()
		if err != nil {
			return err
		}
		s.lastEvent.Store(s.options.Clock.Now().UnixNano())
		if event.Type == scheduler.Event_SUBSCRIBED {
			if err := s.begin(ctx, stream, id, event.Subscribed); err != nil {
				return err
			}
			good()
			continue
		}
		if err := s.handle(ctx, event); err != nil {
			metrics.Subscriptions.WithLabelValues("refused").Inc()
			return err
		}
	}
}

// begin makes a subscription the current one. A new framework id is saved before anything can be launched with it.
func (s *Session) begin(ctx context.Context, stream *mesosapi.Stream, stored string, event *scheduler.Event_Subscribed) error {
	id := event.GetFrameworkID().GetValue()
	if id == "" {
		return fmt.Errorf("%w: SUBSCRIBED without a framework id", mesosapi.ErrProtocol)
	}
	if id != stored {
		if err := s.keepIdentity(ctx, stream, stored, id); err != nil {
			return err
		}
	}
	klog.FromContext(ctx).Info("Subscribed with a Mesos master", "master", stream.Master(), "frameworkID", id, "newFramework", stored == "")
	s.set(func(st *Status) {
		st.Phase, st.FrameworkID, st.Master, st.Problem = Subscribed, id, stream.Master(), ""
	})
	metrics.Subscriptions.WithLabelValues("subscribed").Inc()
	metrics.Subscribed.WithLabelValues().Set(1)
	s.begun.Add(1)
	s.reconciled.Store(false)
	s.ledger.Reconciling(true)
	s.ledger.Resubscribed()
	s.economy.resubscribed()
	s.stream.Store(stream)
	s.ledger.SetConnected(true)
	nudge(s.subscribed)
	return nil
}

// keepIdentity saves a new framework id. If it cannot be saved, the framework, which has launched nothing, is torn down
// again: it would stay with the master for the whole failover timeout.
func (s *Session) keepIdentity(ctx context.Context, stream *mesosapi.Stream, stored, id string) error {
	err := s.options.Identity.Save(ctx, stored, id)
	if err == nil {
		return nil
	}
	if now, loadErr := s.options.Identity.Load(ctx); loadErr == nil && now == id {
		return nil // it was saved, only the answer was lost
	}
	teardown := &scheduler.Call{Type: scheduler.Call_TEARDOWN, FrameworkID: &mesos.FrameworkID{Value: id}}
	if downErr := stream.Call(ctx, teardown); downErr != nil {
		err = errors.Join(err, downErr)
	}
	return fmt.Errorf("save the framework id %s: %w", id, err)
}

// handle brings one event into the ledger. It does no I/O.
func (s *Session) handle(ctx context.Context, event *scheduler.Event) error {
	logger := klog.FromContext(ctx)
	switch event.Type {
	case scheduler.Event_OFFERS:
		refused := s.ledger.AddOffers(event.Offers.Offers)
		s.economy.arrived(event.Offers.Offers)
		if len(refused) > 0 {
			ids := make([]string, len(refused))
			for i, r := range refused {
				ids[i] = r.OfferID
				logger.Info("Declined an offer", "offer", r.OfferID, "agent", r.AgentID, "reason", r.Reason)
			}
			s.economy.refuse(ids)
		}
		s.hooks.Kick()
	case scheduler.Event_RESCIND:
		s.ledger.Rescind(event.Rescind.OfferID.Value)
	case scheduler.Event_UPDATE:
		s.update(ctx, &event.Update.Status)
	case scheduler.Event_FAILURE:
		s.failure(ctx, event.Failure)
	case scheduler.Event_INVERSE_OFFERS:
		for i := range event.InverseOffers.InverseOffers {
			s.inverseOffer(ctx, &event.InverseOffers.InverseOffers[i])
		}
	case scheduler.Event_RESCIND_INVERSE_OFFER:
		s.economy.forgetInverse(event.RescindInverseOffer.GetInverseOfferID())
	case scheduler.Event_MESSAGE:
		s.message(ctx, event.Message)
	case scheduler.Event_ERROR:
		message := event.Error.GetMessage()
		switch {
		case strings.Contains(message, textFailedOver):
			return fmt.Errorf("%w: %s", ErrFailedOver, message)
		case strings.Contains(message, textRemoved):
			return fmt.Errorf("%w: %s", errRemoved, message)
		}
		return fmt.Errorf("the Mesos master refuses the framework: %s", message)
	}
	return nil
}

func (s *Session) update(ctx context.Context, status *mesos.TaskStatus) {
	u := ledger.UpdateOf(status)
	change := s.ledger.Apply(u)
	if logger := klog.FromContext(ctx).V(4); logger.Enabled() { // there are thousands a second
		logger.Info("Task update", "task", u.TaskID, "status", u.Status, "effect", change.Effect, "acknowledge", len(status.UUID) > 0)
	}
	metrics.Updates.WithLabelValues(u.State.String()).Inc()
	// Applied: from here on the update may be acknowledged, also a repeat and one of a task long forgotten.
	if len(status.UUID) > 0 && status.AgentID != nil {
		s.acknowledge(ctx, calls.Acknowledge(status.AgentID.Value, status.TaskID.Value, status.UUID))
	}
	if change.Effect != ledger.Nothing {
		s.hooks.OnChange(change)
		s.hooks.Kick()
	}
}

func (s *Session) failure(ctx context.Context, f *scheduler.Event_Failure) {
	logger := klog.FromContext(ctx)
	switch {
	case f.AgentID == nil:
	case f.ExecutorID != nil:
		logger.Info("A Mesos executor ended", "agent", f.AgentID.Value, "executor", f.ExecutorID.Value, "status", f.GetStatus())
		s.ledger.ExecutorGone(f.AgentID.Value, f.ExecutorID.Value)
	default:
		logger.Info("A Mesos agent was removed", "agent", f.AgentID.Value)
		s.ledger.AgentGone(f.AgentID.Value)
		nudge(s.again) // after a master's failover this is the only sign that its tasks are unreachable
	}
	s.hooks.Kick()
}

func (s *Session) inverseOffer(ctx context.Context, o *mesos.InverseOffer) {
	klog.FromContext(ctx).V(2).Info("Mesos asks for an agent's resources back", "inverseOffer", o.OfferID.Value, "agent", o.GetAgentID().GetValue())
	s.economy.answerInverse(o.OfferID)
	if o.AgentID == nil {
		return
	}
	window := ledger.WindowOf(&o.Unavailability)
	s.ledger.SetWindow(o.AgentID.Value, window)
	if s.hooks.OnInverseOffer != nil {
		s.hooks.OnInverseOffer(o.AgentID.Value, window, inverseRefuse)
	}
}

// replaceIdentity deals with a framework id that the master has removed. While bound pods exist, a new id is taken only
// after an operator has confirmed it; it waits for that.
func (s *Session) replaceIdentity(ctx context.Context) error {
	id, err := s.options.Identity.Load(ctx)
	if err != nil || id == "" {
		return err
	}
	logger := klog.FromContext(ctx)
	lost := s.ledger.FrameworkGone()
	for bound := s.hooks.Bound(); bound > 0; bound = s.hooks.Bound() {
		confirmed, err := s.options.Identity.Confirmed(ctx, id)
		if err == nil && confirmed {
			break
		}
		problem := fmt.Sprintf("the Mesos master has removed framework %s while %d pods are bound with it; to take a new framework id and hold these pods anew, annotate %s", id, bound, s.options.Identity.HowToConfirm(id))
		logger.Error(err, "Framework removed", "problem", problem)
		s.set(func(st *Status) { st.Phase, st.Problem = Removed, problem })
		if !s.sleep(ctx, confirmPoll) {
			return ctx.Err()
		}
	}
	s.removed = id // the stored id is replaced once there is a new one
	logger.Info("Taking a new framework id", "removed", id, "boundPods", len(lost))
	if len(lost) > 0 {
		s.hooks.OnFrameworkGone(lost)
	}
	return nil
}

// lostIdentity refuses to register a new framework while pods are bound with one whose id is not stored any more: its
// tasks run on under an id that this process does not know.
func (s *Session) lostIdentity(ctx context.Context) error {
	bound := s.hooks.Bound()
	if bound == 0 {
		return nil
	}
	confirmed, err := s.options.Identity.Confirmed(ctx, "")
	if err == nil && confirmed {
		return nil
	}
	s.set(func(st *Status) { st.Phase = Removed })
	return fmt.Errorf("no framework id is stored, but %d pods are bound with one: store that id again (it is in their annotation %s), or, to take a new one and hold these pods anew, annotate %s",
		bound, wellknown.FrameworkIDAnnotation, s.options.Identity.HowToConfirm(""))
}

// confirmPoll is the time between looks for an operator's confirmation.
const confirmPoll = 2 * time.Second

// nudge makes a buffered channel of one readable.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
