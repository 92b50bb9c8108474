// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"fmt"
	"math"
	"math/rand"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"k8s.io/utils/ptr"
)

var entry = regexp.MustCompile(`^(\w+)(\(([\w/+-]+)\))?(\{REV\})?:(.*)$`)

// res reads `cpus:2;mem(role):1024;cpus{REV}:4;ports:[1-2, 5-5]`; all is allocated to the role "k8s", and what is
// reserved is reserved statically.
func res(t testing.TB, s string) []mesos.Resource {
	t.Helper()
	var out []mesos.Resource
	for _, part := range strings.Split(s, ";") {
		m := entry.FindStringSubmatch(part)
		if m == nil {
			t.Fatalf("no resource: %q", part)
		}
		r := mesos.Resource{Name: m[1], AllocationInfo: &mesos.Resource_AllocationInfo{Role: ptr.To("k8s")}}
		if m[3] != "" {
			r.Reservations = []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: ptr.To(m[3])}}
		}
		if m[4] != "" {
			r.Revocable = &mesos.Resource_RevocableInfo{}
		}
		if strings.HasPrefix(m[5], "[") {
			r.Type, r.Ranges = mesos.RANGES.Enum(), &mesos.Value_Ranges{}
			for _, span := range strings.Split(strings.Trim(m[5], "[]"), ", ") {
				b, e, _ := strings.Cut(span, "-")
				begin, _ := strconv.ParseUint(b, 10, 64)
				end, _ := strconv.ParseUint(e, 10, 64)
				r.Ranges.Range = append(r.Ranges.Range, mesos.Value_Range{Begin: begin, End: end})
			}
		} else {
			v, err := strconv.ParseFloat(m[5], 64)
			if err != nil {
				t.Fatal(err)
			}
			r.Type, r.Scalar = mesos.SCALAR.Enum(), &mesos.Value_Scalar{Value: v}
		}
		out = append(out, r)
	}
	return out
}

