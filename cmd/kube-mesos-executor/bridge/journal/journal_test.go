// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, path string) (*Journal, map[string]string, int) {
	t.Helper()
	j, records, skipped, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	got := map[string]string{}
	for k, v := range records {
		got[k] = string(v)
	}
	return j, got, skipped
}

func TestRecordsSurvive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, got, _ := open(t, path)
	if len(got) != 0 {
		t.Fatalf("A new journal has records: %v", got)
	}
	for _, e := range [][]Entry{{{"a", 1}, {"b", "x\ny"}}, {{"a", 2}}, {{"c", 3}}, {{"c", nil}}, {}} {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"a": "2", "b": `"x\ny"`}
	for range 2 {
		_, got, skipped := open(t, path)
		if diff := cmp.Diff(want, got); diff != "" || skipped != 0 {
			t.Errorf("%d lines skipped, records (-want,+got):\n%s", skipped, diff)
		}
	}
}

// A crash leaves any prefix of the file: every record that was complete is there, and appending goes on.
func TestEveryPrefix(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j")
	j, _, _ := open(t, path)
	for i := range 4 {
		if err := j.Append([]Entry{{fmt.Sprint("k", i), i}}); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		j, got, _ := open(t, path)
		if want := bytes.Count(whole[:n], []byte("\n")); len(got) != want && len(got) != want+1 {
			t.Fatalf("%d bytes give %d records, want %d", n, len(got), want)
		}
		if err := j.Append([]Entry{{"last", true}}); err != nil {
			t.Fatal(err)
		}
		if _, got, skipped := open(t, path); got["last"] != "true" || skipped != 0 {
			t.Fatalf("After %d bytes, appending does not work: %v, %d skipped", n, got, skipped)
		}
	}
}

func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _, _ := open(t, path)
	if err := j.Append([]Entry{{"a", 1}, {"b", 2}, {"c", 3}}); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	b = bytes.Replace(b, []byte(`"v":2`), []byte(`"v":7`), 1)
	b = append(b, "\nshort\n00000000 {}\n"+strings.Repeat("\x00", 100)+"\n"...)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	_, got, skipped := open(t, path)
	if diff := cmp.Diff(map[string]string{"a": "1", "c": "3"}, got); diff != "" || skipped != 5 {
		t.Errorf("%d lines skipped, want 5; records (-want,+got):\n%s", skipped, diff)
	}
}

func TestRewriteKeepsTheFileSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _, _ := open(t, path)
	text := strings.Repeat("x", 10000)
	for i := 0; !j.NeedsRewrite(); i++ {
		if i > 1000 {
			t.Fatal("The journal grows for ever")
		}
		if err := j.Append([]Entry{{"a", text}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Rewrite([]Entry{{"a", "short"}}); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Size() > 100 || j.NeedsRewrite() {
		t.Errorf("The file has %d bytes after a rewrite", info.Size())
	}
	if err := j.Append([]Entry{{"b", 1}}); err != nil {
		t.Fatal(err)
	}
	if _, got, _ := open(t, path); got["a"] != `"short"` || got["b"] != "1" {
		t.Errorf("Records are %v", got)
	}
}

// After an error the file may miss records: appending is refused until it was written anew.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j")
	j, _, _ := open(t, path)
	j.file.Close()
	if err := j.Append([]Entry{{"a", 1}}); err == nil || !j.NeedsRewrite() {
		t.Fatal("An error was lost")
	}
	if err := j.Append([]Entry{{"a", 1}}); err == nil {
		t.Fatal("Appending to a file in doubt")
	}
	if err := j.Rewrite([]Entry{{"a", json.RawMessage("1")}}); err != nil || j.NeedsRewrite() {
		t.Fatalf("Rewriting does not help: %v", err)
	}
	if _, got, _ := open(t, path); got["a"] != "1" {
		t.Errorf("Records are %v", got)
	}
	if _, _, _, err := Open(dir); err == nil {
		t.Error("A directory was opened as a journal")
	}
	j, _, _, err := Open(filepath.Join(dir, "no", "such", "directory"))
	if err != nil || !j.NeedsRewrite() {
		t.Errorf("A journal that cannot be written: %v", err)
	}
}
