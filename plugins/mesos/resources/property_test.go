// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// master is what a Mesos master does with resources, restated: scalars are rounded to thousandths, a resource is subtracted
// from one that is equal but for its value, and ranges are sets of numbers (src/v1/resources.cpp).
type master struct {
	scalars map[string]int64
	ports   map[string]map[uint64]bool
}

func newMaster(rs []mesos.Resource) *master {
	m := &master{scalars: map[string]int64{}, ports: map[string]map[uint64]bool{}}
	for i := range rs {
		key := identity(&rs[i])
		if rs[i].Scalar != nil {
			m.scalars[key] += int64(math.Round(rs[i].Scalar.Value * 1000))
		}
		for _, r := range rs[i].GetRanges().GetRange() {
			if m.ports[key] == nil {
				m.ports[key] = map[uint64]bool{}
			}
			for p := r.Begin; p <= r.End; p++ {
				m.ports[key][p] = true
			}
		}
	}
	return m
}

// identity is everything of a resource but its value.
func identity(r *mesos.Resource) string {
	plain := *r
	plain.Scalar, plain.Ranges = nil, nil
	b, err := plain.Marshal()
	if err != nil {
		panic(err)
	}
	return string(b)
}

// subtract takes resources away; it says what is not contained.
func (m *master) subtract(rs []mesos.Resource) error {
	for i := range rs {
		key := identity(&rs[i])
		if rs[i].Scalar != nil {
			if m.scalars[key] -= int64(math.Round(rs[i].Scalar.Value * 1000)); m.scalars[key] < 0 {
				return fmt.Errorf("%s is not in the offer as it was offered", text(rs[i:i+1]))
			}
		}
		for _, r := range rs[i].GetRanges().GetRange() {
			if r.Begin > r.End {
				return fmt.Errorf("begin > end in %s", text(rs[i:i+1]))
			}
			for p := r.Begin; p <= r.End; p++ {
				if !m.ports[key][p] {
					return fmt.Errorf("port %d is not in the offer as it was offered", p)
				}
				delete(m.ports[key], p)
			}
		}
	}
	return nil
}

// total is what is left of a name.
func (m *master) total(name string, offered []mesos.Resource) (sum int64) {
	seen := map[string]bool{}
	for i := range offered {
		if key := identity(&offered[i]); offered[i].Name == name && !seen[key] {
			seen[key] = true
			sum += m.scalars[key]
		}
	}
	return sum
}

// randomOffer is an offer with pieces of several reservations.
func randomOffer(t *testing.T, rng *rand.Rand) []mesos.Resource {
	var parts []string
	for range 1 + rng.Intn(8) {
		name := []string{"cpus", "mem", "disk", "cpus(k8s)", "mem(k8s)", "cpus(parent)", "mem(parent)"}[rng.Intn(7)]
		parts = append(parts, fmt.Sprintf("%s:%d.%03d", name, rng.Intn(4), rng.Intn(1000)))
	}
	for i, name := range []string{"ports", "ports(k8s)"} {
		begin := 1000*(i+1) + rng.Intn(10)
		parts = append(parts, fmt.Sprintf("%s:[%d-%d, %d-%d]", name, begin, begin+rng.Intn(5), begin+10, begin+10+rng.Intn(5)))
	}
	return res(t, strings.Join(parts, ";"))
}

