// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime/debug"
	"slices"
	"testing"
)

// The test's own program names what is linked into it.
func TestBill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var one, two bytes.Buffer
	if err := run([]string{self}, &one); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{self}, &two); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Fatalf("two bills of one program differ: %v", err)
	}
	var d document
	if err := json.Unmarshal(one.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "a.test/x", Version: "v1.0.0", Sum: "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
		{Path: "b.test/y", Version: "v0.0.0", Replace: &debug.Module{Path: "c.test/z", Version: "v2.0.0"}},
	}}
	d = bill("x", "00", info)
	names := []string{}
	ids := map[string]bool{}
	for _, p := range d.Packages {
		names = append(names, p.Name+"@"+p.Version)
		if ids[p.SPDXID] {
			t.Errorf("%s stands twice", p.SPDXID)
		}
		ids[p.SPDXID] = true
	}
	if want := []string{"x@", "stdlib@1.26.8", "a.test/x@v1.0.0", "c.test/z@v2.0.0"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	if len(d.Packages[2].Checksums) != 1 || len(d.Relationships) != 4 {
		t.Errorf("got %+v", d)
	}
	if err := run(nil, &one); err == nil {
		t.Error("no argument is no error")
	}
}
