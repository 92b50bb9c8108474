// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

// LaunchLog keeps on record which launches are in flight. Between its ACCEPT and its Binding a task is known only to Mesos
// and to the leading process. Should that end while the master has lost sight of the agent, the next leader would hear
// nothing of the task and launch the pod a second time. So every launch is on record before its ACCEPT is sent.
//
// The record is a text in the ConfigMap of the framework id. One write is for all launches that asked for it since the
// write before, and no more than one is made every pace, so that it costs little however many agents are launched on.
// The record also tells its leader: a process that another one has followed can record, and so launch, nothing more.
type LaunchLog struct {
	Client          kubernetes.Interface
	Namespace, Name string
	Clock           clock.WithTicker
	// InFlight returns what is to be on record.
	InFlight func() []ledger.Flight
	// MayLead returns an error when another process may lead by now, which may then have taken over the record already; nil
	// stands for one that never does.
	MayLead func() error

	leader   types.UID
	object   *v1.ConfigMap // as last read or written; nil before
	requests chan chan error
}

// Keys of the ConfigMap's data.
const (
	launchesKey = "launches"
	leaderKey   = "leader"
)

// pace is the least time from one write to the next. Launches wait for up to that long, but for the first after a pause.
const pace = 40 * time.Millisecond

// recordTimeout bounds one write. After it the launches that waited for it are tried again.
const recordTimeout = 5 * time.Second

// ErrFollowed says that another process has taken over the record.
var ErrFollowed = errors.New("another instance leads by now")

// onRecord is the form of the text: the launches on one agent.
type onRecord struct {
	Agent string   `json:"agent"`
	Node  string   `json:"node,omitempty"`
	Tasks []string `json:"tasks"`
}

// NewLaunchLog returns a log that does nothing before TakeOver.
func NewLaunchLog(client kubernetes.Interface, namespace, name string, clock clock.WithTicker, inFlight func() []ledger.Flight) *LaunchLog {
	return &LaunchLog{
		Client: client, Namespace: namespace, Name: name, Clock: clock, InFlight: inFlight,
		leader: uuid.NewUUID(), requests: make(chan chan error),
	}
}

// TakeOver makes this process the one that records, and returns what the one before left.
func (l *LaunchLog) TakeOver(ctx context.Context) ([]ledger.Flight, error) {
	stored, err := l.get(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil // nothing was ever launched: the framework id is saved before
	}
	if err != nil {
		return nil, err
	}
	left, err := parseFlights(stored.Data[launchesKey])
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s, key %s: %w; whoever changed it should restore it, or remove the key if no launch can be in flight", l.Namespace, l.Name, launchesKey, err)
	}
	// Asked after the read: whoever leads from here on writes after it, and then this write meets a conflict.
	if l.MayLead != nil {
		if err := l.MayLead(); err != nil {
			return nil, err
		}
	}
	stored = stored.DeepCopy()
	if stored.Data == nil {
		stored.Data = map[string]string{}
	}
	stored.Data[leaderKey] = string(l.leader)
	if l.object, err = l.Client.CoreV1().ConfigMaps(l.Namespace).Update(ctx, stored, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	return left, nil
}

// Run writes until ctx ends. It returns ErrFollowed when another process has taken over the record: this one can launch
// nothing more, whoever leads.
func (l *LaunchLog) Run(ctx context.Context) error {
	timer := l.Clock.NewTimer(pace)
	defer timer.Stop()
	var next time.Time
	var problem string // that was logged last
	for {
		var waiting []chan error
		select {
		case <-ctx.Done():
			return nil
		case r := <-l.requests:
			waiting = append(waiting, r)
		}
		if wait := next.Sub(l.Clock.Now()); wait > 0 {
			timer.Reset(wait)
			for due := false; !due; {
				select {
				case <-ctx.Done():
					return nil
				case r := <-l.requests:
					waiting = append(waiting, r)
				case <-timer.C():
					due = true
				}
			}
		}
		next = l.Clock.Now().Add(pace)
		err := l.write(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			problem = ""
		case err.Error() != problem: // it is tried again many times a second
			problem = err.Error()
			klog.FromContext(ctx).Error(err, "Nothing is launched until launches can be put on record", "configMap", klog.KRef(l.Namespace, l.Name))
		}
		for _, r := range waiting {
			r <- err
		}
		if errors.Is(err, ErrFollowed) {
			return err
		}
	}
}

// Record returns when everything that is in flight now is on record.
func (l *LaunchLog) Record(ctx context.Context) error {
	written := make(chan error, 1)
	select {
	case l.requests <- written:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *LaunchLog) get(ctx context.Context) (*v1.ConfigMap, error) {
	return l.Client.CoreV1().ConfigMaps(l.Namespace).Get(ctx, l.Name, metav1.GetOptions{})
}

// write records what is in flight. The object also changes for other reasons, so a conflict alone means nothing; what
// counts is the leader that it names.
func (l *LaunchLog) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	text := formatFlights(l.InFlight())
	for {
		if l.object == nil {
			stored, err := l.get(ctx)
			if err != nil {
				return fmt.Errorf("record launches: %w", err)
			}
			if of := stored.Data[leaderKey]; of != "" && of != string(l.leader) {
				return fmt.Errorf("record launches: %w", ErrFollowed)
			}
			l.object = stored
		}
		changed := l.object.DeepCopy()
		if changed.Data == nil {
			changed.Data = map[string]string{}
		}
		changed.Data[leaderKey], changed.Data[launchesKey] = string(l.leader), text
		stored, err := l.Client.CoreV1().ConfigMaps(l.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
		if err == nil {
			l.object = stored
			return nil
		}
		l.object = nil // whatever it was, what is stored is not known any more
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("record launches: %w", err)
		}
	}
}

func formatFlights(flights []ledger.Flight) string {
	byAgent := map[string]*onRecord{}
	for _, f := range flights {
		r := byAgent[f.AgentID]
		if r == nil {
			r = &onRecord{Agent: f.AgentID, Node: f.Node}
			byAgent[f.AgentID] = r
		}
		r.Tasks = append(r.Tasks, f.TaskID)
	}
	all := make([]*onRecord, 0, len(byAgent))
	for _, r := range byAgent {
		slices.Sort(r.Tasks)
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *onRecord) int { return strings.Compare(a.Agent, b.Agent) })
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings always can be written
	}
	return string(text)
}

func parseFlights(text string) ([]ledger.Flight, error) {
	if text == "" {
		return nil, nil
	}
	var all []onRecord
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("not a list of launches: %w", err)
	}
	var out []ledger.Flight
	for _, r := range all {
		for _, id := range r.Tasks {
			if _, _, ok := taskinfo.ParseTaskID(id); !ok || r.Agent == "" {
				return nil, fmt.Errorf("task %q on agent %q: want a task id `<pod uid>.<attempt>` and an agent id", id, r.Agent)
			}
			out = append(out, ledger.Flight{TaskID: id, AgentID: r.Agent, Node: r.Node})
		}
	}
	return out, nil
}
