// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"
	"math"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// validateResourceList is Resources::validate over a list; it returns the first failure's text, or "".
func validateResourceList(rs []mesos.Resource) string {
	for i := range rs {
		if why := validateResource(&rs[i]); why != "" {
			return fmt.Sprintf("Resource '%s' is invalid: %s", rawResourceText(&rs[i]), why)
		}
	}
	return ""
}

func validateResource(r *mesos.Resource) string {
	if r.Name == "" {
		return "Empty resource name"
	}
	if r.Type == nil {
		return "Invalid resource type"
	}
	switch *r.Type {
	case mesos.SCALAR:
		if r.Scalar == nil || r.Ranges != nil || r.Set != nil {
			return "Invalid scalar resource"
		}
		v := r.Scalar.Value
		if math.IsNaN(v) || math.IsInf(v, 0) || v != 0 && toMilli(v) <= 0 {
			return "Invalid scalar resource: value <= 0"
		}
	case mesos.RANGES:
		if r.Ranges == nil || r.Scalar != nil || r.Set != nil {
			return "Invalid ranges resource"
		}
		for i, x := range r.Ranges.Range {
			if x.Begin > x.End {
				return "Invalid ranges resource: begin > end"
			}
			for _, y := range r.Ranges.Range[:i] {
				if x.Begin <= y.End && y.Begin <= x.End {
					return "Invalid ranges resource: overlapping ranges"
				}
			}
		}
	case mesos.SET:
		if r.Set == nil || r.Scalar != nil || r.Ranges != nil {
			return "Invalid set resource"
		}
		items := slices.Clone(r.Set.Item)
		slices.Sort(items)
		if len(slices.Compact(items)) != len(r.Set.Item) {
			return "Invalid set resource: duplicated elements"
		}
	default:
		return "Unsupported resource type"
	}
	if r.Disk != nil && r.Name != "disk" {
		return fmt.Sprintf("DiskInfo should not be set for %s resource", r.Name)
	}
	if text := validateReservations(r); text != "" {
		return text
	}
	if r.Shared != nil {
		if r.Name != "disk" || r.Disk == nil || r.Disk.Persistence == nil {
			return "Only persistent volumes can be shared"
		}
	}
	return ""
}

func validateReservations(r *mesos.Resource) string {
	if len(r.Reservations) > 0 {
		if r.Role != nil && *r.Role != "*" {
			return "'Resource.role' must not be set if 'Resource.reservations' is set"
		}
		if r.Reservation != nil {
			return "'Resource.reservation' must not be set if 'Resource.reservations' is set"
		}
		ancestor := ""
		for i := range r.Reservations {
			info := &r.Reservations[i]
			if info.Type == nil {
				return "Invalid reservation: 'type' field must be set"
			}
			if info.Role == nil {
				return "Invalid reservation: 'role' field must be set"
			}
			if text := validateRole(info.GetRole()); text != "" {
				return "Invalid reservation role: " + text
			}
			if info.GetRole() == "*" {
				return "Invalid reservation: role \"*\" cannot be reserved"
			}
			if i > 0 && info.GetType() == mesos.Resource_ReservationInfo_STATIC {
				return "Invalid refined reservation: A refined reservation cannot be STATIC"
			}
			if i > 0 && !strings.HasPrefix(info.GetRole(), ancestor+"/") {
				return fmt.Sprintf("Invalid refined reservation: role '%s' is not a refinement of '%s'", info.GetRole(), ancestor)
			}
			ancestor = info.GetRole()
		}
		return ""
	}
	if r.Role != nil {
		if text := validateRole(*r.Role); text != "" {
			return text
		}
	}
	if r.Reservation != nil && r.GetRole() == "*" {
		return "Invalid reservation: role \"*\" cannot be dynamically reserved"
	}
	return ""
}

// rawResourceText prints a resource that may be invalid.
func rawResourceText(r *mesos.Resource) string {
	shape := *r
	shape.Reservations = r.Reservations
	if len(shape.Reservations) == 0 {
		shape.Reservations = upgradedReservations(r)
	}
	out := resource{shape: &shape, key: keyOf(&shape)}
	switch r.GetType() {
	case mesos.SCALAR:
		out.milli = toMilli(r.GetScalar().GetValue())
	case mesos.RANGES:
		for _, x := range r.GetRanges().GetRange() {
			out.ranges = append(out.ranges, span{x.Begin, x.End})
		}
	default:
		out.set = r.GetSet().GetItem()
	}
	return out.text()
}

func validateGPUs(rs []mesos.Resource) string {
	for i := range rs {
		if rs[i].Name == "gpus" {
			if v := rs[i].GetScalar().GetValue(); v != math.Trunc(v) {
				return "Invalid 'gpus' resource: The 'gpus' resource must be an unsigned integer"
			}
		}
	}
	return ""
}

// validateAllocationRole says whether all resources are allocated to one role.
func validateAllocationRole(rs []mesos.Resource) string {
	role := ""
	for i := range rs {
		info := rs[i].AllocationInfo
		if info == nil {
			return "The resources are not allocated to a role"
		}
		if role != "" && info.GetRole() != role {
			return fmt.Sprintf("The resources have multiple allocation roles ('%s' and '%s') but only one allocation role is allowed", info.GetRole(), role)
		}
		role = info.GetRole()
	}
	return ""
}

func validateRevocable(rs []mesos.Resource) string {
	kinds := map[string][2]bool{}
	for i := range rs {
		k := kinds[rs[i].Name]
		if rs[i].Revocable != nil {
			k[1] = true
		} else {
			k[0] = true
		}
		kinds[rs[i].Name] = k
		if k[0] && k[1] {
			return fmt.Sprintf("Cannot use both revocable and non-revocable '%s' at the same time", rs[i].Name)
		}
	}
	return ""
}

func duplicatePersistenceID(rs []mesos.Resource) string {
	seen := map[string]bool{}
	for i := range rs {
		p := rs[i].GetDisk().GetPersistence()
		if p == nil {
			continue
		}
		key := rs[i].GetRole() + "/" + p.ID
		if seen[key] {
			return p.ID
		}
		seen[key] = true
	}
	return ""
}
