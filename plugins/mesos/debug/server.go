// SPDX-License-Identifier: Apache-2.0

// Package debug answers people who ask what the scheduler does and why a pod waits: a versioned JSON API, described in
// docs/debug-api.md, and a web page that shows it. It only reads, but for one request that asks for a reconciliation.
package debug

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/history"
	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/session"
)

// Session is what is asked of the Mesos session.
type Session interface {
	Status() session.Status
	Roles() []session.RoleStatus
	LastEvent() time.Time
	AskReconcile()
}

// Options say where the answers come from.
type Options struct {
	Clock   clock.WithTicker
	Ledger  *ledger.Ledger
	Session Session
	History *history.History
	Pods    corelisters.PodLister
	Nodes   corelisters.NodeLister
	// Leading says whether this process runs the framework; Ours whether a scheduler name is one of its profiles.
	Leading func() bool
	Ours    func(schedulerName string) bool
	// Stopped is when a protective stop on removals began, and HowToRelease says how it is ended.
	Stopped      func() time.Time
	HowToRelease func(time.Time) string
	// Framework is the framework's name, Args the arguments without anything secret.
	Framework string
	Args      map[string]any
	// Lead is how long before a maintenance window an agent gets no new tasks.
	Lead time.Duration
	// Overcommit says what a node's agent and pods outside Mesos have too much of, and what to change; ok is false if nothing.
	Overcommit func(node string) (over resources.Amounts, advice string, ok bool)
	// Match says whether a pod's own rules allow a node; Explain why a need fits no agent, "" if one fits.
	Match   func(pod *corev1.Pod, node string) bool
	Explain func(snapshot *ledger.Snapshot, pod *corev1.Pod, need resources.Need, now time.Time) string
}

// Server answers. It is made once and run while this process leads.
type Server struct {
	options Options
	started time.Time

	taskCache  copied[ledger.Task]
	agentCache copied[*ledger.AgentInfo]

	warned bool // of overlapping port ranges; only Run uses it
}

// New returns a server.
func New(options Options) *Server {
	return &Server{options: options, started: options.Clock.Now()}
}

//go:embed web
var web embed.FS

// Numbers of items in one answer.
const (
	defaultLimit = 1000
	maxLimit     = 20000
)

// Handler serves the API under v1.Root and the page under /mesos/. Who may ask is not its business.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, answer func(*http.Request) (any, error)) {
		mux.HandleFunc("GET "+v1.Root+path, func(w http.ResponseWriter, r *http.Request) {
			a, err := answer(r)
			write(r.Context(), w, http.StatusOK, a, err)
		})
	}
	get("/status", func(*http.Request) (any, error) { return s.status(), nil })
	get("/offers", s.offers)
	get("/agents", s.agents)
	get("/tasks", s.tasks)
	get("/pods", s.pods)
	get("/pods/{namespace}/{name}", s.pod)
	get("/events", s.events)
	get("/series", func(*http.Request) (any, error) {
		return v1.Series{Kind: kind("Series"), StepSeconds: history.SampleEvery.Seconds(), Items: s.options.History.Series()}, nil
	})
	mux.HandleFunc("POST "+v1.Root+"/reconcile", s.reconcile)
	mux.HandleFunc(v1.Root+"/", func(w http.ResponseWriter, r *http.Request) {
		write(r.Context(), w, 0, nil, problem(http.StatusNotFound, "there is no %s %s; see docs/debug-api.md", r.Method, r.URL.Path))
	})
	files, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // the folder is embedded
	}
	page := http.StripPrefix("/mesos/", http.FileServerFS(files))
	mux.HandleFunc("/mesos/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "the page is to be read only", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		page.ServeHTTP(w, r)
	})
	mux.Handle("GET /{$}", http.RedirectHandler("mesos/", http.StatusFound))
	return headers(mux)
}

func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

func kind(k string) v1.Kind { return v1.Kind{APIVersion: v1.APIVersion, Kind: k} }

// requestError is an error with an HTTP status.
type requestError struct {
	code    int
	message string
}

func (e *requestError) Error() string { return e.message }

func problem(code int, format string, args ...any) error {
	return &requestError{code, fmt.Sprintf(format, args...)}
}

func write(ctx context.Context, w http.ResponseWriter, code int, answer any, err error) {
	if err != nil {
		code = http.StatusInternalServerError
		var known *requestError
		if errors.As(err, &known) {
			code = known.code
		}
		answer = v1.Error{Kind: kind("Error"), Code: code, Message: err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		klog.FromContext(ctx).V(4).Info("A client of the debug API has gone", "err", err)
	}
}

// limitOf reads the parameter limit.
func limitOf(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		return 0, problem(http.StatusBadRequest, "limit is %q, it must be a number from 1 to %d", text, maxLimit)
	}
	return n, nil
}

// cut keeps the first limit items.
func cut[T any](items []T, limit int) ([]T, v1.List) {
	l := v1.List{Total: len(items), Truncated: len(items) > limit}
	if items == nil {
		items = []T{}
	}
	return items[:min(len(items), limit)], l
}

// reconcile asks for a full pass of reconciliation.
func (s *Server) reconcile(w http.ResponseWriter, r *http.Request) {
	if !s.options.Leading() || s.options.Session.Status().Phase != session.Subscribed {
		write(r.Context(), w, 0, nil, problem(http.StatusConflict, "this scheduler is not subscribed with a Mesos master (%s)", s.options.Session.Status().Phase))
		return
	}
	klog.FromContext(r.Context()).Info("Reconciliation asked for through the debug API")
	s.options.History.Note("", "", "", "Reconcile", "a full reconciliation was asked for")
	s.options.Session.AskReconcile()
	write(r.Context(), w, http.StatusAccepted, v1.Accepted{Kind: kind("Accepted"), Message: "the master is asked for the state of every task"}, nil)
}
