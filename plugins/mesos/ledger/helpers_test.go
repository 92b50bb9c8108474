// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/taskinfo"
)

const role = "k8s"

var executorAmounts = resources.Amounts{CPUs: 100, Mem: 128_000}

// book is a ledger with a clock that stands still, subscribed.
type book struct {
	*Ledger
	t     testing.TB
	clock *testclock.FakeClock
}

func newBook(t testing.TB) *book {
	clock := testclock.NewFakeClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	b := &book{t: t, clock: clock}
	b.Ledger = New(Options{
		Clock: clock, NodeName: func(o *mesos.Offer) string { return o.Hostname },
		Executor: taskinfo.Executor{Path: "/x", Amounts: executorAmounts}, ReturnTime: 2 * time.Second,
	})
	b.Resubscribed()
	b.SetConnected(true)
	return b
}

// offer is what an agent `S1` of node `node-S1` offers: `cpus:4;mem:4096;ports:[31000-32000]`.
func (b *book) offer(id, agent, held string, change ...func(*mesos.Offer)) mesos.Offer {
	o := mesos.Offer{ID: mesos.OfferID{Value: id}, AgentID: mesos.AgentID{Value: agent}, Hostname: "node-" + agent, AllocationInfo: &mesos.Resource_AllocationInfo{Role: ptr.To(role)}}
	o.Resources = heldBy(held, role)
	for _, c := range change {
		c(&o)
	}
	return o
}

func heldBy(s, role string) []mesos.Resource {
	var out []mesos.Resource
	for _, part := range strings.Split(s, ";") {
		name, value, _ := strings.Cut(part, ":")
		r := mesos.Resource{Name: strings.TrimSuffix(name, "{REV}"), AllocationInfo: &mesos.Resource_AllocationInfo{Role: ptr.To(role)}}
		if strings.HasSuffix(name, "{REV}") {
			r.Revocable = &mesos.Resource_RevocableInfo{}
		}
		if strings.HasPrefix(value, "[") {
			r.Type, r.Ranges = mesos.RANGES.Enum(), &mesos.Value_Ranges{}
			for _, span := range strings.Split(strings.Trim(value, "[]"), ",") {
				from, to, _ := strings.Cut(span, "-")
				begin, _ := strconv.ParseUint(from, 10, 64)
				end, _ := strconv.ParseUint(to, 10, 64)
				r.Ranges.Range = append(r.Ranges.Range, mesos.Value_Range{Begin: begin, End: end})
			}
		} else {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				panic(err)
			}
			r.Type, r.Scalar = mesos.SCALAR.Enum(), &mesos.Value_Scalar{Value: v}
		}
		out = append(out, r)
	}
	return out
}

func inRole(name string) func(*mesos.Offer) {
	return func(o *mesos.Offer) {
		o.AllocationInfo.Role = ptr.To(name)
		for i := range o.Resources {
			o.Resources[i].AllocationInfo = &mesos.Resource_AllocationInfo{Role: ptr.To(name)}
		}
	}
}

func onNode(name string) func(*mesos.Offer) { return func(o *mesos.Offer) { o.Hostname = name } }

func running(ids ...string) func(*mesos.Offer) {
	return func(o *mesos.Offer) {
		for _, id := range ids {
			o.ExecutorIDs = append(o.ExecutorIDs, mesos.ExecutorID{Value: id})
		}
	}
}

func (b *book) add(offers ...mesos.Offer) []Refusal {
	b.t.Helper()
	defer b.audit()
	return b.AddOffers(offers)
}

// executorID is the id of an executor of the present description that runs on an agent.
func (b *book) executorID(agent string) string {
	digest := b.options.Executor.Digest("node-"+agent, role, false)
	return taskinfo.ExecutorID{Digest: digest, Kind: resources.Unreserved, Incarnation: 1}.String()
}

func ledgerPod(uid string) Pod {
	return Pod{UID: types.UID(uid), Namespace: "ns", Name: uid, Grace: 30 * time.Second}
}

func needOf(cpus, mem int64, ports ...int32) resources.Need {
	return resources.Need{Amounts: resources.Amounts{CPUs: cpus, Mem: mem * 1000}, Ports: ports, Role: role}
}

