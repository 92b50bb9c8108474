// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// checkTimeout bounds the trial of a newer executable.
const checkTimeout = 5 * time.Second

// Version follows the file that this process was started from.
type Version struct {
	// Path is the file's path.
	Path string
	// Check are arguments with which a newer version says by exit code 0 that it can take over.
	Check []string

	info    os.FileInfo
	refused os.FileInfo
}

// CurrentVersion returns the version of the file that this process runs. It is to be called at the start, before the
// file can be replaced.
func CurrentVersion(check []string) (*Version, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &Version{Path: path, Check: check, info: info}, nil
}

// Replaced says whether the file on disk is another one now, and not one that was tried in vain.
func (v *Version) Replaced() bool {
	info, err := os.Stat(v.Path)
	if err != nil || !info.Mode().IsRegular() || same(info, v.info) {
		return false
	}
	return v.refused == nil || !same(info, v.refused)
}

func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// Exec turns this process into the newer version. It returns only if that fails, and then the file is not tried again
// until it changes.
func (v *Version) Exec() error {
	info, err := os.Stat(v.Path)
	if err != nil {
		return err
	}
	v.refused = info
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, v.Path, v.Check...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not take over: %w: %.200s", v.Path, err, out)
	}
	return syscall.Exec(v.Path, os.Args, os.Environ())
}
