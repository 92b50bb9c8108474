// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
)

// bag counts resources as the master does: those that are equal but for their value are added up.
type bag map[string]int64

// put adds resources times sign; it returns what there is too little of.
func (b bag) put(rs []mesos.Resource, sign int64) string {
	for _, r := range rs {
		shape := r
		shape.Scalar, shape.Ranges = nil, nil
		shape.AllocationInfo = &mesos.Resource_AllocationInfo{Role: ptr.To(role)}
		text, _ := shape.Marshal()
		key := fmt.Sprintf("%s %d %x", shape.Name, len(shape.Reservations), text)
		if r.Scalar != nil {
			b[key] += sign * int64(math.Round(r.Scalar.Value*1000))
		}
		for _, x := range r.GetRanges().GetRange() {
			for p := x.Begin; p <= x.End; p++ {
				b[fmt.Sprint(key, " ", p)] += sign
			}
		}
	}
	for key, n := range b {
		if n < 0 {
			return key
		}
		if n == 0 {
			delete(b, key)
		}
	}
	return ""
}

func (b bag) reserved() (out []string) {
	for key, n := range b {
		switch parts := strings.Fields(key); {
		case parts[1] == "0":
		case len(parts) == 4:
			out = append(out, "port "+parts[3])
		default:
			out = append(out, fmt.Sprintf("%s %d", parts[0], n))
		}
	}
	sort.Strings(out)
	return out
}

// does applies a batch and returns what is left of the offers; what the operations ask for must be there.
func (b *book) does(offered []mesos.Resource, batch *Batch) bag {
	b.t.Helper()
	pool := bag{}
	pool.put(offered, +1)
	var tasks []mesos.TaskInfo
	for _, l := range batch.Launches {
		tasks = append(tasks, mesos.TaskInfo{Resources: l.Resources})
	}
	strip := func(rs []mesos.Resource) []mesos.Resource {
		rs = slices.Clone(rs)
		for i := range rs {
			rs[i].Reservations = rs[i].Reservations[:len(rs[i].Reservations)-1]
		}
		return rs
	}
	lacks := func(what, key string) {
		if key != "" {
			b.t.Fatalf("%s asks for more %s than there is", what, key)
		}
	}
	for _, op := range batch.Operations(tasks) {
		switch op.Type {
		case mesos.Offer_Operation_UNRESERVE:
			lacks("UNRESERVE", pool.put(op.Unreserve.Resources, -1))
			pool.put(strip(op.Unreserve.Resources), +1)
		case mesos.Offer_Operation_RESERVE:
			lacks("RESERVE", pool.put(strip(op.Reserve.Resources), -1))
			pool.put(op.Reserve.Resources, +1)
		case mesos.Offer_Operation_LAUNCH:
			for _, task := range op.Launch.TaskInfos {
				lacks("LAUNCH", pool.put(task.Resources, -1))
			}
		}
	}
	if batch.NewExecutor {
		lacks("the executor", pool.put(batch.ExecutorResources, -1))
	}
	return pool
}

func (b *book) gang(uid, gang string, need resources.Need, agent string) {
	b.t.Helper()
	pod := ledgerPod(uid)
	pod.Gang = gang
	if err := b.Claim(pod, need, "node-"+agent); err != nil {
		b.t.Fatal(err)
	}
	b.audit()
}

var testHolder = resources.Holder{Principal: "p", Cluster: "c"}

// reservedFor is what an agent offers that was reserved for a gang.
func reservedFor(gang, held string) []mesos.Resource {
	out := heldBy(held, role)
	for i := range out {
		out[i], _ = testHolder.Reserve(out[i], gang)
	}
	return out
}

func withReserved(gang, held string) func(*mesos.Offer) {
	return func(o *mesos.Offer) { o.Resources = append(o.Resources, reservedFor(gang, held)...) }
}

