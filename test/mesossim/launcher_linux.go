// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"runtime"
	"syscall"
)

func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// run starts the process and waits for it. The parent-death signal is bound to the thread that starts the process, so
// that thread is kept until the process has ended.
func (p *osProcess) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	if err == nil {
		p.tell(true)
	}
	p.started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		p.status = int(status)
	}
	p.killGroup() // nothing of the container outlives its first process
	p.tell(false)
	close(p.done)
}
