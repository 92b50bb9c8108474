// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// What requests are told apart by, see kindOfRequest. "" stands for all that change something.
var requestKinds = []string{"binding", "binding", "binding", "patch-pod", "patch-status", "delete-pod", "delete-pod", "evict", "configmap", "lease", "patch-node", "read", "watch", ""}

// An apiFault strikes requests to the API server on their way through the proxy.
type apiFault struct {
	// request is the kind of requests it strikes.
	request string
	// client is whose requests it strikes, "" everybody's.
	client string
	// skip is how many it lets pass before, times how many it strikes.
	skip, times int
	// act is what it does to one. It may call next or not; whoever it returns true for is done with.
	act func(client string, w http.ResponseWriter, r *http.Request, next http.Handler)
}

// api is what lies between the product's programs and the API server.
type api struct {
	mu     sync.Mutex
	faults []*apiFault
	// slow delays every request while it is set.
	slow time.Duration
	// sent is when requests came from the programs, by audit id.
	sent   map[string]time.Time
	serial int
	prefix string
}

func newAPI(prefix string) *api { return &api{sent: map[string]time.Time{}, prefix: prefix} }

// kindOfRequest names what a request does.
func kindOfRequest(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	i := slices.Index(parts, "namespaces")
	if i < 0 || i+2 >= len(parts) {
		i = max(0, slices.Index(parts, "v1")-1) // no namespace in its path
	}
	parts = parts[min(i+2, len(parts)):]
	resource, sub := "", ""
	if len(parts) > 0 {
		resource = parts[0]
	}
	if len(parts) > 2 {
		sub = parts[2]
	}
	watches := r.URL.Query().Get("watch")
	switch {
	case r.Method == http.MethodGet && (watches == "true" || watches == "1"):
		return "watch"
	case resource == "leases" && r.Method != http.MethodGet:
		return "lease"
	case resource == "configmaps":
		return "configmap"
	case r.Method == http.MethodGet:
		return "read"
	case resource == "pods" && sub == "binding":
		return "binding"
	case resource == "pods" && sub == "eviction":
		return "evict"
	case resource == "pods" && sub == "status":
		return "patch-status"
	case resource == "pods" && r.Method == http.MethodDelete:
		return "delete-pod"
	case resource == "pods" && r.Method == http.MethodPatch:
		return "patch-pod"
	case resource == "nodes" && r.Method == http.MethodPatch:
		return "patch-node"
	}
	return "other"
}

// changes says whether a kind of requests changes something that the product lives by.
func changes(kind string) bool {
	return kind != "read" && kind != "watch" && kind != "lease" && kind != "other"
}

func (a *api) add(f *apiFault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = append(a.faults, f)
}

// remove takes a fault back and returns whether it still had something to strike.
func (a *api) remove(f *apiFault) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.faults, f)
	if i >= 0 {
		a.faults = slices.Delete(a.faults, i, i+1)
	}
	return i >= 0
}

func (a *api) setSlow(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.slow = d
}

// clear ends all faults.
func (a *api) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults, a.slow = nil, 0
}

// sentAt returns when requests came from the programs, by audit id.
func (a *api) sentAt() map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.sent)
}

// intercept is the proxy's.
func (a *api) intercept(client string, w http.ResponseWriter, r *http.Request, next http.Handler) {
	kind := kindOfRequest(r)
	a.mu.Lock()
	slow := a.slow
	if r.Method != http.MethodGet && changes(kind) {
		a.serial++
		id := a.prefix + "-" + strconv.Itoa(a.serial)
		a.sent[id] = time.Now()
		r.Header.Set("Audit-ID", id)
	}
	var struck *apiFault
	for i, f := range a.faults {
		if f.client != "" && f.client != client || f.request != kind && (f.request != "" || !changes(kind)) {
			continue
		}
		if f.skip > 0 {
			f.skip--
			continue
		}
		struck = f
		if f.times--; f.times <= 0 {
			a.faults = slices.Delete(a.faults, i, i+1)
		}
		break
	}
	a.mu.Unlock()
	if slow > 0 && !pause(r.Context(), slow) {
		return
	}
	if struck != nil {
		struck.act(client, w, r, next)
		return
	}
	next.ServeHTTP(w, r)
}

// refuse answers a request without passing it on.
func refuse(code int) func(string, http.ResponseWriter, *http.Request, http.Handler) {
	return func(_ string, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		switch code {
		case http.StatusConflict:
			cluster.Refuse(w, code, metav1.StatusReasonConflict, "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again", 0)
		case http.StatusTooManyRequests:
			cluster.Refuse(w, code, metav1.StatusReasonTooManyRequests, "too many requests, please try again later", 1)
		case http.StatusServiceUnavailable:
			cluster.Refuse(w, code, metav1.StatusReasonServiceUnavailable, "apiserver not ready", 0)
		default:
			cluster.Refuse(w, code, metav1.StatusReasonInternalError, "Internal error occurred: etcdserver: leader changed", 0)
		}
	}
}

// before holds requests up on their way to the API server.
func before(d time.Duration) func(string, http.ResponseWriter, *http.Request, http.Handler) {
	return func(_ string, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if pause(r.Context(), d) {
			next.ServeHTTP(w, r)
		}
	}
}

// loseRequest breaks the connection instead of passing a request on.
func loseRequest(_ string, _ http.ResponseWriter, r *http.Request, _ http.Handler) { cluster.Break(r) }

// loseAnswer passes a request on and does something else than to answer it as the API server did.
func loseAnswer(instead func(w http.ResponseWriter, r *http.Request, answer *httptest.ResponseRecorder)) func(string, http.ResponseWriter, *http.Request, http.Handler) {
	return func(_ string, w http.ResponseWriter, r *http.Request, next http.Handler) {
		if kindOfRequest(r) == "watch" { // it has no end to wait for
			cluster.Break(r)
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		instead(w, r, answer)
	}
}

// timedOut answers that a request timed out, as the API server does of one that it may have carried out.
func timedOut(w http.ResponseWriter, _ *http.Request, _ *httptest.ResponseRecorder) {
	cluster.Refuse(w, http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Timeout: request did not complete within the allotted timeout", 0)
}

func broken(_ http.ResponseWriter, r *http.Request, _ *httptest.ResponseRecorder) { cluster.Break(r) }

// late answers after a while.
func late(d time.Duration) func(http.ResponseWriter, *http.Request, *httptest.ResponseRecorder) {
	return func(w http.ResponseWriter, r *http.Request, answer *httptest.ResponseRecorder) {
		if !pause(r.Context(), d) {
			return
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}
}