// A launch reserves for the members that still wait, the next one gives it back, and the last leaves nothing.
func TestHoldThroughLaunches(t *testing.T) {
	b := newBook(t)
	b.HoldAs(testHolder)
	first := b.offer("O1", "S1", "cpus:4;mem:4096;ports:[31000-31009]")
	b.add(first)
	b.gang("a", "g", needOf(1000, 512), "S1")
	b.gang("b", "g", needOf(1000, 512), "S1")
	b.gang("c", "g", needOf(500, 512, 31003), "S1")
	b.mustClaim("alone", needOf(500, 128), "S1")

	batch := b.mustBatch("S1", "a")
	left := b.does(first.Resources, batch)
	if got := fmt.Sprint(left.reserved()); got != "[cpus 1500 mem 1024000 port 31003]" {
		t.Errorf("reserved: %s", got)
	}
	if !batch.NewExecutor || len(batch.Unreserve) != 0 || !b.Held(role) {
		t.Errorf("new executor %v, unreserved %v, held %v", batch.NewExecutor, batch.Unreserve, b.Held(role))
	}
	b.Sent(batch)
	b.says(b.task("a").ID, "S1", mesos.TASK_STARTING)

	second := b.offer("O2", "S1", "cpus:1.4;mem:2432;ports:[31000-31002,31004-31009]", running(batch.ExecutorID), withReserved("g", "cpus:1.5;mem:1024;ports:[31003-31003]"))
	b.add(second)
	if ids := b.Decline([]string{"O2"}); len(ids) != 0 {
		t.Error("what is reserved is declined")
	}
	batch = b.mustBatch("S1", "b", "alone")
	left = b.does(second.Resources, batch)
	if got := fmt.Sprint(left.reserved()); got != "[cpus 500 mem 512000 port 31003]" {
		t.Errorf("reserved: %s", got)
	}
	b.Sent(batch)
	third := b.offer("O3", "S1", "cpus:0.4", running(batch.ExecutorID), withReserved("g", "cpus:0.5;mem:512;ports:[31003-31003]"))
	b.add(third)
	batch = b.mustBatch("S1", "c")
	if left = b.does(third.Resources, batch); len(left.reserved()) != 0 || b.Held(role) {
		t.Errorf("reserved in the end: %v, held %v", left.reserved(), b.Held(role))
	}
	for _, launch := range batch.Launches {
		for _, r := range launch.Resources {
			if len(r.Reservations) > 0 {
				t.Errorf("a task holds reserved %v", r)
			}
		}
	}
}

// What no gang claims any more is given back, also what an earlier leader has left, and nothing of anybody else.
func TestHoldIsReleased(t *testing.T) {
	others := func(o *mesos.Offer) {
		other := resources.Holder{Principal: "p", Cluster: "another"}
		for _, r := range heldBy("cpus:1;mem:64", role) {
			r, _ = other.Reserve(r, "g")
			o.Resources = append(o.Resources, r)
		}
	}
	tests := []struct {
		name   string
		before func(*book)
		offer  []func(*mesos.Offer)
		want   bool // released
		left   string
	}{
		{name: "left by an earlier leader", offer: []func(*mesos.Offer){withReserved("g", "cpus:2;mem:512")}, want: true, left: "[]"},
		{name: "of another cluster", offer: []func(*mesos.Offer){others}},
		{name: "both", offer: []func(*mesos.Offer){others, withReserved("g", "cpus:2;mem:512")}, want: true, left: "[cpus 1000 mem 64000]"},
		{name: "claimed", before: func(b *book) { b.gang("a", "g", needOf(1000, 512), "S1") }, offer: []func(*mesos.Offer){withReserved("g", "cpus:2;mem:512")}},
		{name: "the claim is released", before: func(b *book) {
			b.gang("a", "g", needOf(1000, 512), "S1")
			b.Release("a")
		}, offer: []func(*mesos.Offer){withReserved("g", "cpus:2;mem:512")}, want: true, left: "[]"},
		{name: "claimed by another gang", before: func(b *book) { b.gang("a", "h", needOf(1000, 256), "S1") },
			offer: []func(*mesos.Offer){withReserved("g", "cpus:2;mem:512")}, want: true, left: "[cpus 1100 mem 384000]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBook(t)
			b.HoldAs(testHolder)
			if test.before != nil {
				b.add(b.offer("O0", "S1", "cpus:2;mem:1024"))
				test.before(b)
				b.Rescind("O0")
			}
			o := b.offer("O1", "S1", "cpus:1;mem:512", test.offer...)
			b.add(o)
			got := b.Reshape()
			b.audit()
			if (len(got) == 1) != test.want {
				t.Fatalf("%d ACCEPTs, want one: %v", len(got), test.want)
			}
			if !test.want {
				return
			}
			left := b.does(o.Resources, got[0]).reserved()
			if fmt.Sprint(left) != test.left {
				t.Errorf("reserved: %v, want %v", left, test.left)
			}
			if more := b.Reshape(); len(more) != 0 {
				t.Errorf("again: %v", more)
			}
		})
	}
}

