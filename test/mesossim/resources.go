// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// resourceKey is all of a resource but its value: what must be equal for two resources to be added or subtracted.
type resourceKey struct {
	name         string
	kind         mesos.Value_Type
	reservations string // canonical text; empty if unreserved
	role         string // allocation role
	revocable    bool
	shared       bool
	rest         string // disk and provider, encoded
}

type span struct{ begin, end uint64 }

// A resource is one entry of a bag. Scalars are whole thousandths, as in Mesos.
type resource struct {
	key    resourceKey
	milli  int64
	ranges []span   // sorted, apart by at least one number
	set    []string // sorted
	shape  *mesos.Resource
}

// A bag is a list of resources with distinct keys and no empty ones. It is not changed once it is shared.
type bag []resource

func toMilli(v float64) int64 { return int64(math.Round(v * 1000)) }

func milliText(m int64) string { return strconv.FormatFloat(float64(m)/1000, 'g', 15, 64) }

// newResource reads a resource that passed validation.
func newResource(r *mesos.Resource) resource {
	shape := &mesos.Resource{Name: r.Name, Type: r.Type, ProviderID: r.ProviderID, AllocationInfo: r.AllocationInfo, Reservations: r.Reservations,
		Disk: r.Disk, Revocable: r.Revocable, Shared: r.Shared}
	if len(shape.Reservations) == 0 {
		shape.Reservations = upgradedReservations(r)
	}
	out := resource{shape: shape, key: keyOf(shape)}
	switch r.GetType() {
	case mesos.SCALAR:
		out.milli = toMilli(r.GetScalar().GetValue())
	case mesos.RANGES:
		for _, x := range r.GetRanges().GetRange() {
			out.ranges = append(out.ranges, span{x.Begin, x.End})
		}
		out.ranges = joinSpans(out.ranges)
	case mesos.SET:
		out.set = slices.Clone(r.GetSet().GetItem())
		sort.Strings(out.set)
	}
	return out
}

// upgradedReservations turns role and reservation of the pre-refinement format into a reservation stack.
func upgradedReservations(r *mesos.Resource) []mesos.Resource_ReservationInfo {
	role := r.GetRole()
	if r.Role == nil || role == "*" {
		return nil
	}
	info := mesos.Resource_ReservationInfo{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: proto.String(role)}
	if d := r.Reservation; d != nil {
		info.Type, info.Principal, info.Labels = mesos.Resource_ReservationInfo_DYNAMIC.Enum(), d.Principal, d.Labels
	}
	return []mesos.Resource_ReservationInfo{info}
}

func keyOf(shape *mesos.Resource) resourceKey {
	k := resourceKey{name: shape.Name, kind: shape.GetType(), revocable: shape.Revocable != nil, shared: shape.Shared != nil}
	if shape.AllocationInfo != nil {
		k.role = shape.AllocationInfo.GetRole()
	}
	if len(shape.Reservations) > 0 {
		k.reservations = reservationsText(shape.Reservations)
	}
	if shape.Disk != nil {
		b, _ := shape.Disk.Marshal()
		k.rest = string(b)
	}
	if shape.ProviderID != nil {
		k.rest += "\x00" + shape.ProviderID.Value
	}
	return k
}

