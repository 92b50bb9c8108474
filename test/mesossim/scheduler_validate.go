// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"sort"
	"strings"
	"unicode"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// validateCall makes the checks that need no state, in a master's order.
func validateCall(call *schedulerCall, principal string) *httpError {
	bad := func(format string, args ...any) *httpError {
		return refuse(http.StatusBadRequest, "Failed to validate scheduler::Call: "+format, args...)
	}
	if !call.hasType {
		return bad("Expecting 'type' to be present")
	}
	absent := func(name string) *httpError { return bad("Expecting '%s' to be present", name) }
	if call.Type == scheduler.Call_SUBSCRIBE {
		if call.Subscribe == nil || call.Subscribe.FrameworkInfo == nil {
			return absent("subscribe")
		}
		info := call.Subscribe.FrameworkInfo
		if (call.FrameworkID != nil || info.ID != nil) && call.FrameworkID.GetValue() != info.GetID().GetValue() {
			return bad("'framework_id' differs from 'subscribe.framework_info.id'")
		}
		if principal != "" && info.Principal != nil && info.GetPrincipal() != principal {
			return bad("Authenticated principal '%s' does not match principal '%s' set in `FrameworkInfo`", principal, info.GetPrincipal())
		}
		return nil
	}
	if call.FrameworkID == nil {
		return absent("framework_id")
	}
	needs := []struct {
		kind scheduler.Call_Type
		name string
		has  bool
	}{
		{scheduler.Call_ACCEPT, "accept", call.Accept != nil},
		{scheduler.Call_DECLINE, "decline", call.Decline != nil},
		{scheduler.Call_ACCEPT_INVERSE_OFFERS, "accept_inverse_offers", call.AcceptInverseOffers != nil},
		{scheduler.Call_DECLINE_INVERSE_OFFERS, "decline_inverse_offers", call.DeclineInverseOffers != nil},
		{scheduler.Call_KILL, "kill", call.Kill != nil},
		{scheduler.Call_SHUTDOWN, "shutdown", call.Shutdown != nil},
		{scheduler.Call_ACKNOWLEDGE, "acknowledge", call.Acknowledge != nil},
		{scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS, "acknowledge_operation_status", call.AcknowledgeOperationStatus != nil},
		{scheduler.Call_RECONCILE, "reconcile", call.Reconcile != nil},
		{scheduler.Call_RECONCILE_OPERATIONS, "reconcile_operations", call.ReconcileOperations != nil},
		{scheduler.Call_MESSAGE, "message", call.Message != nil},
		{scheduler.Call_REQUEST, "request", call.Request != nil},
		{scheduler.Call_UPDATE_FRAMEWORK, "update_framework", call.UpdateFramework != nil},
	}
	for _, n := range needs {
		if call.Type == n.kind && !n.has {
			return absent(n.name)
		}
	}
	switch call.Type {
	case scheduler.Call_ACKNOWLEDGE:
		if len(call.Acknowledge.UUID) != 16 {
			return bad("Not a valid UUID")
		}
	case scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS:
		if len(call.AcknowledgeOperationStatus.UUID) != 16 {
			return bad("Not a valid UUID")
		}
		if call.AcknowledgeOperationStatus.AgentID == nil {
			return absent("agent_id")
		}
	case scheduler.Call_UPDATE_FRAMEWORK:
		if call.UpdateFramework.FrameworkInfo.GetID().GetValue() != call.FrameworkID.GetValue() {
			return bad("'framework_id' differs from 'update_framework.framework_info.id'")
		}
	}
	return nil
}

// validateFrameworkInfo returns the text of the ERROR event, or "".
func (m *master) validateFrameworkInfo(info *mesos.FrameworkInfo) string {
	if text := validateFrameworkRoles(info); text != "" {
		return text
	}
	if info.ID != nil && info.ID.Value != "" {
		if text := validateID(info.ID.Value); text != "" {
			return text
		}
	}
	if text := validateOfferFilters(info); text != "" {
		return text
	}
	if t := info.GetFailoverTimeout(); math.IsNaN(t) || math.Abs(t) > math.MaxInt64/1e9 {
		return fmt.Sprintf("The framework failover_timeout (%s) is invalid", cxxFloat(t))
	}
	if len(m.c.opts.Roles) > 0 {
		var missing []string
		for _, role := range rolesOf(info) {
			if role != "*" && !slices.Contains(m.c.opts.Roles, role) {
				missing = append(missing, role)
			}
		}
		if len(missing) > 0 {
			return fmt.Sprintf("Roles %s are not present in the master's --roles", setText(missing))
		}
	}
	if m.c.opts.NoRootSubmissions && info.User == "root" {
		return "User 'root' is not allowed to run frameworks without --root_submissions set"
	}
	return ""
}

