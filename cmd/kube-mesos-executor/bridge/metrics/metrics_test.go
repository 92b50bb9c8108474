// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/component-base/metrics/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parse reads text by Prometheus' own parser.
func parse(t *testing.T, text []byte) testutil.Metrics {
	t.Helper()
	m := testutil.NewMetrics()
	if err := testutil.ParseMetrics(string(text), &m); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return m
}

func TestText(t *testing.T) {
	s := &Snapshot{
		Identity: Identity{Version: "v1", Node: "n", FrameworkID: "f", AgentID: "a", ExecutorID: "e \"\\\n\xff"},
		Started:  time.UnixMilli(1700000000500), Restarts: 2,
		Tasks: map[string]int{"RUNNING": 3, "LOST": 1}, Kills: 1, LongestKill: 90 * time.Second, OldestUpdate: -time.Second,
		Subscribed: true, PodsAge: 1500 * time.Millisecond,
	}
	m := parse(t, Text(s))
	want := map[string]float64{
		`info version=v1 node=n`: 1, `start_time_seconds`: 1700000000.5, `bridge_restarts_total`: 2,
		`tasks state=RUNNING`: 3, `tasks state=LOST`: 1, `tasks state=KILLING`: 0, `kills_in_progress`: 1, `longest_kill_seconds`: 90,
		`oldest_unacknowledged_update_seconds`: 0, `agent_subscribed`: 1, `pods_current`: 0, `pod_watch_age_seconds`: 1.5,
		`update_sends_total outcome=invalid`: 0, `pod_deletions_total outcome=gone`: 0,
	}
	for key, value := range want {
		fields := strings.Fields(key)
		found := false
	samples:
		for _, sample := range m[prefix+fields[0]] {
			for _, l := range fields[1:] {
				name, v, _ := strings.Cut(l, "=")
				if string(sample.Metric[testutil.LabelName(name)]) != v {
					continue samples
				}
			}
			found = true
			if float64(sample.Value) != value {
				t.Errorf("%s is %v, want %v", key, sample.Value, value)
			}
		}
		if !found {
			t.Errorf("There is no %s", key)
		}
	}
	for _, d := range Docs() {
		samples := m[d.Name]
		if len(samples) == 0 {
			t.Errorf("%s is not served", d.Name)
			continue
		}
		for _, l := range d.Labels {
			if _, ok := samples[0].Metric[testutil.LabelName(l)]; !ok {
				t.Errorf("%s has no label %s", d.Name, l)
			}
		}
		if got := string(samples[0].Metric["executor"]); got != "e \"\\\n?" {
			t.Errorf("%s: the label executor is %q", d.Name, got)
		}
		if d.Type == "counter" != strings.HasSuffix(d.Name, "_total") || !strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s, a %s: %s", d.Name, d.Type, d.Help)
		}
	}
}

// sandbox makes a folder with a path that is longer than that of a socket may be, as an agent's are.
func sandbox(t *testing.T, work, executor string) string {
	t.Helper()
	id := "0fd8a1a5-6d7e-4f55-9a3f-6f6d1e2c3b4a"
	dir := filepath.Join(work, "slaves", id+"-S0", "frameworks", id+"-0000", "executors", executor, "runs", id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(filepath.Dir(dir), "latest")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start serves until the function that it returns is called.
func start(t *testing.T, dir string, ask func(context.Context) (*Snapshot, error)) (stop func()) {
	t.Helper()
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, dir, ask) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func of(id string) func(context.Context) (*Snapshot, error) {
	return func(context.Context) (*Snapshot, error) { return &Snapshot{Identity: Identity{ExecutorID: id}}, nil }
}

func TestSocket(t *testing.T) {
	dir := sandbox(t, t.TempDir(), "e1")
	path := filepath.Join(dir, SocketName)
	if len(path) < 108 {
		t.Fatalf("%s is too short for this test", path)
	}
	// What a process left behind that was killed.
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t.Context(), path); err == nil {
		t.Fatal("Nobody answers")
	}
	stop := start(t, dir, of("e1"))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := fs.ModeSocket | 0o600; info.Mode() != want {
		t.Errorf("The socket is %v, want %v", info.Mode(), want)
	}
	for range 2 {
		text, err := get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		parse(t, text)
	}
	stop()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("Left behind: %v, %v", entries, err)
	}
}

func TestWhatIsServed(t *testing.T) {
	dir := t.TempDir()
	start(t, dir, of("e1"))
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, SocketName))
	}}
	for request, want := range map[string]int{
		"GET /metrics": 200, "HEAD /metrics": 200, "POST /metrics": 405, "GET /": 404, "GET /metrics/x": 404, "GET /debug/pprof/": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "http://executor"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", request, resp.Status)
		}
		if ct := resp.Header.Get("Content-Type"); want == 200 && ct != contentType {
			t.Errorf("%s: content type %q", request, ct)
		}
	}
}

func TestListenInAFolderThatIsNone(t *testing.T) {
	if _, err := Listen(filepath.Join(t.TempDir(), "no")); err == nil {
		t.Error("No error")
	}
}

func TestCollect(t *testing.T) {
	work := t.TempDir()
	first, second, third := sandbox(t, work, "e1"), sandbox(t, work, "e2"), sandbox(t, work, "e3")
	start(t, first, of("e1"))
	start(t, second, of("e2"))
	l, err := Listen(third) // left behind
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()

	var out bytes.Buffer
	if err := Collect(t.Context(), &out, work); err != nil {
		t.Fatal(err)
	}
	m := parse(t, out.Bytes())
	for _, d := range Docs() {
		seen := map[string]bool{}
		for _, sample := range m[d.Name] {
			seen[string(sample.Metric["executor"])] = true
		}
		if len(seen) != 2 || !seen["e1"] || !seen["e2"] {
			t.Errorf("%s is of executors %v", d.Name, seen)
		}
		if n := strings.Count(out.String(), "# TYPE "+d.Name+" "); n != 1 {
			t.Errorf("%s: %d TYPE lines", d.Name, n)
		}
	}

	// One that does not answer spoils the others' metrics not.
	start(t, third, func(context.Context) (*Snapshot, error) { return nil, errors.New("busy") })
	out.Reset()
	err = Collect(t.Context(), &out, work)
	if err == nil || !strings.Contains(err.Error(), "busy") || !strings.Contains(err.Error(), third) {
		t.Errorf("Error %v", err)
	}
	if n := len(parse(t, out.Bytes())[prefix+"info"]); n != 2 {
		t.Errorf("Metrics of %d executors, want 2", n)
	}

	// A sandbox alone, and a folder without executors.
	for dir, want := range map[string]int{first: 1, t.TempDir(): 0} {
		out.Reset()
		if err := Collect(t.Context(), &out, dir); err != nil {
			t.Error(err)
		}
		if n := strings.Count(out.String(), "\n"+prefix+"info{"); n != want {
			t.Errorf("Metrics of %d executors, want %d", n, want)
		}
	}
}