// text is the inverse of res.
func text(rs []mesos.Resource) string {
	var parts []string
	for i := range rs {
		r := &rs[i]
		s := r.Name
		if len(r.Reservations) > 0 {
			s += "(" + r.Reservations[len(r.Reservations)-1].GetRole() + ")"
		}
		if r.Revocable != nil {
			s += "{REV}"
		}
		if r.Ranges != nil {
			s += ":" + portsFromRanges(r.Ranges).String()
		} else {
			s += ":" + strconv.FormatFloat(r.Scalar.Value, 'f', -1, 64)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ";")
}

func TestC01_FractionalCPUs(t *testing.T) {
	o1, _ := ParseOffer(res(t, "cpus:0.3;mem:512"))
	// 0.1 + 0.2 as doubles is more than 0.3.
	held, err := o1.Take(Amounts{CPUs: 100 + 200, Mem: 128_000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(held); got != "cpus:0.3;mem:128" {
		t.Errorf("the task holds %s", got)
	}
	if o1.Amounts.CPUs != 0 {
		t.Errorf("the remainder is %d thousandths, want none", o1.Amounts.CPUs)
	}
	o2, _ := ParseOffer(res(t, "cpus:1;mem:1024"))
	for i := range 10 {
		if _, err := o2.Take(Amounts{CPUs: 100, Mem: 32_000}, nil); err != nil {
			t.Fatalf("pod %d: %v", i, err)
		}
	}
	if _, err := o2.Take(Amounts{CPUs: 100}, nil); err == nil {
		t.Error("an eleventh pod fits")
	}
	if o2.Amounts.CPUs != 0 {
		t.Errorf("the remainder is %d thousandths, want none", o2.Amounts.CPUs)
	}
	held, err = o2.Take(Amounts{Mem: 1}, nil)
	if err != nil || text(held) != "mem:0.001" {
		t.Errorf("%v %v: a zero remainder must be dropped, not sent", text(held), err)
	}
}

func TestC03_AbsentDiskIsZero(t *testing.T) {
	o, _ := ParseOffer(res(t, "cpus:4;mem:4096;ports:[31000-32000]"))
	held, err := o.Take(Amounts{CPUs: 500, Mem: 256_000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(held); got != "cpus:0.5;mem:256" {
		t.Errorf("the task holds %s, want no disk entry", got)
	}
	before := o.String()
	if _, err := o.Take(Amounts{CPUs: 500, Mem: 256_000, Disk: 1024_000}, nil); err == nil || !strings.Contains(err.Error(), "disk:1024") {
		t.Errorf("error %v, want one that names disk:1024", err)
	}
	if o.String() != before {
		t.Errorf("a refused Take changed %s to %s", before, o)
	}
}

func TestC19_ReservedFirstAndEveryEntryAsOffered(t *testing.T) {
	offered := res(t, "cpus(k8s):1;cpus:2;mem(k8s):2048;ports(k8s):[8080-8080, 31999-32000];ports:[31000-31998]")
	o, _ := ParseOffer(offered)
	held, err := o.Take(Amounts{CPUs: 1500, Mem: 1024_000}, []int32{8080, 31005})
	if err != nil {
		t.Fatal(err)
	}
	want := res(t, "cpus(k8s):1;cpus:0.5;mem(k8s):1024;ports(k8s):[8080-8080];ports:[31005-31005]")
	if diff := cmp.Diff(want, held); diff != "" {
		t.Errorf("held (-want,+got):\n%s", diff)
	}
}

func TestC19_RefinedAndDynamicReservationsAreKept(t *testing.T) {
	dynamic := res(t, "cpus(k8s):2")[0]
	dynamic.Reservations = append(dynamic.Reservations, mesos.Resource_ReservationInfo{Type: mesos.Resource_ReservationInfo_DYNAMIC.Enum(), Role: ptr.To("k8s/team"), Principal: ptr.To("ops")})
	o, _ := ParseOffer(append(res(t, "cpus:1;cpus(k8s):1;mem:100"), dynamic))
	held, err := o.Take(Amounts{CPUs: 3500}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []mesos.Resource{dynamic, res(t, "cpus(k8s):1")[0], res(t, "cpus:0.5")[0]}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Errorf("the most refined reservation goes first, each as offered (-want,+got):\n%s", diff)
	}
}

func TestC20_RevocableIsAnotherKind(t *testing.T) {
	regular, revocable := ParseOffer(res(t, "cpus:2;cpus{REV}:4;mem:8192"))
	if regular.Amounts.CPUs != 2000 || revocable.Amounts.CPUs != 4000 {
		t.Fatalf("regular %s, revocable %s", regular, revocable)
	}
	if _, err := regular.Take(Amounts{CPUs: 3000}, nil); err == nil {
		t.Error("a regular task got revocable cpus")
	}
	held, err := revocable.Take(Amounts{CPUs: 3000, Mem: 1024_000}, nil)
	if err != nil || text(held) != "cpus{REV}:3;mem:1024" {
		t.Errorf("a revocable task holds %s (%v), want revocable cpus alone and, as no memory is revocable, regular memory", text(held), err)
	}
	if b := revocable.Borrowed(); b != (Names{Mem: true}) {
		t.Errorf("borrowed %+v, want mem", b)
	}
}

func TestParseOfferLeavesOut(t *testing.T) {
	with := func(s string, change func(*mesos.Resource)) []mesos.Resource {
		r := res(t, s)
		change(&r[0])
		return r
	}
	label := &mesos.Labels{Labels: []mesos.Label{{Key: "owner"}}}
	tests := map[string][]mesos.Resource{
		"shared": with("disk:10", func(r *mesos.Resource) { r.Shared = &mesos.Resource_SharedInfo{} }),
		"persistent volume": with("disk:10", func(r *mesos.Resource) {
			r.Disk = &mesos.Resource_DiskInfo{Persistence: &mesos.Resource_DiskInfo_Persistence{ID: "v"}}
		}),
		"disk with a source":    with("disk:10", func(r *mesos.Resource) { r.Disk = &mesos.Resource_DiskInfo{Source: &mesos.Resource_DiskInfo_Source{}} }),
		"of a provider":         with("disk:10", func(r *mesos.Resource) { r.ProviderID = &mesos.ResourceProviderID{Value: "p"} }),
		"somebody's":            with("cpus(k8s):1", func(r *mesos.Resource) { r.Reservations[0].Labels = label }),
		"somebody's, old form":  with("cpus:1", func(r *mesos.Resource) { r.Reservation = &mesos.Resource_ReservationInfo{Labels: label} }),
		"unknown name":          res(t, "bandwidth:10"),
		"not a number":          with("cpus:1", func(r *mesos.Resource) { r.Scalar.Value = math.NaN() }),
		"infinite":              with("cpus:1", func(r *mesos.Resource) { r.Scalar.Value = math.Inf(1) }),
		"negative":              with("cpus:1", func(r *mesos.Resource) { r.Scalar.Value = -1 }),
		"less than thousandths": with("cpus:1", func(r *mesos.Resource) { r.Scalar.Value = 0.0004 }),
		"a scalar without one":  with("cpus:1", func(r *mesos.Resource) { r.Scalar = nil }),
		"ports as a scalar":     with("cpus:1", func(r *mesos.Resource) { r.Name = Ports }),
		"cpus as ranges":        with("ports:[1-2]", func(r *mesos.Resource) { r.Name = CPUs }),
		"ports out of range":    res(t, "ports:[70000-80000]"),
		"ports turned around":   res(t, "ports:[9-2]"),
		"no ranges":             with("ports:[1-2]", func(r *mesos.Resource) { r.Ranges.Range = nil }),
		"empty":                 {{}},
	}
	for name, offered := range tests {
		t.Run(name, func(t *testing.T) {
			regular, revocable := ParseOffer(offered)
			if !regular.Empty() || !revocable.Empty() {
				t.Errorf("regular %s, revocable %s", regular, revocable)
			}
		})
	}
	if o, _ := ParseOffer(with("cpus:1", func(r *mesos.Resource) { r.Scalar.Value = 1e300 })); o.Amounts.CPUs != maxMilli {
		t.Errorf("a huge scalar counts as %d", o.Amounts.CPUs)
	}
}

// Every port of a piece taken leaves a piece without ports; joining it with others must do no harm.
func TestJoinAfterAllPortsAreTaken(t *testing.T) {
	o, _ := ParseOffer(res(t, "cpus:1;ports(k8s):[53-53];ports:[80-81]"))
	if _, err := o.Take(Amounts{}, []int32{53}); err != nil {
		t.Fatal(err)
	}
	var sum Offered
	sum.Join(o)
	if got := sum.String(); got != "cpus:1;ports:[80-81]" {
		t.Errorf("%s", got)
	}
}

func TestTakeExecutor(t *testing.T) {
	need := Amounts{CPUs: 100, Mem: 128_000}
	tests := []struct {
		name, offered, want string
		kind                ReservationKind
	}{
		{"unreserved first, so that reserved is left for tasks", "cpus(k8s):1;cpus:1;mem(k8s):1024;mem:1024", "cpus:0.1;mem:128", Unreserved},
		{"reserved where nothing else is", "cpus(k8s):1;mem(k8s):1024", "cpus(k8s):0.1;mem(k8s):128", Static},
		{"one kind: memory is reserved only", "cpus(k8s):1;cpus:2;mem(k8s):1024", "cpus(k8s):0.1;mem(k8s):128", Static},
		{"each of another kind", "cpus(k8s):1;mem:1024", "cpus(k8s):0.1;mem:128", Other},
		{"another role's reservation", "cpus(parent):1;mem(parent):1024", "cpus(parent):0.1;mem(parent):128", Other},
		{"crumbs do not hold it", "cpus:0.05;cpus(k8s):0.05;mem:1024", "", 0},
		{"no memory", "cpus:1", "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, _ := ParseOffer(res(t, tt.offered))
			before := o.Amounts
			if got := o.HoldsExecutor(need); got != (tt.want != "") {
				t.Errorf("HoldsExecutor: %v", got)
			}
			held, kind, err := o.TakeExecutor(need)
			if (err != nil) != (tt.want == "") || text(held) != tt.want || kind != tt.kind {
				t.Fatalf("%s of kind %c, %v; want %s of kind %c", text(held), kind, err, tt.want, tt.kind)
			}
			if err != nil {
				if o.Amounts != before {
					t.Error("a refusal changed what is offered")
				}
				return
			}
			if o.Amounts != before.Sub(need) {
				t.Errorf("left %v", o.Amounts)
			}
			if kind != Other {
				// Built anew after a restart, the executor must equal the one that runs.
				if diff := cmp.Diff(held, ExecutorResources(need, "k8s", kind, false)); diff != "" {
					t.Errorf("rebuilt (-taken,+rebuilt):\n%s", diff)
				}
			}
		})
	}
}

// Whatever is taken is contained, piece by piece, in what was offered, and nothing is lost.
func TestTakeIsContainedInTheOffer(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for round := range 300 {
		var parts []string
		for range 1 + rng.Intn(6) {
			name := []string{"cpus", "mem", "disk", "cpus(k8s)", "mem(k8s)", "cpus(parent)"}[rng.Intn(6)]
			parts = append(parts, fmt.Sprintf("%s:%d.%03d", name, rng.Intn(4), rng.Intn(1000)))
		}
		begin := 1000 + rng.Intn(50)
		parts = append(parts, fmt.Sprintf("ports:[%d-%d]", begin, begin+rng.Intn(20)), fmt.Sprintf("ports(k8s):[%d-%d]", 2000, 2000+rng.Intn(5)))
		offered := res(t, strings.Join(parts, ";"))
		o, _ := ParseOffer(offered)
		whole := o.Clone()
		var taken []mesos.Resource
		var sum Amounts
		var ports []int32
		for range 8 {
			need := Amounts{CPUs: rng.Int63n(1500), Mem: rng.Int63n(1500), Disk: rng.Int63n(500)}
			var wanted []int32
			if rng.Intn(2) == 0 {
				if p := int32(1000 + rng.Intn(70)); !slices.Contains(ports, p) {
					wanted = append(wanted, p)
				}
			}
			before := o.Clone()
			held, err := o.Take(need, wanted)
			if err != nil {
				if diff := cmp.Diff(before.String(), o.String()); diff != "" {
					t.Fatalf("a refusal changed what is left:\n%s", diff)
				}
				continue
			}
			taken, sum, ports = append(taken, held...), sum.Add(need), append(ports, wanted...)
		}
		if whole.Amounts != o.Amounts.Add(sum) || o.Amounts.Negative() {
			t.Fatalf("round %d: %s offered, %s taken, %s left", round, whole, sum, o)
		}
		// Per identity (role, reservation) no more was taken than offered.
		left := map[string]int64{}
		for i := range offered {
			if offered[i].Scalar != nil {
				left[text(res(t, strings.Split(text(offered[i:i+1]), ":")[0]+":1"))] += fromScalar(offered[i].Scalar.Value)
			}
		}
		for i := range taken {
			if taken[i].Scalar != nil {
				key := text(res(t, strings.Split(text(taken[i:i+1]), ":")[0]+":1"))
				if left[key] -= fromScalar(taken[i].Scalar.Value); left[key] < 0 {
					t.Fatalf("round %d: more of %s was taken than %v holds", round, key, parts)
				}
			}
		}
	}
}

func FuzzParseOffer(f *testing.F) {
	f.Add("cpus", 1.5, uint64(1), uint64(5), "k8s")
	f.Add("ports", math.NaN(), uint64(math.MaxUint64), uint64(0), "*")
	f.Fuzz(func(t *testing.T, name string, v float64, begin, end uint64, role string) {
		r := mesos.Resource{Name: name, Role: &role, Scalar: &mesos.Value_Scalar{Value: v}, Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: begin, End: end}}}}
		a, b := ParseOffer([]mesos.Resource{r, r})
		if a.Amounts.Negative() || b.Amounts.Negative() {
			t.Errorf("%v %v", a, b)
		}
		a.Join(b)
		_, _ = a.Take(a.Amounts, nil)
	})
}