func validateFrameworkRoles(info *mesos.FrameworkInfo) string {
	if !capabilitiesOf(info)[mesos.FrameworkInfo_Capability_MULTI_ROLE] {
		if len(info.Roles) > 0 {
			return "'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable"
		}
		if info.Role != nil {
			if text := validateRole(*info.Role); text != "" {
				return "'FrameworkInfo.role' is not a valid role: " + text
			}
		}
		return ""
	}
	if info.Role != nil {
		return "'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable"
	}
	count := map[string]int{}
	var duplicates []string
	for _, role := range info.Roles {
		if count[role]++; count[role] == 2 {
			duplicates = append(duplicates, role)
		}
	}
	if len(duplicates) > 0 {
		return "'FrameworkInfo.roles' contains duplicate items: " + setText(duplicates)
	}
	for _, role := range info.Roles {
		if text := validateRole(role); text != "" {
			return "'FrameworkInfo.roles' contains invalid role: " + text
		}
	}
	return ""
}

// validateRole is roles::validate.
func validateRole(role string) string {
	switch {
	case role == "*":
		return ""
	case role == "":
		return "Role names cannot be the empty string"
	case strings.HasPrefix(role, "/"):
		return fmt.Sprintf("Role '%s' cannot start with a slash", role)
	case strings.HasSuffix(role, "/"):
		return fmt.Sprintf("Role '%s' cannot end with a slash", role)
	case strings.Contains(role, "//"):
		return fmt.Sprintf("Role '%s' cannot contain two adjacent slashes", role)
	}
	for _, part := range strings.Split(role, "/") {
		switch {
		case part == "." || part == ".." || part == "*":
			return fmt.Sprintf("Role '%s' cannot include '%s' as a component", role, part)
		case strings.HasPrefix(part, "-"):
			return fmt.Sprintf("Role component '%s' is invalid because it begins with a dash", part)
		case strings.ContainsAny(part, "\t\n\v\f\r \b\x7f"):
			return fmt.Sprintf("Role component '%s' is invalid because it contains backspace or whitespace characters", part)
		}
	}
	return ""
}

// validateID is common::validation::validateID.
func validateID(id string) string {
	switch {
	case id == "":
		return "ID must not be empty"
	case len(id) > 255:
		return "ID must not be greater than 255 characters"
	case id == ".", id == "..":
		return fmt.Sprintf("'%s' is disallowed", id)
	}
	if strings.ContainsFunc(id, func(r rune) bool { return unicode.IsControl(r) || r == '/' || r == '\\' }) {
		return fmt.Sprintf("'%s' contains invalid characters", id)
	}
	return ""
}

func validateOfferFilters(info *mesos.FrameworkInfo) string {
	for _, role := range sortedKeys(info.OfferFilters) {
		filters := info.OfferFilters[role]
		for _, q := range filters.GetMinAllocatableResources().GetQuantities() {
			for _, name := range sortedKeys(q.Quantities) {
				v := q.Quantities[name]
				switch {
				case math.IsNaN(v.Value) || math.IsInf(v.Value, 0):
					return fmt.Sprintf("Invalid resource quantity for '%s': Non-finite values not supported", name)
				case v.Value < 0:
					return fmt.Sprintf("Invalid resource quantity for '%s': Negative values not supported", name)
				}
			}
		}
	}
	return ""
}

func validateSuppressed(suppressed, roles []string) string {
	var unknown []string
	for _, role := range suppressed {
		if !slices.Contains(roles, role) {
			unknown = append(unknown, role)
		}
	}
	if len(unknown) > 0 {
		return fmt.Sprintf("Suppressed roles %s are not contained in the set of roles", setText(unknown))
	}
	return ""
}

func changedPrincipal(old, changed *mesos.FrameworkInfo) string {
	if old.GetPrincipal() != changed.GetPrincipal() || (old.Principal == nil) != (changed.Principal == nil) {
		return "Changing framework's principal is not allowed."
	}
	return ""
}

// setText prints a set as stout does.
func setText(items []string) string {
	items = slices.Clone(items)
	sort.Strings(items)
	return "{ " + strings.Join(slices.Compact(items), ", ") + " }"
}

// cxxFloat prints a double as a C++ stream does by default.
func cxxFloat(v float64) string { return fmt.Sprintf("%.6g", v) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
