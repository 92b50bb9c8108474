// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"math/rand"
	"slices"
	"sort"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// world is a master with agents in a few lines: what is free, what is offered, what tasks hold. It may lose calls and
// answers, and it checks what it is asked for.
type world struct {
	*book
	rng    *rand.Rand
	free   map[string]resources.Offered
	offers map[string]*worldOffer
	tasks  map[string]*worldTask
	execs  map[string]map[string]resources.Offered // agent -> executor -> what it holds
	late   []*Batch                                // ACCEPTs that are still on their way
	events []Update                                // on their way to us
	pods   map[string]bool                         // pods that exist; true: bound
	serial int
}

type worldOffer struct {
	agent string
	held  resources.Offered
}

type worldTask struct {
	uid, agent, executor string
	held                 resources.Offered
}

func newWorld(t *testing.T, seed int64) *world {
	w := &world{
		book: newBook(t), rng: rand.New(rand.NewSource(seed)), free: map[string]resources.Offered{}, offers: map[string]*worldOffer{},
		tasks: map[string]*worldTask{}, execs: map[string]map[string]resources.Offered{}, pods: map[string]bool{},
	}
	for _, a := range []string{"S1", "S2"} {
		w.free[a], _ = resources.ParseOffer(heldBy("cpus:6;mem:6000;ports:[31000-31005]", role))
		w.execs[a] = map[string]resources.Offered{}
	}
	return w
}

func (w *world) next(prefix string) string {
	w.serial++
	return fmt.Sprintf("%s%d", prefix, w.serial)
}

func pick[V any](w *world, m map[string]V) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return ""
	}
	sort.Strings(keys)
	return keys[w.rng.Intn(len(keys))]
}

// giveBack returns what an offer, a task or an executor held.
func (w *world) giveBack(agent string, held resources.Offered) {
	f := w.free[agent]
	f = f.Clone()
	f.Join(held)
	w.free[agent] = f
}

func (w *world) makeOffer(agent string) {
	if w.free[agent].Empty() || !w.Connected() {
		return
	}
	id := w.next("O")
	held := w.free[agent]
	w.free[agent] = resources.Offered{}
	w.offers[id] = &worldOffer{agent, held.Clone()}
	clone := held.Clone()
	all, err := clone.Take(held.Amounts, portsOf(held))
	if err != nil {
		w.t.Fatal(err)
	}
	o := w.offer(id, agent, "cpus:1")
	o.Resources = all
	for executor := range w.execs[agent] {
		o.ExecutorIDs = append(o.ExecutorIDs, mesos.ExecutorID{Value: executor})
	}
	w.add(o)
}

func portsOf(o resources.Offered) []int32 {
	var out []int32
	for _, r := range o.Ports {
		for p := r.Begin; p <= r.End; p++ {
			out = append(out, p)
		}
	}
	return out
}

// accept is what the master does with an ACCEPT. It fails the test if more is asked for than the offers hold.
func (w *world) accept(b *Batch) {
	var sum resources.Offered
	valid := true
	for _, id := range b.OfferIDs {
		o := w.offers[id]
		if o == nil {
			valid = false
			continue
		}
		sum.Join(o.held)
		delete(w.offers, id)
	}
	if !valid {
		w.giveBack(b.AgentID, sum)
		for _, launch := range b.Launches {
			w.post(launch.Task.ID, "", mesos.TASK_DROPPED, mesos.SOURCE_MASTER, mesos.REASON_INVALID_OFFERS)
		}
		return
	}
	take := func(rs []mesos.Resource) resources.Offered {
		asked, _ := resources.ParseOffer(rs)
		if _, err := sum.Take(asked.Amounts, portsOf(asked)); err != nil {
			w.t.Fatalf("I3: the tasks take more than the offers hold: %v", err)
		}
		return asked
	}
	if _, runs := w.execs[b.AgentID][b.ExecutorID]; !runs {
		if !b.NewExecutor {
			// It ended while the ACCEPT was on its way: the master charges the task with it, and finds the offers too small or not.
			w.giveBack(b.AgentID, sum)
			for _, launch := range b.Launches {
				w.post(launch.Task.ID, "", mesos.TASK_DROPPED, mesos.SOURCE_MASTER, mesos.REASON_INVALID_OFFERS)
			}
			return
		}
		w.execs[b.AgentID][b.ExecutorID] = take(b.ExecutorResources)
	}
	for _, launch := range b.Launches {
		held := take(launch.Resources)
		if held.Amounts != launch.Task.Need.Amounts || !slices.Equal(portsOf(held), launch.Task.Need.Ports) {
			w.t.Fatalf("I3: task %s holds %s, its pod needs %s", launch.Task.ID, held, launch.Task.Need)
		}
		for id, other := range w.tasks {
			if other.uid == string(launch.Task.UID) {
				w.t.Fatalf("I2: pod %s has the live task %s and is launched as %s", launch.Task.UID, id, launch.Task.ID)
			}
		}
		w.tasks[launch.Task.ID] = &worldTask{string(launch.Task.UID), b.AgentID, b.ExecutorID, held}
		w.post(launch.Task.ID, b.AgentID, mesos.TASK_STARTING, mesos.SOURCE_EXECUTOR, -1)
	}
	w.giveBack(b.AgentID, sum)
}

