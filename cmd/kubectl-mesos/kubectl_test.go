// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
)

// scheduler answers as the debug API does.
func scheduler(t *testing.T, answers map[string]any) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.Method+" "+r.URL.RequestURI()]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = v1.Error{Code: 404, Message: "there is no " + r.Method + " " + r.URL.RequestURI()}
		}
		if text, ok := answer.(string); ok {
			_, _ = w.Write([]byte(text))
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func execute(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	var out, errs bytes.Buffer
	cmd := newCommand(&out, &errs)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestLeader(t *testing.T) {
	lease := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-mesos", Name: "kube-mesos-scheduler"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	}
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-mesos", Name: name, Labels: map[string]string{"app.kubernetes.io/name": "kube-mesos-scheduler"}}, Spec: corev1.PodSpec{NodeName: node}}
	}
	for name, tt := range map[string]struct {
		objects    []runtime.Object
		want, fail string
	}{
		"a pod":                     {[]runtime.Object{lease("sched-1_2f-aa"), pod("sched-1", "n1"), pod("sched-2", "n2")}, "sched-1", ""},
		"a name with underscores":   {[]runtime.Object{lease("host_a_2f-aa"), pod("sched-1", "host_a")}, "sched-1", ""},
		"a pod on the host network": {[]runtime.Object{lease("n2_2f-aa"), pod("sched-1", "n1"), pod("sched-2", "n2")}, "sched-2", ""},
		"no pod":                    {[]runtime.Object{lease("elsewhere_2f-aa"), pod("sched-1", "n1")}, "", "--server"},
		"no lease":                  {nil, "", "--scheduler-namespace"},
		"nobody leads":              {[]runtime.Object{lease("")}, "", "nobody holds"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &options{schedulerNamespace: "kube-mesos", lease: "kube-mesos-scheduler"}
			got, err := o.leader(t.Context(), fake.NewClientset(tt.objects...))
			if tt.fail != "" {
				require.ErrorContains(t, err, tt.fail)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got.Name)
		})
	}
}

func TestPortOf(t *testing.T) {
	require.Equal(t, "10270", portOf(&corev1.Pod{}))
	require.Equal(t, "7", portOf(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 6}, {Name: "status", ContainerPort: 7}}}}}}))
}