func reservationsText(rs []mesos.Resource_ReservationInfo) string {
	parts := make([]string, len(rs))
	for i := range rs {
		text := rs[i].GetType().String() + "," + rs[i].GetRole()
		if rs[i].Principal != nil {
			text += "," + rs[i].GetPrincipal()
		}
		if rs[i].Labels != nil {
			text += "," + labelsText(rs[i].Labels)
		}
		parts[i] = "(" + text + ")"
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func labelsText(l *mesos.Labels) string {
	parts := make([]string, len(l.Labels))
	for i := range l.Labels {
		parts[i] = l.Labels[i].Key
		if l.Labels[i].Value != nil {
			parts[i] += ": " + l.Labels[i].GetValue()
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// reservedFor returns the role for which r is reserved, empty if it is not.
func (r *resource) reservedFor() string {
	if n := len(r.shape.Reservations); n > 0 {
		return r.shape.Reservations[n-1].GetRole()
	}
	return ""
}

func (r *resource) empty() bool {
	switch r.key.kind {
	case mesos.SCALAR:
		return r.milli <= 0
	case mesos.RANGES:
		return len(r.ranges) == 0
	default:
		return len(r.set) == 0
	}
}

func (r *resource) text() string {
	var b strings.Builder
	b.WriteString(r.key.name)
	if r.key.role != "" {
		b.WriteString("(allocated: " + r.key.role + ")")
	}
	if r.key.reservations != "" {
		b.WriteString("(reservations: " + r.key.reservations + ")")
	}
	if d := r.shape.Disk; d != nil && d.Persistence != nil {
		b.WriteString("[" + d.Persistence.ID + "]")
	}
	if r.key.revocable {
		b.WriteString("{REV}")
	}
	b.WriteString(":")
	switch r.key.kind {
	case mesos.SCALAR:
		b.WriteString(milliText(r.milli))
	case mesos.RANGES:
		b.WriteString(spansText(r.ranges))
	default:
		b.WriteString("{" + strings.Join(r.set, ", ") + "}")
	}
	return b.String()
}

func spansText(spans []span) string {
	parts := make([]string, len(spans))
	for i, s := range spans {
		parts[i] = strconv.FormatUint(s.begin, 10) + "-" + strconv.FormatUint(s.end, 10)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (r *resource) toProto() mesos.Resource {
	out := *r.shape
	switch r.key.kind {
	case mesos.SCALAR:
		out.Scalar = &mesos.Value_Scalar{Value: float64(r.milli) / 1000}
	case mesos.RANGES:
		out.Ranges = &mesos.Value_Ranges{Range: make([]mesos.Value_Range, len(r.ranges))}
		for i, s := range r.ranges {
			out.Ranges.Range[i] = mesos.Value_Range{Begin: s.begin, End: s.end}
		}
	default:
		out.Set = &mesos.Value_Set{Item: slices.Clone(r.set)}
	}
	return out
}

func newBag(rs []mesos.Resource) bag {
	b := make(bag, 0, len(rs))
	for i := range rs {
		b.add(newResource(&rs[i]))
	}
	return b
}

func (b bag) find(k *resourceKey) int {
	for i := range b {
		if b[i].key == *k {
			return i
		}
	}
	return -1
}

// add adds r to a bag that is not shared yet.
func (b *bag) add(r resource) {
	if r.empty() {
		return
	}
	i := b.find(&r.key)
	if i < 0 {
		*b = append(*b, r)
		return
	}
	sum := &(*b)[i]
	sum.milli += r.milli
	if r.ranges != nil {
		sum.ranges = joinSpans(append(slices.Clone(sum.ranges), r.ranges...))
	}
	if r.set != nil {
		sum.set = append(slices.Clone(sum.set), r.set...)
		sort.Strings(sum.set)
		sum.set = slices.Compact(sum.set)
	}
}

func (b bag) plus(other bag) bag {
	switch {
	case len(b) == 0:
		return other
	case len(other) == 0:
		return b
	}
	out := slices.Clone(b)
	for i := range other {
		out.add(other[i])
	}
	return out
}

// minus subtracts what is there of other.
func (b bag) minus(other bag) bag {
	if len(b) == 0 || len(other) == 0 {
		return b
	}
	out := slices.Clone(b)
	emptied := false
	for i := range other {
		j := out.find(&other[i].key)
		if j < 0 {
			continue
		}
		out[j].milli -= other[i].milli
		if other[i].ranges != nil {
			out[j].ranges = subtractSpans(out[j].ranges, other[i].ranges)
		}
		if other[i].set != nil {
			out[j].set = slices.DeleteFunc(slices.Clone(out[j].set), func(s string) bool { return slices.Contains(other[i].set, s) })
		}
		emptied = emptied || out[j].empty()
	}
	if emptied {
		out = slices.DeleteFunc(out, func(r resource) bool { return r.empty() })
	}
	return out
}

func (b bag) contains(other bag) bool {
	for i := range other {
		j := b.find(&other[i].key)
		if j < 0 {
			return false
		}
		switch other[i].key.kind {
		case mesos.SCALAR:
			if b[j].milli < other[i].milli {
				return false
			}
		case mesos.RANGES:
			if len(subtractSpans(other[i].ranges, b[j].ranges)) > 0 {
				return false
			}
		default:
			for _, s := range other[i].set {
				if !slices.Contains(b[j].set, s) {
					return false
				}
			}
		}
	}
	return true
}

func (b bag) equal(other bag) bool {
	return len(b) == len(other) && b.contains(other) && other.contains(b)
}

func (b bag) filter(keep func(*resource) bool) bag {
	var out bag
	for i := range b {
		if keep(&b[i]) {
			out = append(out, b[i])
		}
	}
	return out
}

// allocated returns b with every resource allocated to role; "" takes the allocation away.
func (b bag) allocated(role string) bag {
	out := make(bag, len(b))
	for i := range b {
		out[i] = b[i]
		if b[i].key.role == role {
			continue
		}
		shape := *b[i].shape
		shape.AllocationInfo = nil
		if role != "" {
			shape.AllocationInfo = &mesos.Resource_AllocationInfo{Role: proto.String(role)}
		}
		out[i].shape, out[i].key.role = &shape, role
	}
	return out
}

func (b bag) text() string {
	if len(b) == 0 {
		return "{}"
	}
	parts := make([]string, len(b))
	for i := range b {
		parts[i] = b[i].text()
	}
	return strings.Join(parts, "; ")
}

func (b bag) toProto() []mesos.Resource {
	if len(b) == 0 {
		return nil
	}
	out := make([]mesos.Resource, len(b))
	for i := range b {
		out[i] = b[i].toProto()
	}
	return out
}

// scalar returns the sum of all scalars of the name, in thousandths.
func (b bag) scalar(name string) int64 {
	var sum int64
	for i := range b {
		if b[i].key.name == name && b[i].key.kind == mesos.SCALAR {
			sum += b[i].milli
		}
	}
	return sum
}

func (b bag) amounts() Amounts {
	a := Amounts{CPUs: float64(b.scalar("cpus")) / 1000, Mem: float64(b.scalar("mem")) / 1000, Disk: float64(b.scalar("disk")) / 1000,
		GPUs: float64(b.scalar("gpus")) / 1000, Raw: b.toProto()}
	for i := range b {
		if b[i].key.name == "ports" {
			for _, s := range b[i].ranges {
				a.Ports = append(a.Ports, PortRange{s.begin, s.end})
			}
		}
	}
	slices.SortFunc(a.Ports, func(x, y PortRange) int { return cmp.Compare(x.Begin, y.Begin) })
	return a
}

// inOfferOrder puts reserved before unreserved resources, and of these those without a scalar value first, which is
// the order in which a master prints and offers them.
func (b bag) inOfferOrder() bag {
	rank := func(r *resource) int {
		switch {
		case r.key.reservations != "":
			return 0
		case r.key.kind != mesos.SCALAR:
			return 1
		}
		return 2
	}
	out := slices.Clone(b)
	sort.SliceStable(out, func(i, j int) bool { return rank(&out[i]) < rank(&out[j]) })
	return out
}

func joinSpans(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	sort.Slice(spans, func(i, j int) bool { return spans[i].begin < spans[j].begin })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		if s.begin <= last.end || s.begin == last.end+1 {
			last.end = max(last.end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

func subtractSpans(from, what []span) []span {
	out := slices.Clone(from)
	for _, w := range what {
		next := make([]span, 0, len(out)+1)
		for _, s := range out {
			if w.end < s.begin || w.begin > s.end {
				next = append(next, s)
				continue
			}
			if s.begin < w.begin {
				next = append(next, span{s.begin, w.begin - 1})
			}
			if s.end > w.end {
				next = append(next, span{w.end + 1, s.end})
			}
		}
		out = next
	}
	return out
}

// preRefinement turns reservation stacks into role and reservation, for frameworks without RESERVATION_REFINEMENT and for
// the older parts of the operator API. Refined reservations have no such form and are left as they are.
func preRefinement(rs []mesos.Resource) []mesos.Resource {
	out := slices.Clone(rs)
	for i := range out {
		switch len(out[i].Reservations) {
		case 0:
			out[i].Role = proto.String("*")
		case 1:
			info := out[i].Reservations[0]
			out[i].Role, out[i].Reservations = info.Role, nil
			if info.GetType() == mesos.Resource_ReservationInfo_DYNAMIC {
				out[i].Reservation = &mesos.Resource_ReservationInfo{Principal: info.Principal, Labels: info.Labels}
			}
		}
	}
	return out
}