func v1pod(uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)}}
}

func (b *book) claim(uid string, need resources.Need, agent string) error {
	b.t.Helper()
	defer b.audit()
	return b.Claim(ledgerPod(uid), need, "node-"+agent)
}

func (b *book) mustClaim(uid string, need resources.Need, agent string) {
	b.t.Helper()
	if err := b.claim(uid, need, agent); err != nil {
		b.t.Fatalf("claim of %s: %v", uid, err)
	}
}

func uids(names ...string) []types.UID {
	out := make([]types.UID, len(names))
	for i, n := range names {
		out[i] = types.UID(n)
	}
	return out
}

func (b *book) batch(agent string, names ...string) *Batch {
	b.t.Helper()
	defer b.audit()
	return b.Batch(agent, PoolKey{Role: role}, uids(names...), 100)
}

func (b *book) mustBatch(agent string, names ...string) *Batch {
	b.t.Helper()
	batch := b.batch(agent, names...)
	if batch == nil || len(batch.Launches) != len(names) {
		b.t.Fatalf("batch of %v: %+v", names, batch)
	}
	return batch
}

func (b *book) task(uid string) Task {
	b.t.Helper()
	t, ok := b.Task(types.UID(uid))
	if !ok {
		b.t.Fatalf("no record of %s", uid)
	}
	return t
}

func (b *book) none(uid string) {
	b.t.Helper()
	if t, ok := b.Task(types.UID(uid)); ok {
		b.t.Fatalf("a record of %s is left: %s", uid, t.State)
	}
}

// launch brings a pod to Launching, its ACCEPT processed.
func (b *book) launch(uid string, need resources.Need, agent string) Task {
	b.t.Helper()
	b.mustClaim(uid, need, agent)
	b.Sent(b.mustBatch(agent, uid))
	return b.task(uid)
}

// run brings a pod to Running and bound.
func (b *book) run(uid string, need resources.Need, agent string) Task {
	b.t.Helper()
	t := b.launch(uid, need, agent)
	b.says(t.ID, agent, mesos.TASK_STARTING)
	if !b.Bound(t.UID, t.ID) {
		b.t.Fatal("not bound")
	}
	b.says(t.ID, agent, mesos.TASK_RUNNING)
	return b.task(uid)
}

// says applies a state that an executor reports.
func (b *book) says(taskID, agent string, state mesos.TaskState) Change {
	b.t.Helper()
	return b.apply(Update{TaskID: taskID, AgentID: agent, Status: Status{State: state, Source: mesos.SOURCE_EXECUTOR}})
}

// because applies a state with a source and a reason.
func (b *book) because(taskID, agent string, state mesos.TaskState, source mesos.TaskStatus_Source, reason mesos.TaskStatus_Reason, message ...string) Change {
	b.t.Helper()
	return b.apply(Update{TaskID: taskID, AgentID: agent, Status: Status{State: state, Source: source, Reason: reason, HasWhy: true, Message: strings.Join(message, " ")}})
}

func (b *book) apply(u Update) Change {
	b.t.Helper()
	defer b.audit()
	return b.Apply(u)
}

func (b *book) view(agent string) *View { return b.Snapshot().Node("node-" + agent) }

func (b *book) fit(agent string, need resources.Need) Reason {
	return b.view(agent).Fit(need, 10*time.Minute, b.clock.Now())
}

func (b *book) headroom(agent string) resources.Amounts {
	_, free, _ := b.view(agent).Room(resources.Need{Role: role})
	return free
}

