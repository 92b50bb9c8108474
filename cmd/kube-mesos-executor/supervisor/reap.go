// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"os"
	"syscall"
)

// reap waits for every child of this process, also those that it inherited from the bridge, and gives the status of
// the given one, which is its last word.
func reap(child *os.Process) <-chan syscall.WaitStatus {
	ended := make(chan syscall.WaitStatus, 1)
	go func() {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, 0, nil)
			switch {
			case errors.Is(err, syscall.EINTR):
			case err != nil:
				// There is no child at all. That cannot be before ours was seen to end.
				ended <- syscall.WaitStatus(ExitFailed << 8)
				return
			case pid == child.Pid && (status.Exited() || status.Signaled()):
				_ = child.Release()
				ended <- status
				return
			}
		}
	}()
	return ended
}