func TestWrongUse(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"an output that is none":     {[]string{"status", "-o", "table"}, "wide, json, yaml"},
		"no pod":                     {[]string{"pod"}, "exactly one NAMESPACE/NAME"},
		"half a pod":                 {[]string{"pod", "ns/", "--server=http://127.0.0.1:1"}, "NAMESPACE/NAME"},
		"too many slashes":           {[]string{"pod", "a/b/c", "--server=http://127.0.0.1:1"}, "NAMESPACE/NAME"},
		"a server elsewhere":         {[]string{"status", "--server=http://10.0.0.1:80"}, "on this machine"},
		"a server that is no URL":    {[]string{"status", "--server=127.0.0.1:80"}, "http://127.0.0.1:10270"},
		"nothing listens":            {[]string{"status", "--server=http://127.0.0.1:1"}, "refused"},
		"a master with a password":   {[]string{"drain", "x", "--server=http://127.0.0.1:1", "--master=http://a:b@m:1"}, "no password"},
		"a principal without secret": {[]string{"drain", "x", "--server=http://127.0.0.1:1", "--master=m:5050", "--principal=ops"}, "go together"},
		"a page for everybody":       {[]string{"ui", "--address=0.0.0.0:0"}, "loopback"},
		"a page without a port":      {[]string{"ui", "--address=127.0.0.1"}, "such as 127.0.0.1:8080"},
		"a command that is none":     {[]string{"stats"}, `unknown command "stats", did you mean status?`},
		"a command that nobody has":  {[]string{"version"}, "--help lists the commands"},
		"an argument too many":       {[]string{"offers", "x"}, `offers takes no arguments, not ["x"]`},
		"a flag that is none":        {[]string{"offers", "--nope"}, "kubectl mesos offers --help lists the flags"},
		"a shell that is none":       {[]string{"completion", "tcsh"}, "must be one of: bash, "},
		"no shell":                   {[]string{"completion"}, "say which shell: bash, "},
		"a state that is none":       {[]string{"tasks", "--state=Foo"}, "must be one of: Claimed, "},
		"no time to wait":            {[]string{"status", "--wait=0s"}, "greater than 0"},
		"a gone agent, not drained":  {[]string{"drain", "x", "--mark-gone"}, "say with --master which master to ask"},
		"a grace below zero":         {[]string{"drain", "x", "--max-grace-period=-5s"}, "--max-grace-period is -5s, it must not be negative"},
		"no kubeconfig":              {[]string{"status"}, "give --kubeconfig or KUBECONFIG"},
		"a kubeconfig that is none":  {[]string{"status", "--kubeconfig=/no/such/file"}, "--kubeconfig, or a file that it names"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := execute(t, tt.args...)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for name, tt := range map[string]struct{ answer, want string }{
		"a web page":   {"<html>", "does not answer as a scheduler"},
		"half of JSON": {`{"kind":`, "does not answer as a scheduler"},
	} {
		t.Run(name, func(t *testing.T) {
			url := scheduler(t, map[string]any{"GET /mesos/v1/status": tt.answer})
			_, _, err := execute(t, "status", "--server="+url)
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, _, err := execute(t, "status", "--server="+scheduler(t, nil))
	require.ErrorContains(t, err, "there is no GET")
}

func TestTables(t *testing.T) {
	at := time.Now().Add(-90 * time.Second)
	url := scheduler(t, map[string]any{
		"GET /mesos/v1/tasks?limit=20000": v1.TaskList{List: v1.List{Total: 2, Truncated: true}, Items: []v1.Task{{
			Namespace: "ns", Name: "evil\x1b[31m\nname", State: "Running", StateSince: at, Node: "n", Amounts: v1.Amounts{CPUs: 0.5, Mem: 64}, Ports: []int32{31000, 31001},
			Status: "TASK_RUNNING", Reason: "REASON_RECONCILIATION", TaskID: "t1",
		}}},
		"GET /mesos/v1/offers?limit=20000": v1.OfferList{},
		"GET /mesos/v1/pods/ns/p": v1.Pod{
			Namespace: "ns", Name: "p", UID: "u", Summary: "waits", Created: at, Role: "r", Need: v1.Amounts{CPUs: 1},
			Steps: []v1.Step{{Time: at.Add(250 * time.Millisecond), What: "waiting"}},
			Verdicts: []v1.Verdict{
				{Node: "a", Why: "too small", Matches: true}, {Node: "b", Fits: true}, {Node: "c", Fits: true, Matches: true},
				{Node: "d", Why: "too small", LastOffered: v1.Amounts{CPUs: 2}, LastOfferedAt: at, Matches: true},
			},
		},
		"POST /mesos/v1/reconcile": v1.Accepted{Message: "done"},
	})
	out, errs, err := execute(t, "tasks", "--server="+url)
	require.NoError(t, err)
	require.NotContains(t, out, "\x1b", "what others have named does not steer the terminal")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2)
	require.Regexp(t, `^NAMESPACE +POD +STATE +SINCE +NODE +RESOURCES +MESOS$`, lines[0])
	require.Regexp(t, `^ns +evil \[31m name +Running +90s +n +cpus:0.5;mem:64;ports:31000,31001 +TASK_RUNNING \(REASON_RECONCILIATION\)$`, lines[1])
	require.Contains(t, errs, "1 of 2 are shown")

	out, _, err = execute(t, "tasks", "--server="+url, "-o", "wide")
	require.NoError(t, err)
	require.Contains(t, out, "t1")

	out, errs, err = execute(t, "offers", "--server="+url)
	require.NoError(t, err)
	require.Empty(t, out)
	require.Contains(t, errs, "No offers in hand")

	out, _, err = execute(t, "pod", "ns/p", "--server="+url)
	require.NoError(t, err)
	for _, want := range []string{`\+250ms +waiting`, `a +too small`, `b +the pod's selector`, `c +fits`, `d +too small.*cpus:2, 90s ago`} {
		require.Regexp(t, want, out)
	}
	out, _, err = execute(t, "reconcile", "--server="+url)
	require.NoError(t, err)
	require.Equal(t, "done\n", out)
}

func TestDrainInMesos(t *testing.T) {
	var got map[string]any
	master := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, secret, _ := r.BasicAuth()
		if user != "ops" || secret != "hush" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		require.NoError(t, json.NewDecoder(r.Body).Decode(&got))
	}))
	t.Cleanup(master.Close)
	standby := httptest.NewServer(http.RedirectHandler(master.URL+"/api/v1", http.StatusTemporaryRedirect))
	t.Cleanup(standby.Close)
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("hush\n"), 0o600))

	m := masterOptions{url: standby.URL, principal: "ops", secretFile: file}
	require.NoError(t, m.check())
	require.NoError(t, m.drain(t.Context(), "S1", time.Minute, true))
	require.Equal(t, map[string]any{"type": "DRAIN_AGENT", "drain_agent": map[string]any{
		"agent_id": map[string]any{"value": "S1"}, "max_grace_period": map[string]any{"nanoseconds": 6e10}, "mark_gone": true,
	}}, got)

	require.NoError(t, os.WriteFile(file, []byte("wrong"), 0o600))
	err := m.drain(t.Context(), "S1", 0, false)
	require.ErrorContains(t, err, "401")
	require.NotContains(t, err.Error(), "wrong")
}

