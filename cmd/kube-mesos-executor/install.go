// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

const program = "kube-mesos-executor"

// runInstall puts this program into a folder of the host and stays until it is told to end, as the pods of a DaemonSet do.
func runInstall(args []string) error {
	if len(args) != 1 || !filepath.IsAbs(args[0]) {
		return fmt.Errorf("usage: %s install FOLDER, an absolute path, not %q", program, args)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	changed, err := install(self, filepath.Join(args[0], program))
	if err != nil {
		return err
	}
	fmt.Printf("%s in %s: changed=%t\n", program, args[0], changed)
	<-stop
	return nil
}

// install copies a program in one step: whoever starts it gets the old one or the new one, and a running one is not written
// into. A file with the same content is left, so that executors do not take it for a new version.
func install(from, to string) (changed bool, err error) {
	want, err := digest(from)
	if err != nil {
		return false, err
	}
	have, err := digest(to)
	if err == nil && bytes.Equal(have, want) {
		return false, os.Chmod(to, 0o755)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	source, err := os.Open(from)
	if err != nil {
		return false, err
	}
	defer source.Close()
	next := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".new")
	if err := os.RemoveAll(next); err != nil { // of an attempt that was cut short
		return false, err
	}
	target, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(target, source)
	if err = errors.Join(err, target.Chmod(0o755), target.Sync(), target.Close()); err == nil {
		err = os.Rename(next, to)
	}
	if err != nil {
		return false, errors.Join(err, os.Remove(next))
	}
	return true, nil
}

func digest(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
