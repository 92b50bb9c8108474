// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A recording is one file of testdata/recordings: the first line describes the cluster, each further line is a step,
// in order of time. A step is a call with its answer, an event of a stream, or a note of what was done to a process.
// Names in ${} stand for values that differ from run to run.
type recording struct {
	ID          string   `json:"id"`
	Title       string   `json:"title"`
	MasterFlags []string `json:"masterFlags"`
	Agents      []struct {
		Name       string   `json:"name"`
		Resources  string   `json:"resources"`
		Attributes string   `json:"attributes"`
		Flags      []string `json:"flags"`
	} `json:"agents"`

	steps []step
}

type step struct {
	Ms   int    `json:"ms"`
	Who  string `json:"who"`
	Note string `json:"note"`
	Send *struct {
		Method  string            `json:"method"`
		Path    string            `json:"path"`
		To      string            `json:"to"`
		Headers map[string]string `json:"headers"`
		Call    any               `json:"call"`
		Body    *string           `json:"body"`
	} `json:"send"`
	Answer *struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
		Body    any               `json:"body"`
		Error   string            `json:"error"`
	} `json:"answer"`
	Event       map[string]any    `json:"event"`
	Record      map[string]any    `json:"record"`
	Environment map[string]string `json:"environment"`

	index int
	done  bool
}

func (s *step) String() string {
	what := s.Note
	switch {
	case s.Send != nil:
		call, _ := s.Send.Call.(map[string]any)
		what = fmt.Sprint("sends ", call["type"])
	case s.Event != nil:
		what = "gets " + summary(s.Event)
	case s.Record != nil:
		what = fmt.Sprint("gets a record ", s.Record["event_type"])
	}
	return fmt.Sprintf("%d (%d ms) %s %s", s.index, s.Ms, s.Who, what)
}

