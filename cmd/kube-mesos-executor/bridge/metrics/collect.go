// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxAnswer bounds what is read of one executor, in bytes.
const maxAnswer = 1 << 20

// Sockets returns the sockets of executors below a folder: a sandbox, or the work folder of a Mesos agent.
func Sockets(dir string) ([]string, error) {
	var found []string
	// The run `latest` is a link to another one.
	for _, below := range []string{"", "slaves/*/frameworks/*/executors/*/runs/*"} {
		paths, err := filepath.Glob(filepath.Join(escape(dir), below, SocketName))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		for _, path := range paths {
			if real, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(found, real) {
				found = append(found, real)
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// Collect writes the metrics of all executors below a folder as one scrape. Sockets that executors have left behind are
// passed over; the error says which others could not be asked.
func Collect(ctx context.Context, w io.Writer, dir string) error {
	sockets, err := Sockets(dir)
	if err != nil {
		return err
	}
	families := map[string][]string{} // the lines of each metric, which the format wants together
	var errs []error
	for _, socket := range sockets {
		text, err := get(ctx, socket)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", socket, err))
		default:
			gather(text, families)
		}
	}
	out := bufio.NewWriter(w)
	for _, d := range Docs() {
		if lines := families[d.Name]; len(lines) > 0 {
			fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n%s\n", d.Name, d.Help, d.Name, d.Type, strings.Join(lines, "\n"))
		}
	}
	return errors.Join(append(errs, out.Flush())...)
}

// gather adds samples to their metrics. What is no metric of ours is left out.
func gather(text []byte, families map[string][]string) {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if name, _, ok := strings.Cut(line, "{"); ok && !strings.HasPrefix(line, "#") {
			families[name] = append(families[name], line)
		}
	}
}

func get(ctx context.Context, socket string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*scrapeTimeout)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
		err = short(socket, func(path string) error {
			conn, err = (&net.Dialer{}).DialContext(ctx, "unix", path)
			return err
		})
		return conn, err
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://executor/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("answered %s: %.200s", resp.Status, bytes.TrimSpace(text))
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("answered more than %d bytes", maxAnswer)
	}
	return text, nil
}
