// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mesossim

import "syscall"

func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func (p *osProcess) run() {
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
	p.killGroup()
	p.tell(false)
	close(p.done)
}
