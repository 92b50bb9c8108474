// SPDX-License-Identifier: Apache-2.0

// Package journal keeps records, each under a key, in one file that a crash at any moment leaves readable. A change is
// a line at the end of the file; the last line of a key counts. When the file has grown far beyond what it says, it is
// replaced by a short one.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Entry is a record to be written; a nil Value deletes the key.
type Entry struct {
	Key   string
	Value any
}

type line struct {
	Key   string          `json:"k"`
	Value json.RawMessage `json:"v,omitempty"`
}

// slack is how many bytes a file may have beyond twice what a compacted one had.
const slack = 1 << 20

// maxLine bounds one line of the file, in bytes.
const maxLine = 64 << 20

// Journal is an open journal. It is not safe for concurrent use.
type Journal struct {
	path    string
	file    *os.File
	size    int64
	compact int64 // size after the last compaction
	broken  bool  // the file may miss records: it must be written anew
}

// Open opens the journal at path, or begins one, and returns its records. Lines that a crash left unfinished or that
// are damaged are left out; skipped is their number. If the file can be read but not written, NeedsRewrite is true.
func Open(path string) (j *Journal, records map[string]json.RawMessage, skipped int, err error) {
	records = map[string]json.RawMessage{}
	data, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, nil, 0, fmt.Errorf("open journal: %w", err)
	default:
		skipped, err = read(data, records)
		if cerr := data.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return nil, nil, 0, fmt.Errorf("read journal %s: %w", path, err)
		}
	}
	j = &Journal{path: path}
	// Begin with a file that holds exactly the records: whatever was damaged is gone, and appending is safe.
	entries := make([]Entry, 0, len(records))
	for k, v := range records {
		entries = append(entries, Entry{Key: k, Value: v})
	}
	// A full disk must not keep the executor from minding its pods: NeedsRewrite says that this is still to be done.
	_ = j.Rewrite(entries)
	return j, records, skipped, nil
}

func read(r io.Reader, records map[string]json.RawMessage) (skipped int, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxLine)
	for s.Scan() {
		body, ok := check(s.Bytes())
		var l line
		if !ok || json.Unmarshal(body, &l) != nil || l.Key == "" {
			skipped++
			continue
		}
		if l.Value == nil {
			delete(records, l.Key)
			continue
		}
		records[l.Key] = bytes.Clone(l.Value)
	}
	return skipped, s.Err()
}

// A line is the CRC-32 of the JSON in eight hex digits, a blank, the JSON, and a line feed.
func check(b []byte) ([]byte, bool) {
	if len(b) < 10 || b[8] != ' ' {
		return nil, false
	}
	body := b[9:]
	return body, string(b[:8]) == fmt.Sprintf("%08x", crc32.ChecksumIEEE(body))
}

func encode(entries []Entry) ([]byte, error) {
	var buf bytes.Buffer
	for _, e := range entries {
		l := line{Key: e.Key}
		if e.Value != nil {
			v, err := json.Marshal(e.Value)
			if err != nil {
				return nil, fmt.Errorf("encode journal record %s: %w", e.Key, err)
			}
			l.Value = v
		}
		body, err := json.Marshal(l)
		if err != nil {
			return nil, fmt.Errorf("encode journal record %s: %w", e.Key, err)
		}
		fmt.Fprintf(&buf, "%08x %s\n", crc32.ChecksumIEEE(body), body)
	}
	return buf.Bytes(), nil
}

// Append writes the entries and returns when they are on disk. After an error the file may lack them, and NeedsRewrite
// is true.
func (j *Journal) Append(entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	if j.broken || j.file == nil {
		return fmt.Errorf("journal %s must be rewritten first", j.path)
	}
	b, err := encode(entries)
	if err != nil {
		return err
	}
	n, err := j.file.Write(b)
	j.size += int64(n)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		j.broken = true
		return fmt.Errorf("append to journal: %w", err)
	}
	return nil
}

// NeedsRewrite says that the file has grown enough, or is in doubt, and should be replaced.
func (j *Journal) NeedsRewrite() bool {
	return j.broken || j.size > 2*j.compact+slack
}

// Rewrite replaces the file by one that holds exactly the entries, and returns when that is on disk.
func (j *Journal) Rewrite(entries []Entry) error {
	b, err := encode(entries)
	if err != nil {
		return err
	}
	fail := func(err error) error {
		j.broken = true
		return fmt.Errorf("rewrite journal: %w", err)
	}
	tmp := j.path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fail(err)
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(tmp, j.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(j.path))
	}
	if err != nil {
		f.Close()
		return fail(err)
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.size, j.compact, j.broken = f, int64(len(b)), int64(len(b)), false
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// Close closes the file.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}
