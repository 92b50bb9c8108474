// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// SocketName is the socket's name in the sandbox.
const SocketName = "kube-mesos-executor.sock"

const (
	// scrapeTimeout bounds each step of a request.
	scrapeTimeout = 5 * time.Second
	maxHeader     = 8 << 10
	contentType   = "text/plain; version=0.0.4; charset=utf-8"
)

// Listen opens the socket in a folder, in place of one that an earlier process has left there. It is its owner's alone.
func Listen(dir string) (net.Listener, error) {
	// Whoever may look into the sandbox cannot connect between the socket's creation and the end of its rights: it is
	// made in a folder of its own.
	nursery, err := os.MkdirTemp(dir, ".kube-mesos-executor-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(nursery)
	path := filepath.Join(nursery, SocketName)
	var l *net.UnixListener
	err = short(path, func(path string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(path, 0o600); err == nil {
		err = os.Rename(path, filepath.Join(dir, SocketName))
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// short calls f with another path of the same file. Those of sockets may have 107 characters, and sandboxes have more.
func short(path string, f func(path string) error) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

// Serve answers `GET /metrics` until ctx ends, and removes the socket from its folder then. ask returns what is now.
func Serve(ctx context.Context, l net.Listener, dir string, ask func(context.Context) (*Snapshot, error)) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), scrapeTimeout)
		defer cancel()
		s, err := ask(ctx)
		if err != nil {
			http.Error(w, "the executor does not answer: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(Text(s))
	})
	server := &http.Server{
		Handler: mux, ReadTimeout: scrapeTimeout, WriteTimeout: 2 * scrapeTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	server.SetKeepAlivesEnabled(false)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	if removeErr := os.Remove(filepath.Join(dir, SocketName)); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	return err
}
