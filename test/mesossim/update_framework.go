// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"net/http"
	"slices"
)

// updateFramework is UPDATE_FRAMEWORK: it replaces the FrameworkInfo as a whole, without a run of the allocator.
func (m *master) updateFramework(f *framework, call *schedulerCall) (int, *httpError) {
	info := &call.UpdateFramework.FrameworkInfo
	if text := m.validateFrameworkInfo(info); text != "" {
		return 0, refuse(http.StatusBadRequest, "Supplied FrameworkInfo is not valid: %s", text)
	}
	roles := rolesOf(info)
	if text := validateSuppressed(call.UpdateFramework.SuppressedRoles, roles); text != "" {
		return 0, refuse(http.StatusBadRequest, "'UpdateFramework' call is not valid: %s", text)
	}
	if text := call.constraints.validate(roles); text != "" {
		return 0, refuse(http.StatusBadRequest, "'UpdateFramework' call is not valid: %s", text)
	}
	invalid := func(format string, args ...any) (int, *httpError) {
		return 0, refuse(http.StatusBadRequest, "FrameworkInfo update is not valid: "+format, args...)
	}
	if text := changedPrincipal(f.info, info); text != "" {
		return invalid("%s", text)
	}
	if info.User != f.info.User {
		return invalid("Updating 'FrameworkInfo.user' is unsupported; attempted to update from '%s' to '%s'", f.info.User, info.User)
	}
	if info.GetCheckpoint() != f.info.GetCheckpoint() {
		return invalid("Updating 'FrameworkInfo.checkpoint' is unsupported; attempted to update from '%t' to '%t'", f.info.GetCheckpoint(), info.GetCheckpoint())
	}
	oldRoles, old := f.roles, f.info
	f.setInfo(info)
	f.constraints = call.constraints
	for _, o := range sortedOffers(f.offers) {
		if !slices.Contains(f.roles, o.role) {
			m.rescind(o)
		}
	}
	m.setSuppressed(f, call.UpdateFramework.SuppressedRoles)
	m.alloc.rolesChanged(f, oldRoles)
	m.tellFrameworkUpdated(f)
	if !old.Equal(f.info) {
		m.notifyFrameworkUpdated(f)
	}
	return http.StatusOK, nil
}