func TestFindAgent(t *testing.T) {
	url := scheduler(t, map[string]any{"GET /mesos/v1/agents?limit=20000": v1.AgentList{Items: []v1.Agent{
		{ID: "S1", Node: "n1", Hostname: "n1.example"}, {ID: "S2", Node: "n2"}, {ID: "S3", Node: "n2"}, {ID: "S4", Node: "n1", Gone: true},
	}}})
	c, err := local(url)
	require.NoError(t, err)
	for arg, want := range map[string]string{"n1": "S1", "n1.example": "S1", "S3": "S3", "S4": "S4"} {
		got, err := findAgent(t.Context(), c, arg)
		require.NoError(t, err)
		require.Equal(t, want, got.ID)
	}
	_, err = findAgent(t.Context(), c, "n2")
	require.ErrorContains(t, err, "S2, S3")
	_, err = findAgent(t.Context(), c, "n3")
	require.ErrorContains(t, err, "no agent is known")
}

func TestPageProxy(t *testing.T) {
	url := scheduler(t, map[string]any{"GET /mesos/": "page", "GET /mesos/v1/status": v1.Status{Phase: "subscribed"}})
	p := &pageProxy{options: &options{server: url, timeout: time.Second}}
	for name, tt := range map[string]struct {
		method, host, path string
		want               int
	}{
		"the page":           {"GET", "127.0.0.1:80", "/mesos/", 200},
		"by name":            {"GET", "localhost:80", "/mesos/v1/status", 200},
		"the root":           {"GET", "localhost:80", "/", 302},
		"another host name":  {"GET", "evil.example:80", "/mesos/v1/status", 403},
		"no host":            {"GET", "", "/mesos/v1/status", 403},
		"a changing request": {"POST", "localhost:80", "/mesos/v1/reconcile", 403},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, "http://localhost"+tt.path, nil)
			r.Host = tt.host
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			require.Equal(t, tt.want, w.Code, w.Body.String())
		})
	}
}

func TestNoColoursInAPipe(t *testing.T) {
	o := &options{out: &bytes.Buffer{}}
	require.Equal(t, "x", o.paint(bad, "x"))
}

// The page is served where the Mesos UI's link leads, or at any free port if that one is in use and none was asked for.
func TestPageAddress(t *testing.T) {
	if taken, err := net.Listen("tcp", defaultAddress); err == nil {
		defer taken.Close()
	}
	url := scheduler(t, nil)
	_, _, err := execute(t, "ui", "--server="+url, "--address="+defaultAddress)
	require.ErrorContains(t, err, "address already in use")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	t.Setenv("HOME", t.TempDir())
	out, in := io.Pipe()
	cmd := newCommand(in, io.Discard)
	cmd.SetArgs([]string{"ui", "--server=" + url})
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/mesos/\n$`, said)
	require.NotContains(t, said, defaultAddress)
	cancel()
	require.NoError(t, <-done)
}
