// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"fmt"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// piece is one Resource of an offer, with what is left of it. The template keeps role, reservations, allocation and
// provider exactly as they were offered: the master compares them (Resources::contains).
type piece struct {
	template mesos.Resource
	key      string
	amount   int64
	ports    PortSet
	depth    int // how many reservations are stacked on it; 0 is unreserved
}

// Offered is what offers hold for one kind of task (regular or revocable), piece by piece.
type Offered struct {
	Amounts Amounts
	Ports   PortSet
	pieces  []piece
}

// ParseOffer splits the resources of an offer into those that regular and those that revocable tasks may take; the names
// of which nothing is revocable are in both. Left out is everything that is no plain share of the agent: persistent volumes and disks with a source of their own,
// shared resources, resources of a resource provider, dynamic reservations with labels (they are somebody's), names
// that no task of ours uses, and values that are no amounts.
func ParseOffer(offered []mesos.Resource) (regular, revocable Offered) {
	regular.pieces = make([]piece, 0, len(offered))
	for i := range offered {
		r := &offered[i]
		if !usable(r) {
			continue
		}
		p := piece{template: *r, depth: len(r.Reservations)}
		if p.depth == 0 && r.Reservation != nil || r.Role != nil && *r.Role != "*" {
			p.depth = 1
		}
		switch {
		case r.Name == Ports && r.Ranges != nil:
			if p.ports = portsFromRanges(r.Ranges); len(p.ports) == 0 {
				continue
			}
		case (&Amounts{}).of(r.Name) != nil && r.Scalar != nil:
			if p.amount = fromScalar(r.Scalar.Value); p.amount == 0 {
				continue
			}
		default:
			continue
		}
		p.template.Scalar, p.template.Ranges = nil, nil
		p.key = templateKey(&p.template)
		if r.Revocable != nil {
			revocable.add(p)
		} else {
			regular.add(p)
		}
	}
	revocable.borrow(regular)
	return regular, revocable
}

// borrow adds the regular pieces of the names that o has none of: a revocable task may hold regular memory beside
// revocable cpus, but never both kinds of one name (src/master/validation.cpp).
func (o *Offered) borrow(regular Offered) {
	own := o.pieces
	if len(own) == 0 {
		return
	}
	for _, p := range regular.pieces {
		if !slices.ContainsFunc(own, func(q piece) bool { return q.template.Name == p.template.Name }) {
			o.add(p)
		}
	}
}

// Names is a set of the names of resources.
type Names struct{ CPUs, Mem, Disk, GPUs, Ports bool }

// Borrowed returns the names that a revocable part has from the regular one.
func (o Offered) Borrowed() Names {
	var n Names
	for i := range o.pieces {
		if o.pieces[i].template.Revocable != nil {
			continue
		}
		switch o.pieces[i].template.Name {
		case CPUs:
			n.CPUs = true
		case Mem:
			n.Mem = true
		case Disk:
			n.Disk = true
		case GPUs:
			n.GPUs = true
		case Ports:
			n.Ports = true
		}
	}
	return n
}

// Only returns the amounts of some names, and zero of the others.
func (a Amounts) Only(names Names) Amounts {
	keep := func(v int64, yes bool) int64 {
		if yes {
			return v
		}
		return 0
	}
	return Amounts{keep(a.CPUs, names.CPUs), keep(a.Mem, names.Mem), keep(a.Disk, names.Disk), keep(a.GPUs, names.GPUs)}
}

func usable(r *mesos.Resource) bool {
	if r.Shared != nil || r.ProviderID != nil || r.Disk != nil && (r.Disk.Source != nil || r.Disk.Persistence != nil || r.Disk.Volume != nil) {
		return false
	}
	for i := range r.Reservations {
		if len(r.Reservations[i].GetLabels().GetLabels()) > 0 {
			return false
		}
	}
	if r.Name == GPUs && kindOf(r) == Unreserved {
		return false // Mesos picks the devices itself, so pods get GPUs only where all of them are reserved for their role
	}
	return len(r.Reservation.GetLabels().GetLabels()) == 0
}

// templateKey tells pieces apart that Mesos does not add up.
func templateKey(r *mesos.Resource) string {
	if len(r.Reservations) == 0 && r.Reservation == nil && r.Revocable == nil && r.Disk == nil {
		return r.Name + "/" + r.GetRole() + "/" + r.GetAllocationInfo().GetRole()
	}
	b, err := r.Marshal()
	if err != nil {
		return fmt.Sprintf("%p", r) // what cannot be marshalled equals nothing
	}
	return string(b)
}

func (o *Offered) add(p piece) {
	if p.template.Name == Ports {
		p.ports = p.ports.Minus(o.Ports) // the same port twice is one port
		o.Ports = o.Ports.Union(p.ports)
	} else {
		*o.Amounts.of(p.template.Name) += p.amount
	}
	i := slices.IndexFunc(o.pieces, func(q piece) bool { return q.key == p.key })
	if i < 0 {
		o.pieces = append(o.pieces, p)
		return
	}
	o.pieces[i].amount += p.amount
	o.pieces[i].ports = o.pieces[i].ports.Union(p.ports)
}

// Join adds what other holds to o.
func (o *Offered) Join(other Offered) {
	if len(o.pieces) == 0 {
		*o = other.Clone()
		return
	}
	for _, p := range other.pieces {
		o.add(p)
	}
}

// Empty says whether nothing is left.
func (o Offered) Empty() bool { return o.Amounts.IsZero() && len(o.Ports) == 0 }

// Clone returns a copy that can be taken from.
func (o Offered) Clone() Offered {
	o.pieces = slices.Clone(o.pieces)
	return o
}