func randomPorts(rng *rand.Rand) []int32 {
	var out []int32
	for range rng.Intn(4) {
		if p := int32(1000*(1+rng.Intn(2)) + rng.Intn(20)); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// TestTakeIsTheMastersArithmetic: a need is granted exactly when the pieces exist; what is granted is contained in the offer
// by the master's rules, is the need, and given back makes what was there before.
func TestTakeIsTheMastersArithmetic(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	granted, refused := 0, 0
	for range 3000 {
		offered := randomOffer(t, rng)
		o, revocable := ParseOffer(offered)
		if !revocable.Empty() {
			t.Fatal("nothing revocable was offered")
		}
		m := newMaster(offered)
		need, ports := Amounts{CPUs: rng.Int63n(5000), Mem: rng.Int63n(5000), Disk: rng.Int63n(2) * rng.Int63n(2000)}, randomPorts(rng)
		exists := need.CPUs <= m.total(CPUs, offered) && need.Mem <= m.total(Mem, offered) && need.Disk <= m.total(Disk, offered)
		for _, p := range ports {
			there := false
			for _, set := range m.ports {
				there = there || set[uint64(p)]
			}
			exists = exists && there
		}
		before := o.Clone()
		held, err := o.Take(need, ports)
		if (err == nil) != exists {
			t.Fatalf("%s of %s: %v, the pieces exist: %t", Need{Amounts: need, Ports: ports}, before, err, exists)
		}
		if err != nil {
			refused++
			continue
		}
		granted++
		if err := m.subtract(held); err != nil {
			t.Fatalf("took %s of %s: %v", text(held), text(offered), err)
		}
		got, _ := ParseOffer(held)
		if got.Amounts != need || got.Ports.String() != PortsOf(ports...).String() {
			t.Fatalf("the need is %s, the task holds %s", Need{Amounts: need, Ports: ports}, got)
		}
		o.Join(got)
		same(t, before, o)
	}
	if granted < 200 || refused < 200 {
		t.Errorf("%d granted, %d refused: the test says little", granted, refused)
	}
}

// same compares two sums of pieces, piece by piece, whatever their order.
func same(t *testing.T, want, got Offered) {
	t.Helper()
	list := func(o Offered) string {
		var all []string
		for _, p := range o.pieces {
			if p.amount > 0 || len(p.ports) > 0 {
				all = append(all, fmt.Sprintf("%q %d %s", p.key, p.amount, p.ports))
			}
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	if want.Amounts != got.Amounts || want.Ports.String() != got.Ports.String() || list(want) != list(got) {
		t.Fatalf("taken and given back:\n%s\n%s\nbefore:\n%s\n%s", got, list(got), want, list(want))
	}
}

// TestExecutorIsTakenWhole: an executor fits exactly when one piece holds its cpus and one its memory, what it takes is contained
// in the offer, and given back makes what was there before.
func TestExecutorIsTakenWhole(t *testing.T) {
	rng := rand.New(rand.NewSource(4))
	for range 2000 {
		offered := randomOffer(t, rng)
		o, _ := ParseOffer(offered)
		need := Amounts{CPUs: 1 + rng.Int63n(3000), Mem: 1 + rng.Int63n(3000)}
		m := newMaster(offered)
		single := map[string]bool{}
		for i := range offered {
			if r := &offered[i]; m.scalars[identity(r)] >= *need.orMuch(r.Name) {
				single[r.Name] = true
			}
		}
		exists := single[CPUs] && single[Mem]
		before := o.Clone()
		if o.HoldsExecutor(need) != exists {
			t.Fatalf("%s of %s: it holds it: %t, want %t", need, o, !exists, exists)
		}
		held, _, err := o.TakeExecutor(need)
		if (err == nil) != exists {
			t.Fatalf("%s of %s: %v", need, before, err)
		}
		if err == nil {
			if err := m.subtract(held); err != nil || len(held) != 2 {
				t.Fatalf("took %s of %s: %v", text(held), text(offered), err)
			}
			got, _ := ParseOffer(held)
			o.Join(got)
		}
		same(t, before, o)
	}
}

// orMuch is the amount of a name, more than there ever is for names that an executor does not use.
func (a Amounts) orMuch(name string) *int64 {
	if name == CPUs || name == Mem {
		return a.of(name)
	}
	most := int64(math.MaxInt64)
	return &most
}

// TestScalarsSurviveTheWire: a number of thousandths is the same after it was sent as a double, and sums are those of a master,
// which rounds each to thousandths.
func TestScalarsSurviveTheWire(t *testing.T) {
	rng := rand.New(rand.NewSource(5))
	for range 200_000 {
		v := rng.Int63n(1e12) // a thousand million cores, or a thousand TiB
		if rng.Intn(2) == 0 {
			v = rng.Int63n(1_000_000)
		}
		if got := fromScalar(toScalar(v)); got != v {
			t.Fatalf("%d is %d after the wire", v, got)
		}
		if got := int64(math.Round(toScalar(v) * 1000)); got != v {
			t.Fatalf("%d is %d for the master", v, got)
		}
	}
	sum, exact := 0.0, int64(0)
	for range 10_000 {
		v := rng.Int63n(1000)
		sum = math.Round((sum+toScalar(v))*1000) / 1000 // the master's addition
		exact += v
	}
	if fromScalar(sum) != exact {
		t.Errorf("the master adds up %v, we %d thousandths", sum, exact)
	}
}

// TestAmountsAreAGroup: adding and taking away lose and make nothing, and what fits leaves nothing negative.
func TestAmountsAreAGroup(t *testing.T) {
	rng := rand.New(rand.NewSource(6))
	random := func() Amounts {
		return Amounts{rng.Int63n(1e6), rng.Int63n(1e9), rng.Int63n(1e9), rng.Int63n(1e4)}
	}
	for range 10_000 {
		a, b, c := random(), random(), random()
		if a.Add(b).Sub(b) != a || a.Add(b) != b.Add(a) || a.Add(b).Add(c) != a.Add(b.Add(c)) {
			t.Fatalf("%v %v %v", a, b, c)
		}
		if a.FitsIn(b) == b.Sub(a).Negative() {
			t.Fatalf("%v fits in %v: %t, what is left is %v", a, b, a.FitsIn(b), b.Sub(a))
		}
		if back, ok := ParseAmounts(a.String()); !ok || back != a {
			t.Fatalf("%s is read as %v", a, back)
		}
	}
}

// TestChosenPorts are free, as many as asked for, and none of those that the pod names by number.
func TestChosenPorts(t *testing.T) {
	rng := rand.New(rand.NewSource(8))
	for range 3000 {
		var ranges []PortRange
		for range rng.Intn(5) {
			begin := int32(1000 + rng.Intn(30))
			ranges = append(ranges, PortRange{begin, begin + int32(rng.Intn(4))})
		}
		free := NewPortSet(ranges...)
		need := Need{Ports: randomPorts(rng), AnyPorts: rng.Intn(5)}
		own := PortsOf(need.Ports...)
		chosen, ok := need.Choose(free)
		if want := free.Minus(own).Count() >= need.AnyPorts; ok != want {
			t.Fatalf("%s of %s: %t", need, free, ok)
		}
		if !ok || need.AnyPorts == 0 {
			continue
		}
		if len(chosen.Chosen) != need.AnyPorts || PortsOf(chosen.Chosen...).Count() != need.AnyPorts || !free.HasAll(chosen.Chosen) || len(own.Intersect(PortsOf(chosen.Chosen...))) > 0 ||
			PortsOf(chosen.Ports...).String() != own.Union(PortsOf(chosen.Chosen...)).String() || chosen.AnyPorts != 0 {
			t.Fatalf("%s of %s: %+v", need, free, chosen)
		}
	}
}

// TestShreddedPorts works on ranges as shredded as they can be: every second port, in milliseconds.
func TestShreddedPorts(t *testing.T) {
	r := mesos.Resource{Name: Ports, Type: mesos.RANGES.Enum(), Ranges: &mesos.Value_Ranges{}}
	for p := uint64(1); p < 65535; p += 2 {
		r.Ranges.Range = append(r.Ranges.Range, mesos.Value_Range{Begin: p, End: p})
	}
	whole := mesos.Resource{Name: Ports, Type: mesos.RANGES.Enum(), Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: 0, End: math.MaxUint64}}}}
	begun := time.Now()
	o, _ := ParseOffer([]mesos.Resource{r})
	for i := range int32(10) {
		if _, err := o.Take(Amounts{}, []int32{1 + 2*i, 60001 + 2*i}); err != nil {
			t.Fatal(err)
		}
	}
	if n := o.Ports.Count(); n != 32767-20 {
		t.Errorf("%d ports are left", n)
	}
	all, _ := ParseOffer([]mesos.Resource{whole})
	if n := all.Ports.Minus(o.Ports).Count(); n != 65536-(32767-20) {
		t.Errorf("%d ports are not offered", n)
	}
	// A hundred times what it takes on an idle machine: this is not a benchmark, it tells a slow algorithm.
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}
