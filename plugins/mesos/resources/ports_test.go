// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewPortSet(t *testing.T) {
	tests := []struct {
		name string
		in   []PortRange
		want string
	}{
		{"none", nil, "[]"},
		{"sorted and joined", []PortRange{{8, 9}, {1, 3}, {4, 4}, {2, 3}}, "[1-4, 8-9]"},
		{"turned around is none", []PortRange{{9, 8}}, "[]"},
		{"cut to what is a port", []PortRange{{-5, 2}, {65000, 70000}}, "[0-2, 65000-65535]"},
		{"a long one swallows a short one", []PortRange{{1, 100}, {5, 6}}, "[1-100]"},
	}
	for _, tt := range tests {
		if got := NewPortSet(tt.in...).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// PortSet does what a plain set does.
func TestPortSetAgainstModel(t *testing.T) {
	const n = 40
	rng := rand.New(rand.NewSource(7))
	random := func() (PortSet, map[int32]bool) {
		var rs []PortRange
		model := map[int32]bool{}
		for range rng.Intn(6) {
			b := int32(rng.Intn(n))
			e := min(b+int32(rng.Intn(8)), n-1)
			rs = append(rs, PortRange{b, e})
			for p := b; p <= e; p++ {
				model[p] = true
			}
		}
		return NewPortSet(rs...), model
	}
	check := func(op string, got PortSet, want func(int32) bool) {
		t.Helper()
		count := 0
		for p := int32(0); p < n; p++ {
			if got.Has(p) != want(p) {
				t.Fatalf("%s: %v: port %d is there: %v", op, got, p, got.Has(p))
			}
			if want(p) {
				count++
			}
		}
		if got.Count() != count {
			t.Fatalf("%s: %v has %d ports, want %d", op, got, got.Count(), count)
		}
		if diff := cmp.Diff(NewPortSet(got...).String(), got.String()); diff != "" {
			t.Fatalf("%s: not in normal form (-normal,+got):\n%s", op, diff)
		}
	}
	for range 2000 {
		s, ms := random()
		u, mu := random()
		before := s.String()
		check("Union", s.Union(u), func(p int32) bool { return ms[p] || mu[p] })
		check("Minus", s.Minus(u), func(p int32) bool { return ms[p] && !mu[p] })
		check("Intersect", s.Intersect(u), func(p int32) bool { return ms[p] && mu[p] })
		if s.String() != before {
			t.Fatalf("an operation changed %s to %s", before, s)
		}
	}
}

func TestPortSetHasAllocatesNothing(t *testing.T) {
	s := NewPortSet(PortRange{1, 5}, PortRange{10, 20}, PortRange{100, 200})
	wanted := []int32{1, 15, 200}
	if n := testing.AllocsPerRun(100, func() { _ = s.HasAll(wanted) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAmounts(t *testing.T) {
	a, b := Amounts{1, 2, 3, 4}, Amounts{10, 20, 30, 40}
	if got := a.Add(b).Sub(b); got != a {
		t.Errorf("adding and taking away gives %v", got)
	}
	if !a.FitsIn(b) || b.FitsIn(a) || !(Amounts{}).FitsIn(Amounts{-5, -5, -5, -5}) {
		t.Error("FitsIn: zero fits everywhere, more does not fit in less")
	}
	if !a.Sub(b).Negative() || a.Negative() || a.IsZero() || !(Amounts{}).IsZero() {
		t.Error("Negative or IsZero")
	}
	for v, want := range map[int64]string{1500: "1.5", 1: "0.001", 0: "0", -250: "-0.25", 128_000: "128", maxMilli: "4503599627370.496"} {
		if got := FormatMilli(v); got != want {
			t.Errorf("FormatMilli(%d) = %s, want %s", v, got, want)
		}
	}
}
