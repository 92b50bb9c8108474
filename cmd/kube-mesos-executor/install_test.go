// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "image"), filepath.Join(dir, "host", program)
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	check := func(what string, wantChanged bool, want string) {
		t.Helper()
		changed, err := install(from, to)
		if err != nil || changed != wantChanged {
			t.Fatalf("%s: changed=%t, %v", what, changed, err)
		}
		got, err := os.ReadFile(to)
		info, statErr := os.Stat(to)
		if err != nil || statErr != nil || string(got) != want || info.Mode().Perm() != 0o755 {
			t.Fatalf("%s: got %q, %v, %v", what, got, err, statErr)
		}
		if files, err := os.ReadDir(filepath.Dir(to)); err != nil || len(files) != 1 {
			t.Fatalf("%s: something is left beside it: %v, %v", what, files, err)
		}
	}
	write(from, "one")
	check("the first time", true, "one")
	before, err := os.Stat(to)
	if err != nil {
		t.Fatal(err)
	}
	check("the same again", false, "one")
	if after, err := os.Stat(to); err != nil || !os.SameFile(before, after) {
		t.Fatal("the same program was put in place anew")
	}
	running, err := os.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	write(from, "two")
	write(filepath.Join(filepath.Dir(to), "."+program+".new"), "half of it")
	check("another one after an attempt that was cut short", true, "two")
	old := make([]byte, 3)
	if _, err := running.Read(old); err != nil || string(old) != "one" {
		t.Fatalf("a running program was written into: %q, %v", old, err)
	}

	if _, err := install(from, filepath.Join(dir, "none", program)); err == nil {
		t.Error("a folder that is not there is no error")
	}
	for _, args := range [][]string{nil, {"relative"}, {"/a", "/b"}} {
		if err := runInstall(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
