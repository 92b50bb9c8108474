// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An Interceptor gets each request of a Proxy before it is passed on by next. client is what Listen was told.
type Interceptor func(client string, w http.ResponseWriter, r *http.Request, next http.Handler)

// A Proxy stands between clients and the API server, so that a test can refuse, delay or lose single requests and
// answers, or cut connections. It speaks TLS on both sides. A token is passed on; whom a client certificate names is told
// to the API server as an aggregating proxy does, so that rights and audit are those of the client.
type Proxy struct {
	c         *Cluster
	intercept Interceptor
	forward   *httputil.ReverseProxy
	tls       *tls.Config
	clients   *x509.CertPool
	serving   sync.WaitGroup

	mu        sync.Mutex
	listeners []*proxyListener
}

// proxyListener is where one client connects.
type proxyListener struct {
	net.Listener
	client string
	server *http.Server
	away   atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// NewProxy returns a proxy that serves nobody yet. It ends with Close.
func (c *Cluster) NewProxy(intercept Interceptor) (*Proxy, error) {
	server, err := c.ca.server()
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(server.cert, server.key)
	if err != nil {
		return nil, err
	}
	front, err := c.frontProxy.client("front-proxy-client")
	if err != nil {
		return nil, err
	}
	frontCertificate, err := tls.X509KeyPair(front.cert, front.key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(c.ca.cert)
	upstream, err := url.Parse(c.url)
	if err != nil {
		return nil, err
	}
	return &Proxy{
		c: c, intercept: intercept, clients: pool,
		tls: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequestClientCert},
		forward: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
			Transport: &http.Transport{
				TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{frontCertificate}},
				ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16,
			},
			FlushInterval: -1, // watches
			ErrorLog:      log.New(io.Discard, "", 0),
			ErrorHandler:  func(_ http.ResponseWriter, r *http.Request, _ error) { Break(r) },
		},
	}, nil
}

// connKey is the context key of a request's connection.
type connKey struct{}

// Break breaks the connection of a request that a proxy intercepts. It does not return.
func Break(r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// Listen opens an address for a client and returns its URL.
func (p *Proxy) Listen(client string) (string, error) {
	port, err := p.c.Port()
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return "", err
	}
	l := &proxyListener{Listener: listener, client: client, conns: map[net.Conn]struct{}{}}
	l.server = &http.Server{
		TLSConfig: p.tls.Clone(),
		ErrorLog:  log.New(io.Discard, "", 0),
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(l, w, r) }),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if t, ok := conn.(*tls.Conn); ok {
				conn = t.NetConn() // closing it does not wait for anything
			}
			return context.WithValue(ctx, connKey{}, conn)
		},
	}
	p.mu.Lock()
	p.listeners = append(p.listeners, l)
	p.mu.Unlock()
	p.serving.Go(func() { _ = l.server.ServeTLS(l, "", "") })
	return fmt.Sprintf("https://127.0.0.1:%d", port), nil
}

// Accept takes no connection while the API server is said to be away.
func (l *proxyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.away.Load() {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // a reset
			}
			_ = conn.Close()
			continue
		}
		l.mu.Lock()
		l.conns[conn] = struct{}{}
		l.mu.Unlock()
		return &proxyConn{conn, l}, nil
	}
}

// proxyConn forgets itself when it ends.
type proxyConn struct {
	net.Conn
	l *proxyListener
}

func (c *proxyConn) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c.Conn)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

func (l *proxyListener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.Close()
	}
	clear(l.conns)
}

// Cut breaks all connections of the clients that are meant, in the middle of whatever goes on.
func (p *Proxy) Cut(meant func(client string) bool) {
	for _, l := range p.those(meant) {
		l.cut()
	}
}

// Away makes the API server look as if it were away for the clients that are meant, or ends that.
func (p *Proxy) Away(meant func(client string) bool, away bool) {
	for _, l := range p.those(meant) {
		l.away.Store(away)
		if away {
			l.cut()
		}
	}
}

func (p *Proxy) those(meant func(client string) bool) []*proxyListener {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*proxyListener
	for _, l := range p.listeners {
		if meant(l.client) {
			out = append(out, l)
		}
	}
	return out
}

// Close ends the proxy and every connection.
func (p *Proxy) Close() error {
	var errs []error
	for _, l := range p.those(func(string) bool { return true }) {
		errs = append(errs, l.server.Close())
		l.cut()
	}
	p.serving.Wait()
	p.forward.Transport.(*http.Transport).CloseIdleConnections()
	return errors.Join(errs...)
}

// Headers by which the API server hears of a user from a proxy, see apiServerArgs.
const (
	remoteUser  = "X-Remote-User"
	remoteGroup = "X-Remote-Group"
)

func (p *Proxy) serve(l *proxyListener, w http.ResponseWriter, r *http.Request) {
	r.Header.Del(remoteUser)
	r.Header.Del(remoteGroup)
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		peer := r.TLS.PeerCertificates[0]
		_, err := peer.Verify(x509.VerifyOptions{Roots: p.clients, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil {
			Refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized", 0)
			return
		}
		r.Header.Set(remoteUser, peer.Subject.CommonName)
		for _, group := range peer.Subject.Organization {
			r.Header.Add(remoteGroup, group)
		}
	}
	if p.intercept == nil {
		p.forward.ServeHTTP(w, r)
		return
	}
	p.intercept(l.client, w, r, p.forward)
}

// Refuse answers as the API server does when it refuses a request. Seconds after which to try again are told if they are
// not 0.
func Refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string, retryAfter int32) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reason, Message: message, Code: int32(code),
	}
	if retryAfter > 0 {
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
		w.Header().Set("Retry-After", fmt.Sprint(retryAfter))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status)
}