func (w *world) post(task, agent string, state mesos.TaskState, source mesos.TaskStatus_Source, reason mesos.TaskStatus_Reason) {
	u := Update{TaskID: task, AgentID: agent, Status: Status{State: state, Source: source}}
	if reason >= 0 {
		u.Reason, u.HasWhy = reason, true
	}
	w.events = append(w.events, u)
}

// end is the end of a task at its agent.
func (w *world) end(id string, state mesos.TaskState, source mesos.TaskStatus_Source, reason mesos.TaskStatus_Reason) {
	t := w.tasks[id]
	if t == nil {
		return
	}
	delete(w.tasks, id)
	w.giveBack(t.agent, t.held)
	w.post(id, t.agent, state, source, reason)
}

// answer is what the master says of a task that it is asked for.
func (w *world) answer(id, agent string) {
	if t := w.tasks[id]; t != nil {
		w.post(id, t.agent, mesos.TASK_RUNNING, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
		return
	}
	w.post(id, agent, mesos.TASK_GONE, mesos.SOURCE_MASTER, mesos.REASON_RECONCILIATION)
}

// deliver brings the next event to the ledger, sometimes twice, and does what Bind and lifecycle do about it.
func (w *world) deliver() {
	if len(w.events) == 0 || !w.Connected() {
		return
	}
	u := w.events[0]
	w.events = w.events[1:]
	w.book.apply(u)
	if w.rng.Intn(5) == 0 {
		w.book.apply(u)
	}
}

// step does one random thing. calm leaves out faults.
func (w *world) step(calm bool) {
	agent := []string{"S1", "S2"}[w.rng.Intn(2)]
	uid := pick(w, w.pods)
	action := w.rng.Intn(22)
	if calm && action >= 15 {
		return
	}
	switch action {
	case 0, 1:
		w.makeOffer(agent)
	case 2, 3:
		if calm {
			return
		}
		uid = w.next("p")
		need := needOf(100+w.rng.Int63n(2000), 64+w.rng.Int63n(1500))
		if w.rng.Intn(3) == 0 {
			need.Ports = []int32{31000 + int32(w.rng.Intn(7))}
		}
		if w.claim(uid, need, agent) == nil {
			w.pods[uid] = false
		}
	case 4, 5, 6:
		var ready []string
		for _, t := range w.Tasks() {
			if t.State == Claimed && t.AgentID == agent {
				ready = append(ready, string(t.UID))
			}
		}
		sort.Strings(ready)
		b := w.batch(agent, append(ready, ready...)...)
		if b == nil {
			return
		}
		switch fault := w.rng.Intn(8); {
		case calm || fault < 5:
			w.accept(b)
			w.Sent(b)
		case fault == 5:
			w.NotSent(b)
		case fault == 6:
			w.accept(b)
			w.Unclear(b)
		default:
			w.late = append(w.late, b)
			w.Unclear(b)
		}
	case 7, 8, 9:
		w.deliver()
	case 10: // Bind
		if t, ok := w.Task(types.UID(uid)); ok && !w.pods[uid] {
			switch {
			case t.State.Live() && t.KillSince.IsZero():
				w.pods[uid] = w.Bound(t.UID, t.ID)
			case t.State == Terminal:
				w.Retry(t.UID)
			}
		}
	case 11: // kills
		for _, d := range w.Dooms(0, 0) {
			w.end(d.TaskID, mesos.TASK_KILLED, mesos.SOURCE_EXECUTOR, -1)
		}
	case 12: // fences: DECLINE and RECONCILE on one connection
		for _, f := range w.Fences() {
			for _, id := range f.OfferIDs {
				if o := w.offers[id]; o != nil {
					delete(w.offers, id)
					w.giveBack(o.agent, o.held)
				}
			}
			var ids []string
			for _, t := range f.Tasks {
				ids = append(ids, t.TaskID)
			}
			w.Fenced(ids)
			for _, t := range f.Tasks {
				w.answer(t.TaskID, t.AgentID)
			}
		}
	case 13: // held anew
		for _, t := range w.Tasks() {
			if t.State == Unheld {
				w.Reclaim(t.UID)
			}
		}
	case 14: // reconciliation, which cannot overtake what was said before
		for _, q := range append(w.Unanswered(), w.Stuck(0)...) {
			w.answer(q.TaskID, q.AgentID)
		}
		w.clock.Step(time.Second)
		w.Expire()
	case 15: // RESCIND
		if id := pick(w, w.offers); id != "" {
			o := w.offers[id]
			delete(w.offers, id)
			w.giveBack(o.agent, o.held)
			w.Rescind(id)
		}
	case 16: // DECLINE
		for _, id := range w.Decline([]string{pick(w, w.offers)}) {
			o := w.offers[id]
			delete(w.offers, id)
			w.giveBack(o.agent, o.held)
		}
	case 17: // Unreserve
		if t, ok := w.Task(types.UID(uid)); ok && !w.pods[uid] && !t.Bound {
			w.Release(t.UID)
			delete(w.pods, uid)
		}
	case 18: // the pod is deleted
		if uid != "" {
			bound := w.pods[uid]
			w.PodGone(types.UID(uid))
			if delete(w.pods, uid); !bound {
				w.Release(types.UID(uid))
			}
		}
	case 19: // an executor ends
		if id := pick(w, w.execs[agent]); id != "" {
			w.giveBack(agent, w.execs[agent][id])
			delete(w.execs[agent], id)
			w.ExecutorGone(agent, id)
			for task, t := range w.tasks {
				if t.executor == id {
					w.end(task, mesos.TASK_FAILED, mesos.SOURCE_AGENT, mesos.REASON_EXECUTOR_TERMINATED)
				}
			}
		}
	case 20: // an ACCEPT arrives late
		if len(w.late) > 0 {
			w.accept(w.late[0])
			w.late = w.late[1:]
		}
	case 21: // the connection breaks: offers and events die with it, late calls are refused
		w.SetConnected(false)
		for id, o := range w.offers {
			w.giveBack(o.agent, o.held)
			delete(w.offers, id)
		}
		w.events, w.late = slices.DeleteFunc(w.events, func(u Update) bool { return u.Source == mesos.SOURCE_MASTER }), nil
		w.Resubscribed()
		w.SetConnected(true)
	}
	w.audit()
}

// Random schedules of everything that can happen; at any time the books agree with the records (audit), no task takes
// more than was offered (I3), no pod has two live tasks (I2), and when the faults have stopped every bound pod has
// exactly one task, and no task is left without its pod (I1).
func TestRandomSchedules(t *testing.T) {
	schedules, steps := 150, 400
	if testing.Short() {
		schedules = 20
	}
	launched := 0
	for seed := range int64(schedules) {
		w := newWorld(t, seed)
		for range steps {
			w.step(false)
		}
		for range 20 * steps {
			w.step(true)
			if w.quiet() {
				break
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		launched += w.serial
		live := map[string]string{}
		for id, task := range w.tasks {
			live[task.uid] = id
		}
		for uid, bound := range w.pods {
			if task, ok := w.Task(types.UID(uid)); bound && (!ok || task.State != Terminal && live[uid] != task.ID) {
				t.Errorf("seed %d: I1: pod %s is bound; its record is %+v, its live task %q", seed, uid, task, live[uid])
			}
		}
		for uid, id := range live {
			if task, ok := w.Task(types.UID(uid)); !ok || task.ID != id {
				t.Errorf("seed %d: I1: task %s lives, the record of its pod is %+v", seed, id, task)
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d things happened", launched)
}

// quiet says whether nothing is left to happen by itself.
func (w *world) quiet() bool {
	if len(w.events) > 0 || len(w.Fences()) > 0 || len(w.Unanswered()) > 0 || len(w.Strangers()) > 0 {
		return false
	}
	for _, t := range w.Tasks() {
		if t.State == Launching || t.State == Unclear || t.State == Unheld || t.State == Unreachable || !t.KillSince.IsZero() || t.Bound && t.State == Claimed {
			return false
		}
		if !t.PodGone.IsZero() {
			return false
		}
	}
	return true
}
