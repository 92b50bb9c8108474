// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

func mustBag(t *testing.T, text string) bag {
	t.Helper()
	rs, err := ParseResources(text)
	if err != nil {
		t.Fatal(err)
	}
	return newBag(rs)
}

func TestBagArithmetic(t *testing.T) {
	tests := []struct {
		name, a, op, b, want string
	}{
		{"scalars add", "cpus:1;mem:10", "+", "cpus:0.1;disk:5", "cpus:1.1; mem:10; disk:5"},
		{"thousandths are exact", "cpus:0.3", "-", "cpus:0.1;cpus:0.2", "{}"},
		{"ranges are taken out of the middle", "ports:[1-10]", "-", "ports:[4-5]", "ports:[1-3, 6-10]"},
		{"ranges join again", "ports:[1-3,6-10]", "+", "ports:[4-5]", "ports:[1-10]"},
		{"reserved and unreserved stay apart", "cpus(a):2;cpus:1", "-", "cpus:1", "cpus(reservations: [(STATIC,a)]):2"},
		{"revocable stays apart", "cpus{REV}:2;cpus:1", "-", "cpus{REV}:2", "cpus:1"},
		{"what is not there is not subtracted", "cpus:1", "-", "mem:5", "cpus:1"},
		{"sets", "s:{a,b,c}", "-", "s:{b}", "s:{a, c}"},
	}
	for _, tt := range tests {
		a, b := mustBag(t, tt.a), mustBag(t, tt.b)
		got := a.plus(b)
		if tt.op == "-" {
			got = a.minus(b)
		}
		if got.text() != tt.want {
			t.Errorf("%s: %s %s %s = %s, want %s", tt.name, tt.a, tt.op, tt.b, got.text(), tt.want)
		}
		if a.text() != mustBag(t, tt.a).text() {
			t.Errorf("%s: the operand changed to %s", tt.name, a.text())
		}
	}
}

func TestBagContains(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"cpus:1", "cpus:1", true},
		{"cpus:1", "cpus:1.001", false},
		{"cpus(a):1", "cpus:1", false},
		{"ports:[1-3,6-9]", "ports:[2-3,7-7]", true},
		{"ports:[1-3,6-9]", "ports:[3-6]", false},
		{"cpus:1", "", true},
		{"s:{a}", "s:{a,b}", false},
	}
	for _, tt := range tests {
		if got := mustBag(t, tt.a).contains(mustBag(t, tt.b)); got != tt.want {
			t.Errorf("%q contains %q: %t", tt.a, tt.b, got)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, text := range []string{"cpus", "cpus:x", ":1", "ports:[1]", "ports:[2-1]", "cpus(:1", "ports:[a-b]"} {
		if rs, err := ParseResources(text); err == nil {
			t.Errorf("resources %q: %v", text, rs)
		}
	}
	if _, err := ParseAttributes("rack"); err == nil {
		t.Error("attribute without a value")
	}
	attributes, err := ParseAttributes("rack:r1;level:10;slots:[1-4]")
	if err != nil || len(attributes) != 3 || attributes[0].Type != mesos.TEXT || attributes[1].Type != mesos.SCALAR || attributes[2].Type != mesos.RANGES {
		t.Errorf("attributes %v, %v", attributes, err)
	}
}

func TestOfferOrder(t *testing.T) {
	got := mustBag(t, "cpus:1;mem:2;ports:[1-2];cpus(a):3").inOfferOrder().text()
	if want := "cpus(reservations: [(STATIC,a)]):3; ports:[1-2]; cpus:1; mem:2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPreRefinementRoundTrip(t *testing.T) {
	b := mustBag(t, "cpus(a):2;mem:5")
	old := preRefinement(b.toProto())
	if old[0].GetRole() != "a" || len(old[0].Reservations) != 0 || old[1].GetRole() != "*" {
		t.Errorf("pre-refinement form %v", old)
	}
	if back := newBag(old); !back.equal(b) {
		t.Errorf("back: %s, want %s", back.text(), b.text())
	}
}