// audit adds everything up again from the records and compares.
func (b *book) audit() {
	b.t.Helper()
	l := b.Ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.fates; f.Received != int64(len(l.offers))+f.Accepted+f.Declined+f.Rescinded+f.Lost {
		b.t.Fatalf("fates do not add up: %+v, %d held", f, len(l.offers))
	}
	now := l.options.Clock.Now()
	for id, a := range l.agents {
		if l.timed[id] != nil {
			continue // what time alone changes is seen a moment later
		}
		told := l.infoOf(a, now)
		a.info = nil
		fresh := l.infoOf(a, now)
		for _, info := range []*AgentInfo{told, fresh} {
			slices.SortFunc(info.Pools, func(x, y PoolInfo) int { return strings.Compare(fmt.Sprint(x.PoolKey), fmt.Sprint(y.PoolKey)) })
		}
		if !reflect.DeepEqual(told, fresh) {
			b.t.Fatalf("agent %s is told of as\n%+v, and it is\n%+v", id, told, fresh)
		}
		a.info = told
	}
	var counts [Terminal + 1]int
	claims, live := 0, map[types.UID]string{}
	type charge struct {
		amounts resources.Amounts
		ports   map[int32]int
	}
	charges := map[string]*charge{}
	poolName := func(agent string, key PoolKey) string { return fmt.Sprint(agent, "/", key) }
	for uid, t := range l.pods {
		counts[t.State]++
		if t.State == Claimed {
			claims++
			if l.claims[uid] != t {
				b.t.Fatalf("claim of %s is not among the claims", uid)
			}
		}
		if _, known := l.inFlight[uid]; known != (t.State.Sent() && !t.Bound) {
			b.t.Fatalf("%s is %s, bound %v, among the launches in flight: %v", uid, t.State, t.Bound, known)
		}
		a := l.agents[t.AgentID]
		if a == nil && t.State == Terminal {
			continue // it keeps nothing
		}
		if a == nil {
			b.t.Fatalf("%s is %s on agent %s, which is not known", uid, t.State, t.AgentID)
		}
		if t.State.Sent() {
			if l.tasks[t.ID] != t || a.tasks[t.ID] != t {
				b.t.Fatalf("task %s (%s) cannot be found", t.ID, t.State)
			}
			if other := live[uid]; other != "" {
				b.t.Fatalf("%s has two tasks: %s and %s", uid, other, t.ID)
			}
			live[uid] = t.ID
		}
		if t.State.charged() {
			name := poolName(t.AgentID, poolOf(t.Need))
			c := charges[name]
			if c == nil {
				c = &charge{ports: map[int32]int{}}
				charges[name] = c
			}
			c.amounts = c.amounts.Add(t.Need.Amounts)
			for _, p := range t.Need.Ports {
				c.ports[p]++
			}
		}
	}
	if counts != l.counts {
		b.t.Fatalf("counts by state: %v, want %v", l.counts, counts)
	}
	if claims != len(l.claims) {
		b.t.Fatalf("%d claims, want %d", len(l.claims), claims)
	}
	for id, t := range l.tasks {
		if l.pods[t.UID] != t || t.ID != id {
			b.t.Fatalf("task %s leads to a record of %s that is not the pod's (its id is %s)", id, t.UID, t.ID)
		}
		if l.strangers[id] != nil {
			b.t.Fatalf("task %s is a stranger, too", id)
		}
	}
	for _, a := range l.agents {
		for id, t := range a.tasks {
			if l.tasks[id] != t || !t.State.Sent() {
				b.t.Fatalf("agent %s holds on to task %s, which is %s", a.id, id, t.State)
			}
		}
		for _, p := range a.pools {
			key := p.key
			want := charges[poolName(a.id, key)]
			if want == nil {
				want = &charge{ports: map[int32]int{}}
			}
			if p.claimed != want.amounts || p.claimed.Negative() {
				b.t.Fatalf("agent %s, %v: claimed %v, the records make %v", a.id, key, p.claimed, want.amounts)
			}
			ports := p.ports
			if ports == nil {
				ports = map[int32]int{}
			}
			if diff := cmp.Diff(want.ports, ports); diff != "" {
				b.t.Fatalf("agent %s, %v: ports (-records,+book):\n%s", a.id, key, diff)
			}
			var sum resources.Offered
			for _, o := range a.offers {
				if o.role == key.Role {
					sum.Join(*o.part(key.Revocable))
				}
			}
			if sum.Amounts != p.offered.Amounts || sum.Ports.String() != p.offered.Ports.String() {
				b.t.Fatalf("agent %s, %v: offered %s, the offers make %s", a.id, key, p.offered, sum)
			}
		}
		for id, o := range a.offers {
			if l.offers[id] != o {
				b.t.Fatalf("agent %s has an offer %s that is not live", a.id, id)
			}
		}
	}
}
