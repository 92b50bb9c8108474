// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
)

// renewAfter is when the leader is looked for again and a fresh token is made; one is good for ten minutes.
const renewAfter = 5 * time.Minute

// defaultAddress is where the scheduler's default webUIURL leads.
const defaultAddress = "127.0.0.1:10270"

func (o *options) uiCommand() *cobra.Command {
	address := defaultAddress
	cmd := &cobra.Command{
		Use: "ui", Short: "Serve the scheduler's web page on this machine",
		Long:    "Serve the scheduler's web page on a loopback address of this machine until interrupted. What it shows comes through the\nAPI server with your credentials; everybody on this machine can see it meanwhile. On its default address it is also where\nthe Mesos UI's link from the framework's name leads, unless the scheduler has another webUIURL.",
		Example: "  kubectl mesos ui\n  kubectl mesos ui --address 127.0.0.1:8080",
		Args:    nothing, ValidArgsFunction: noFiles,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.ui(cmd.Context(), address, !cmd.Flags().Changed("address"))
		},
	}
	cmd.Flags().StringVar(&address, "address", address, "Loopback address to listen on; port 0 is any free one, which is also taken if the default one is in use")
	return cmd
}

func (o *options) ui(ctx context.Context, address string, orAny bool) error {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) && orAny {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return fmt.Errorf("--address is %q, it must be a loopback address and port, such as 127.0.0.1:8080: %w", address, err)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return errors.Join(fmt.Errorf("--address is %q, it must be a loopback address: the page asks nobody who he is", address), listener.Close())
	}
	p := &pageProxy{options: o}
	if _, err := p.client(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	fmt.Fprintf(o.out, "http://%s/mesos/\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// pageProxy passes requests on to the scheduler that leads.
type pageProxy struct {
	options *options
	mu      sync.Mutex
	current *client
	since   time.Time
}

func (p *pageProxy) client(ctx context.Context) (*client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil && time.Since(p.since) < renewAfter {
		return p.current, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.timeout)
	defer cancel()
	c, err := p.options.connect(ctx, false)
	if err != nil {
		return nil, err
	}
	p.current, p.since = c, time.Now()
	return c, nil
}

func (p *pageProxy) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = nil
}

// ServeHTTP passes reading requests on. The host name is checked so that no page from elsewhere can read the answers.
func (p *pageProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	ip := net.ParseIP(host)
	if err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "only for reading, and only by a loopback address", http.StatusForbidden)
		return
	}
	if r.URL.Path == "/" {
		http.Redirect(w, r, "/mesos/", http.StatusFound)
		return
	}
	c, err := p.client(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	base, err := url.Parse(c.base)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			r.Out.Header.Del("Cookie")
			if c.token != "" {
				r.Out.Header.Set(v1.TokenHeader, c.token)
			}
		},
		Transport: c.http.Transport,
		ModifyResponse: func(response *http.Response) error {
			if response.StatusCode >= 500 || response.StatusCode == http.StatusUnauthorized {
				p.forget() // another one may lead by now
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			p.forget()
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(w, r)
}