func loadRecordings(t testing.TB) []*recording {
	t.Helper()
	paths, err := filepath.Glob("testdata/recordings/*.jsonl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	sort.Strings(paths)
	out := make([]*recording, len(paths))
	for i, path := range paths {
		if out[i], err = loadRecording(path); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return out
}

func loadRecording(path string) (*recording, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := &recording{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for n := 0; lines.Scan(); n++ {
		if n == 0 {
			err = json.Unmarshal(lines.Bytes(), r)
		} else {
			s := step{index: n}
			err = json.Unmarshal(lines.Bytes(), &s)
			r.steps = append(r.steps, s)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	return r, lines.Err()
}

// A replay drives a cluster through the calls of a recording and compares what comes. Its clock moves only when
// nothing is under way, so a replay is exact, and fast.
type replay struct {
	rec      *recording
	cluster  *Cluster
	clock    *TestClock
	start    time.Time
	shift    time.Duration // by how much the replay is later than the recording
	b        binding
	actors   map[string]*actor
	failed   []string
	failedAt int               // the step of the first
	held     map[int]*heldCall // by step index
	try      int
	real     string        // host:port of a real master that is compared, or empty
	protobuf bool          // frameworks speak protobuf
	cycle    time.Duration // the allocator's

	mu       sync.Mutex
	pids     int
	puppets  []*puppet
	received uint64 // records that clients have taken
	open     int    // streams that clients hold open
}

// replayOnce runs one recording. It returns the differences, and the step of the first.
func replayOnce(t *testing.T, rec *recording, seed int64) ([]string, int) {
	t.Helper()
	return replayAs(t, rec, seed, false)
}

func replayAs(t *testing.T, rec *recording, seed int64, protobuf bool) ([]string, int) {
	t.Helper()
	for i := range rec.steps {
		rec.steps[i].done = false
	}
	r := &replay{rec: rec, try: int(seed), protobuf: protobuf, clock: NewTestClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), b: binding{}, actors: map[string]*actor{}, held: map[int]*heldCall{}}
	phase := r.phase()
	options, err := r.options()
	options.Timing.AllocationInterval = r.cycle
	if err != nil {
		return []string{err.Error()}, 0
	}
	options.WorkDir, options.Seed = t.TempDir(), seed
	cluster, err := Start(t.Context(), options)
	if err != nil {
		return []string{err.Error()}, 0
	}
	r.cluster = cluster
	defer func() {
		for _, a := range r.actors {
			a.hangUp()
		}
		cluster.Close()
	}()
	for i, a := range cluster.Agents() {
		r.b[fmt.Sprintf("${agent.%d}", i+1)] = a.ID
	}
	// The allocator's batches come at the same moments as in the recording.
	cycle := max(r.cycle, time.Second)
	r.clock.Advance(cycle - time.Duration(phase)*time.Millisecond)
	r.start = r.clock.Now()
	r.run()
	if len(r.failed) > 0 {
		r.failed = append(r.failed, r.transcripts())
	}
	return r.failed, r.failedAt
}

// transcripts is the difference between what was recorded and what came, for the actor of the first failure.
func (r *replay) transcripts() string {
	if r.failedAt == 0 {
		return ""
	}
	who := r.rec.steps[r.failedAt-1].Who
	a := r.actors[who]
	if a == nil {
		return ""
	}
	name := func(text string) string { // ids of the replay by their names in the recording
		for placeholder, id := range r.b {
			if len(id) > 3 {
				text = strings.ReplaceAll(text, id, placeholder)
			}
		}
		return text
	}
	var recorded, replayed []string
	for i := range r.rec.steps {
		if s := &r.rec.steps[i]; s.Who == who && s.Event != nil && s.Event["type"] != "HEARTBEAT" {
			recorded = append(recorded, fmt.Sprintf("%.1f s %s", float64(s.Ms)/1000, summary(s.Event)))
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.got {
		if g.event != nil && g.event["type"] != "HEARTBEAT" {
			replayed = append(replayed, fmt.Sprintf("%.1f s %s", float64(g.ms)/1000, name(summary(g.event))))
		}
	}
	return fmt.Sprintf("transcript of %s (-recorded +replayed):\n%s", who, cmp.Diff(recorded, replayed))
}

// options turns the flags of the recorded processes into options.
func (r *replay) options() (Options, error) {
	o := Options{Clock: r.clock}
	o.Timing.MasterDetection = 4 * time.Second // stand-alone masters: an agent notices by the lack of pings
	for _, flag := range r.rec.MasterFlags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		switch name {
		case "agent_ping_timeout":
			o.Timing.PingTimeout = mustMesosDuration(value)
		case "max_agent_ping_timeouts":
			o.Timing.MaxPingTimeouts, _ = strconv.Atoi(value)
		case "offer_timeout":
			o.Timing.OfferTimeout = mustMesosDuration(value)
		case "roles":
			o.Roles = strings.Split(value, ",")
		case "no-root_submissions":
			o.NoRootSubmissions = true
		case "authenticate_http_frameworks":
			o.Credentials = map[string]string{"p1": "s1", "p2": "s2"}
		case "domain":
			o.Region, o.Zone = faultDomain(value)
		case "http_framework_authenticators", "credentials", "registry", "quorum":
		default:
			return o, fmt.Errorf("unknown master flag %q", flag)
		}
	}
	launcher := puppetLauncher{r}
	for _, a := range r.rec.Agents {
		if r.startsLater(a.Name) {
			continue
		}
		if !strings.Contains(a.Resources, "disk:") { // found out by the recorded agent itself
			a.Resources += ";disk:252899"
		}
		if !strings.Contains(a.Resources, "ports:") {
			a.Resources += ";ports:[31000-32000]"
		}
		agent := AgentOptions{Name: a.Name, Resources: a.Resources, Attributes: a.Attributes, Launcher: launcher}
		for _, flag := range a.Flags {
			if value, ok := strings.CutPrefix(flag, "--domain="); ok {
				agent.Region, agent.Zone = faultDomain(value)
			}
			if value, ok := strings.CutPrefix(flag, "--executor_reregistration_timeout="); ok {
				agent.ExecutorReregister = mustMesosDuration(value)
			}
		}
		o.Agents = append(o.Agents, agent)
	}
	return o, nil
}

func (r *replay) startsLater(agent string) bool {
	for i := range r.rec.steps {
		if r.rec.steps[i].Note == agent+" started" {
			return true
		}
	}
	return false
}

func faultDomain(text string) (region, zone string) {
	var d struct {
		FaultDomain struct{ Region, Zone struct{ Name string } } `json:"fault_domain"`
	}
	_ = json.Unmarshal([]byte(text), &d)
	return d.FaultDomain.Region.Name, d.FaultDomain.Zone.Name
}

func mustMesosDuration(text string) time.Duration {
	for suffix, unit := range map[string]time.Duration{"secs": time.Second, "ms": time.Millisecond, "mins": time.Minute} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.ParseFloat(number, 64)
			if err == nil {
				return time.Duration(n * float64(unit))
			}
		}
	}
	panic("no duration: " + text)
}

// jitter are shifts of the batches that are tried one after the other, in milliseconds.
var jitter = []int{0, -8, 8, -16, 16, -30, 30, -50, 50}

// phase finds when, within a second, the recorded allocator made its batches: the offers that came long after
// anything that makes offers come at once. Without any it takes the middle.
func (r *replay) phase() int {
	var batches []int
	last := -1000 // when something made offers come at once; -1000 once they have come
	for i := range r.rec.steps {
		s := &r.rec.steps[i]
		if s.Send != nil {
			if call, ok := s.Send.Call.(map[string]any); ok {
				switch call["type"] {
				case "SUBSCRIBE", "REVIVE", "UPDATE_MAINTENANCE_SCHEDULE":
					last = s.Ms
				}
			}
		}
		if strings.Contains(s.Note, "again") || strings.Contains(s.Note, "continue") {
			last = s.Ms + 4000
		}
		if s.Event["type"] == "AGENT_ADDED" {
			last = s.Ms
		}
		if s.Event != nil && s.Event["type"] == "OFFERS" && s.Ms <= last+40 {
			last = -1000
		} else if s.Event != nil && s.Event["type"] == "OFFERS" && s.Ms > last+40 {
			last = -1000
			batches = append(batches, s.Ms-4) // it takes some milliseconds until a framework has its offers
		}
	}
	if len(batches) > 1 {
		r.interval(batches)
	}
	if len(batches) == 0 {
		return (r.rec.steps[len(r.rec.steps)-1].Ms + 50 + 137*(r.try-1)) % 1000
	}
	return (batches[0] + 2000 + jitter[(r.try-1)%len(jitter)]) % 1000
}

// interval finds how long the recorded allocator's cycle was: a second, and what its runs took.
func (r *replay) interval(batches []int) {
	first, last := batches[0], batches[len(batches)-1]
	if n := (last - first + 500) / 1000; n > 0 {
		if ms := float64(last-first) / float64(n); ms >= 1000 && ms < 1005 {
			r.cycle = time.Duration(ms * float64(time.Millisecond))
		}
	}
}

func (r *replay) fail(s *step, format string, args ...any) {
	if len(r.failed) == 0 {
		r.failedAt = s.index
	}
	if len(r.failed) < 20 {
		r.failed = append(r.failed, fmt.Sprintf("step %s: %s", s, fmt.Sprintf(format, args...)))
	}
}

// at is when a step is due in the replay's time.
func (r *replay) at(ms int) time.Time {
	return r.start.Add(time.Duration(ms)*time.Millisecond + r.shift)
}

// now is the replay's time in the recording's milliseconds.
func (r *replay) now() int {
	return int(r.time().Sub(r.start.Add(r.shift)) / time.Millisecond)
}

// run goes through the steps. An action waits for the events that came before it in the recording.
func (r *replay) run() {
	for i := range r.rec.steps {
		s := &r.rec.steps[i]
		if s.done || len(r.failed) > 0 && s.Send == nil && s.Note == "" {
			continue
		}
		if len(r.failed) > 5 {
			return
		}
		if r.crashes(s) {
			continue
		}
		switch {
		case s.Event != nil, s.Record != nil:
			r.expect(s)
		case s.Environment != nil:
			r.compareEnvironment(s)
		case s.Send != nil:
			r.advanceTo(r.at(s.Ms))
			r.act(s)
		case s.Note != "":
			r.note(s)
		}
		s.done = true
	}
	r.advanceTo(r.at(r.rec.steps[len(r.rec.steps)-1].Ms + 5))
	r.leftovers()
}

// settle waits until nothing is under way: every request is answered, every record has been read by its client.
func (r *replay) settle() {
	if r.real != "" {
		return
	}
	deadline := time.Now().Add(4 * time.Second)
	for quiet, looks := 0, 0; quiet < 2; looks++ {
		if r.quiet() {
			quiet++
		} else {
			quiet = 0
		}
		if looks < 50 {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond)
		}
		if time.Now().After(deadline) {
			r.failed = append(r.failed, "the cluster does not come to rest: "+r.unrest())
			return
		}
	}
}

func (r *replay) quiet() bool {
	r.mu.Lock()
	received, open := r.received, r.open
	r.mu.Unlock()
	b := &r.cluster.busy
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.handlers == 0 && b.pending == 0 && b.written == received && b.streams == open
}

func (r *replay) unrest() string {
	r.mu.Lock()
	received, open := r.received, r.open
	r.mu.Unlock()
	b := &r.cluster.busy
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("handlers %d, pending %d, written %d, received %d, streams %d, open %d", b.handlers, b.pending, b.written, received, b.streams, open)
}

// advanceTo moves the clock timer by timer, letting everything come to rest in between.
func (r *replay) advanceTo(t time.Time) { r.advanceUntil(t, func() bool { return false }) }

func (r *replay) advanceUntil(t time.Time, enough func() bool) bool {
	for r.real != "" {
		if enough() {
			return true
		}
		left := time.Until(t)
		if left <= 0 {
			return false
		}
		time.Sleep(min(left, 5*time.Millisecond))
	}
	for {
		r.settle()
		if enough() {
			return true
		}
		next, ok := r.clock.Next()
		if !ok || next.After(t) {
			if t.After(r.clock.Now()) {
				r.clock.AdvanceTo(t)
				r.settle()
			}
			return enough()
		}
		r.clock.AdvanceTo(next)
		if len(r.failed) > 5 {
			return false
		}
	}
}
