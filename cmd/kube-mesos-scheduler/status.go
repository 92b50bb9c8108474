// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos"
	debugv1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
)

// serveStatus opens the listener for health, readiness, the debug API and its page. On loopback it speaks plain HTTP and
// asks nobody who he is. Elsewhere it speaks TLS with kube-scheduler's own certificate, and the API server says who asks
// and whether he may, as for /metrics; health and readiness are for everybody.
func serveStatus(ctx context.Context, system *mesos.System, cc *schedulerconfig.CompletedConfig) error {
	address := system.StatusAddress()
	if address == "" {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("statusAddress: %w", err)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return servePlain(ctx, listener, system.Handler(localOnly))
	}
	if cc.SecureServing == nil || cc.Authentication.Authenticator == nil || cc.Authorization.Authorizer == nil {
		return errors.Join(fmt.Errorf("statusAddress %s is not on loopback, so that it is served with kube-scheduler's certificate: do not switch --secure-port off, or use 127.0.0.1", address), listener.Close())
	}
	serving := *cc.SecureServing
	serving.Listener = listener
	stop := make(chan struct{})
	stopped, _, err := serving.Serve(system.Handler(delegated(cc)), time.Second, stop)
	if err != nil {
		return fmt.Errorf("statusAddress: %w", err)
	}
	go func() {
		<-ctx.Done()
		close(stop)
		<-stopped
	}()
	return nil
}

func servePlain(ctx context.Context, listener net.Listener, handler http.Handler) error {
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16}
	go func() {
		<-ctx.Done()
		_ = s.Close()
	}()
	go func() {
		if err := s.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "The status listener ended")
		}
	}()
	return nil
}

// localOnly refuses what a web page from elsewhere could have a browser on this host ask: requests by another host name
// (DNS rebinding), and changing ones from another origin.
func localOnly(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "ask for localhost or a loopback address", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// delegated asks the API server who somebody is and whether he may get, or post to, the path.
func delegated(cc *schedulerconfig.CompletedConfig) func(http.Handler) http.Handler {
	codecs := scheme.Codecs
	info := &apirequest.RequestInfoFactory{}
	return func(next http.Handler) http.Handler {
		h := genericapifilters.WithAuthorization(next, cc.Authorization.Authorizer, codecs)
		h = genericapifilters.WithAuthentication(h, cc.Authentication.Authenticator, genericapifilters.Unauthorized(codecs), nil, nil)
		h = genericapifilters.WithRequestInfo(h, info)
		h = genericapifilters.WithCacheControl(h)
		h = proxiedToken(h)
		return genericfilters.WithPanicRecovery(h, info)
	}
}

// proxiedToken takes a token that came through the API server's pod proxy, which drops Authorization.
func proxiedToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get(debugv1.TokenHeader); token != "" {
			r = r.Clone(r.Context())
			r.Header.Del(debugv1.TokenHeader)
			if r.Header.Get("Authorization") == "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
		}
		next.ServeHTTP(w, r)
	})
}