// A gang that waits before it launches has what it claims reserved, with the executor's share; once is enough.
func TestHoldWithoutLaunch(t *testing.T) {
	b := newBook(t)
	b.HoldAs(testHolder)
	o := b.offer("O1", "S1", "cpus:4;mem:4096")
	b.add(o)
	b.gang("a", "g", needOf(1000, 512), "S1")
	if got := b.Reshape(); len(got) != 0 {
		t.Fatal("at once")
	}
	b.clock.Step(holdAfter)
	got := b.Reshape()
	if len(got) != 1 || len(got[0].Launches) != 0 {
		t.Fatalf("%v", got)
	}
	if left := fmt.Sprint(b.does(o.Resources, got[0]).reserved()); left != "[cpus 1100 mem 640000]" {
		t.Errorf("reserved: %s", left)
	}
	b.Sent(got[0])
	b.audit()
	if _, short := b.Short("a"); !short {
		t.Error("the claim waits for its offer to come back")
	}
	back := b.offer("O2", "S1", "cpus:0.1", withReserved("g", "cpus:1.1;mem:640"))
	b.add(back)
	b.clock.Step(time.Minute)
	if got := b.Reshape(); len(got) != 0 {
		t.Error("reserved again")
	}
	// A withdrawn offer of what is reserved comes back to us: the claim waits for it.
	b.Rescind("O2")
	if !b.task("a").RescindedAt.IsZero() {
		t.Error("the claim is given up")
	}
	b.add(b.offer("O3", "S1", "cpus:0.1", withReserved("g", "cpus:1.1;mem:640")))
	if left := b.does(b.offer("", "S1", "cpus:0.1", withReserved("g", "cpus:1.1;mem:640")).Resources, b.mustBatch("S1", "a")); len(left.reserved()) != 0 {
		t.Errorf("reserved in the end: %v", left.reserved())
	}
}

// What became of an ACCEPT that only reserves.
func TestHoldOutcomes(t *testing.T) {
	for name, settle := range map[string]func(b *book, batch *Batch){
		"refused": func(b *book, batch *Batch) {
			b.NotSent(batch)
			if n := len(b.Offers()); n != 1 {
				b.t.Errorf("%d offers are back, want 1", n)
			}
			if b.Held(role) {
				b.t.Error("nothing is reserved")
			}
		},
		"unclear": func(b *book, batch *Batch) {
			b.Unclear(batch)
			if !b.Held(role) {
				b.t.Error("it may be reserved")
			}
			b.add(b.offer("O2", "S1", "cpus:4;mem:4096"))
			if b.Held(role) {
				b.t.Error("the offer shows that nothing is")
			}
		},
		"the agent is gone": func(b *book, batch *Batch) {
			b.Sent(batch)
			b.AgentGone("S1")
			if b.Held(role) {
				b.t.Error("the agent is gone with what was reserved")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			b.HoldAs(testHolder)
			b.add(b.offer("O1", "S1", "cpus:4;mem:4096"))
			b.gang("a", "g", needOf(1000, 512), "S1")
			b.clock.Step(holdAfter)
			settle(b, b.Reshape()[0])
			b.audit()
		})
	}
}

// Without a holder, or for claims that are not to be held, everything is as it was.
func TestNoHold(t *testing.T) {
	b := newBook(t)
	b.add(b.offer("O1", "S1", "cpus:4;mem:4096", withReserved("g", "cpus:1")))
	b.gang("a", "g", needOf(1000, 512), "S1")
	b.gang("b", "g", needOf(1000, 512), "S1")
	batch := b.mustBatch("S1", "a")
	if len(batch.Reserve)+len(batch.Unreserve) != 0 || batch.Operations([]mesos.TaskInfo{{}})[0].Type != mesos.Offer_Operation_LAUNCH {
		t.Errorf("%v", batch)
	}
	if room := b.headroom("S1").CPUs; room >= 4000 {
		t.Errorf("somebody's reservation counts as room: %d", room)
	}
	c := newBook(t)
	c.HoldAs(testHolder)
	c.add(c.offer("O1", "S1", "cpus:4;mem:4096"))
	c.mustClaim("a", needOf(1000, 512), "S1")
	c.mustClaim("b", needOf(1000, 512), "S1")
	c.clock.Step(time.Minute)
	if batch := c.mustBatch("S1", "a"); len(batch.Reserve) != 0 || len(c.Reshape()) != 0 {
		t.Error("reserved for a pod that is in no gang")
	}
}
