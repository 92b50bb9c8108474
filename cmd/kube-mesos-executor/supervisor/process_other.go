// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package supervisor

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }

func adoptOrphans() {}