// Take removes amounts and ports from o and returns them as the resources to launch with: each entry equal to an
// offered one but for its value, the most refined reservations first, then the unreserved ones. When something is
// missing it changes nothing and says what.
func (o *Offered) Take(need Amounts, ports []int32) ([]mesos.Resource, error) {
	if !need.FitsIn(o.Amounts) || !o.Ports.HasAll(ports) {
		return nil, fmt.Errorf("%s is not in what is offered: %s", Need{Amounts: need, Ports: ports}, o)
	}
	order := make([]int, len(o.pieces))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return o.pieces[b].depth - o.pieces[a].depth })

	wanted := PortsOf(ports...)
	var out []mesos.Resource
	for _, i := range order {
		p := &o.pieces[i]
		if p.template.Name == Ports {
			if part := p.ports.Intersect(wanted); len(part) > 0 {
				p.ports, wanted, o.Ports = p.ports.Minus(part), wanted.Minus(part), o.Ports.Minus(part)
				r := p.template
				r.Ranges = part.toRanges()
				out = append(out, r)
			}
			continue
		}
		left := need.of(p.template.Name)
		if part := min(*left, p.amount); part > 0 {
			p.amount -= part
			*left -= part
			*o.Amounts.of(p.template.Name) -= part
			r := p.template
			r.Scalar = &mesos.Value_Scalar{Value: toScalar(part)}
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b mesos.Resource) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// ReservationKind says how resources are reserved.
type ReservationKind byte

const (
	// Unreserved resources belong to everybody.
	Unreserved ReservationKind = 'u'
	// Static resources carry one static reservation, for the role that they are allocated to.
	Static ReservationKind = 's'
	// Other is any other reservation: dynamic, refined, or for a parent of the role.
	Other ReservationKind = 'x'
)

func kindOf(r *mesos.Resource) ReservationKind {
	switch {
	case len(r.Reservations) == 0 && r.Reservation == nil && (r.Role == nil || *r.Role == "*"):
		return Unreserved
	case len(r.Reservations) == 1 && r.Reservations[0].GetType() == mesos.Resource_ReservationInfo_STATIC &&
		r.Reservations[0].Principal == nil && r.Reservations[0].GetRole() == r.GetAllocationInfo().GetRole():
		return Static
	}
	return Other
}

// TakeExecutor removes an executor's cpus and memory from o, each from one piece and both of one kind of reservation:
// the master compares an executor's resources on every launch, so they must be the same ones each time. Unreserved
// pieces come first, so that what is reserved is left for tasks. Where an agent has its cpus and its memory in different
// kinds, the executor takes them as they are and counts as Other.
func (o *Offered) TakeExecutor(need Amounts) ([]mesos.Resource, ReservationKind, error) {
	kind, cpus, mem, ok := o.executorPieces(need)
	if !ok {
		return nil, 0, fmt.Errorf("no single piece of what is offered holds the executor's %s: %s", need, o)
	}
	var out []mesos.Resource
	for _, part := range []struct {
		i      int
		amount int64
	}{{cpus, need.CPUs}, {mem, need.Mem}} {
		if part.amount == 0 {
			continue
		}
		p := &o.pieces[part.i]
		p.amount -= part.amount
		*o.Amounts.of(p.template.Name) -= part.amount
		r := p.template
		r.Scalar = &mesos.Value_Scalar{Value: toScalar(part.amount)}
		out = append(out, r)
	}
	return out, kind, nil
}

// HoldsExecutor says whether TakeExecutor would succeed.
func (o *Offered) HoldsExecutor(need Amounts) bool {
	_, _, _, ok := o.executorPieces(need)
	return ok
}

// executorPieces finds the pieces that an executor is taken from.
func (o *Offered) executorPieces(need Amounts) (kind ReservationKind, cpus, mem int, ok bool) {
	for _, kind := range []ReservationKind{Unreserved, Static, Other, anyKind} {
		cpus, mem := o.single(CPUs, need.CPUs, kind), o.single(Mem, need.Mem, kind)
		if cpus < 0 && need.CPUs > 0 || mem < 0 && need.Mem > 0 {
			continue
		}
		if kind == anyKind {
			kind = Other
		}
		return kind, cpus, mem, true
	}
	return 0, 0, 0, false
}

// anyKind stands for pieces of different kinds.
const anyKind ReservationKind = 0

func (o *Offered) single(name string, amount int64, kind ReservationKind) int {
	return slices.IndexFunc(o.pieces, func(p piece) bool {
		return p.template.Name == name && p.amount >= amount && (kind == anyKind || kindOf(&p.template) == kind)
	})
}

// ExecutorResources builds the resources of an executor of a kind that can be built from its name alone: unreserved
// or statically reserved to role.
func ExecutorResources(need Amounts, role string, kind ReservationKind, revocable bool) []mesos.Resource {
	var out []mesos.Resource
	for _, name := range []string{CPUs, Mem} {
		amount := *need.of(name)
		if amount == 0 {
			continue
		}
		scalar := mesos.SCALAR
		r := mesos.Resource{Name: name, Type: &scalar, Scalar: &mesos.Value_Scalar{Value: toScalar(amount)}, AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role}}
		if kind == Static {
			static := mesos.Resource_ReservationInfo_STATIC
			r.Reservations = []mesos.Resource_ReservationInfo{{Type: &static, Role: &role}}
		}
		if revocable {
			r.Revocable = &mesos.Resource_RevocableInfo{}
		}
		out = append(out, r)
	}
	return out
}

// String writes what is left as Mesos does.
func (o Offered) String() string {
	s := o.Amounts.String()
	if len(o.Ports) > 0 {
		if s != "" {
			s += ";"
		}
		s += "ports:" + o.Ports.String()
	}
	if s == "" {
		return "nothing"
	}
	return s
}
