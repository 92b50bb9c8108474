// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"slices"
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// PortRange is the ports from Begin to End, both included.
type PortRange struct{ Begin, End int32 }

// PortSet is a set of port numbers as sorted ranges that neither overlap nor touch. TCP and UDP share a number: Mesos
// knows no protocols. A PortSet is never changed in place; operations return a new one.
type PortSet []PortRange

// maxPort is the largest port number; Mesos would allow any 64-bit number in a range.
const maxPort = 65535

// NewPortSet makes a set of ranges in any order; what overlaps is joined, what is no port is left out.
func NewPortSet(ranges ...PortRange) PortSet {
	rs := make(PortSet, 0, len(ranges))
	for _, r := range ranges {
		r.Begin, r.End = max(r.Begin, 0), min(r.End, maxPort)
		if r.Begin <= r.End {
			rs = append(rs, r)
		}
	}
	slices.SortFunc(rs, func(a, b PortRange) int { return int(a.Begin) - int(b.Begin) })
	out := rs[:0]
	for _, r := range rs {
		if n := len(out); n > 0 && r.Begin <= out[n-1].End+1 {
			out[n-1].End = max(out[n-1].End, r.End)
			continue
		}
		out = append(out, r)
	}
	return out
}

// PortsOf makes a set of single numbers.
func PortsOf(numbers ...int32) PortSet {
	rs := make([]PortRange, len(numbers))
	for i, n := range numbers {
		rs[i] = PortRange{n, n}
	}
	return NewPortSet(rs...)
}

func portsFromRanges(v *mesos.Value_Ranges) PortSet {
	rs := make([]PortRange, 0, len(v.GetRange()))
	for _, r := range v.GetRange() {
		if r.Begin > maxPort || r.Begin > r.End {
			continue
		}
		rs = append(rs, PortRange{int32(r.Begin), int32(min(r.End, maxPort))})
	}
	return NewPortSet(rs...)
}

func (s PortSet) toRanges() *mesos.Value_Ranges {
	out := &mesos.Value_Ranges{Range: make([]mesos.Value_Range, len(s))}
	for i, r := range s {
		out.Range[i] = mesos.Value_Range{Begin: uint64(r.Begin), End: uint64(r.End)}
	}
	return out
}

// Has says whether p is in the set. It allocates nothing.
func (s PortSet) Has(p int32) bool {
	lo, hi := 0, len(s)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if s[mid].End < p {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(s) && s[lo].Begin <= p
}

// HasAll says whether every port of numbers is in the set.
func (s PortSet) HasAll(numbers []int32) bool {
	for _, p := range numbers {
		if !s.Has(p) {
			return false
		}
	}
	return true
}

// Union returns the ports that are in s or in t.
func (s PortSet) Union(t PortSet) PortSet {
	if len(t) == 0 {
		return s
	}
	if len(s) == 0 {
		return t
	}
	return NewPortSet(append(slices.Clone(s), t...)...)
}

// Minus returns the ports of s that are not in t.
func (s PortSet) Minus(t PortSet) PortSet {
	if len(t) == 0 || len(s) == 0 {
		return s
	}
	out := make(PortSet, 0, len(s)+len(t))
	j := 0
	for _, r := range s {
		for j < len(t) && t[j].End < r.Begin {
			j++
		}
		begin := r.Begin
		for k := j; k < len(t) && t[k].Begin <= r.End; k++ {
			if t[k].Begin > begin {
				out = append(out, PortRange{begin, t[k].Begin - 1})
			}
			begin = t[k].End + 1
		}
		if begin <= r.End {
			out = append(out, PortRange{begin, r.End})
		}
	}
	return out
}

// Intersect returns the ports that are in both sets.
func (s PortSet) Intersect(t PortSet) PortSet { return s.Minus(s.Minus(t)) }

// First returns the n lowest ports of the set, or all if it has fewer.
func (s PortSet) First(n int) []int32 {
	out := make([]int32, 0, n)
	for _, r := range s {
		for p := r.Begin; p <= r.End && len(out) < n; p++ {
			out = append(out, p)
		}
	}
	return out
}

// Count returns how many ports the set has.
func (s PortSet) Count() int {
	n := 0
	for _, r := range s {
		n += int(r.End-r.Begin) + 1
	}
	return n
}

// String writes the set as Mesos does: `[8080-8080, 31000-32000]`.
func (s PortSet) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, r := range s {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(int(r.Begin)) + "-" + strconv.Itoa(int(r.End)))
	}
	b.WriteByte(']')
	return b.String()
}
