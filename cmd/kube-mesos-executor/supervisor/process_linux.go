// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes makes the kernel kill the child when the supervisor dies: an executor without its supervisor is one
// that its agent believes dead.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes this process the parent of what its child leaves behind, so that it is reaped.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}
