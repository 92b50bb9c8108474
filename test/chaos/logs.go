// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// crashes are what a Go program writes when it panics, ends itself, or races. kube's own recovery logs the second.
var crashes = []string{"panic:", "Observed a panic", "fatal error:", "WARNING: DATA RACE"}

// crashed is I7: it scans what the programs of a run have written.
func crashed(dir string) ([]violation, error) {
	var out []violation
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".log") && name != "stderr" && name != "stdout" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewReaderSize(f, 1<<20)
		for n := 1; ; n++ {
			line, err := lines.ReadString('\n')
			for _, c := range crashes {
				if strings.Contains(line, c) {
					out = append(out, violation{"I7", "", fmt.Sprintf("%s:%d: %s", path, n, firstLine(strings.TrimSpace(line)))})
					return nil
				}
			}
			if err != nil {
				return nil
			}
		}
	})
	return out, err
}
