// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
)

const (
	// window is how far apart two records may be for their order to be an accident of the recording.
	window = 120
	// lateness is how much later than recorded an event may come, in milliseconds, plus 3 % of the recorded wait.
	lateness = 300
	// earlinessOffers and earlinessOther are how much earlier. The recorded processes needed time to start and end.
	earlinessOffers, earlinessOther = 300, 600
)

// expect waits for an event and compares it.
func (r *replay) expect(s *step) {
	a := r.actor(s.Who)
	if s.Event != nil && s.Event["type"] == "HEARTBEAT" && s.Who != "S1" {
		return
	}
	r.missingCause(s, a)
	var near string
	find := func() bool {
		near = r.match(s, a)
		return near == ""
	}
	late := lateness + s.Ms*3/100
	if r.real != "" {
		late += realTolerance
	}
	if !r.advanceUntil(r.at(s.Ms+100), find) && !r.causeComesLater(s) {
		r.advanceUntil(r.at(s.Ms+late), find)
	} else if near != "" {
		r.advanceUntil(r.at(s.Ms+late), find)
	}
	if near != "" {
		r.fail(s, "did not come by %d ms%s\n    came: %s", r.now(), near, strings.Join(a.untaken(), "\n          "))
	}
}

// causeComesLater does a process note that stands a moment after its own effect: it was written when the deed was done.
func (r *replay) causeComesLater(s *step) bool {
	for i := s.index; i < len(r.rec.steps); i++ {
		next := &r.rec.steps[i]
		if next.Ms > s.Ms+window {
			return false
		}
		if next.Note != "" && next.Send == nil && !next.done && !strings.Contains(next.Note, "EOF") {
			r.note(next)
			next.done = true
			return true
		}
		if next.Send != nil {
			return false
		}
	}
	return false
}

// match looks for the event among those that came and were not taken yet. It returns "" if it is there.
func (r *replay) match(s *step, a *actor) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	near := ""
	for i := range a.got {
		g := &a.got[i]
		if g.taken {
			continue
		}
		if s.Event != nil && g.event["type"] == "HEARTBEAT" && s.Event["type"] != "HEARTBEAT" {
			continue
		}
		trial := maps.Clone(r.b)
		text := ""
		if s.Record != nil {
			text = compareRecord(s.Record, g.raw, trial)
		} else {
			text = mismatch(s.Event, g.event, trial)
		}
		if text != "" {
			if near == "" && g.event["type"] == s.Event["type"] {
				near = "\n    the nearest differs at " + text
			}
			// What came first must be taken first, unless the recording has it within the window.
			if !r.expectedSoon(s, a, g) {
				break
			}
			continue
		}
		g.taken = true
		r.b = trial
		r.timing(s, g)
		return ""
	}
	if near == "" {
		near = " "
	}
	return near
}

// expectedSoon says whether an event that came before its turn is recorded within the window after s.
func (r *replay) expectedSoon(s *step, a *actor, g *arrival) bool {
	if s.Ms+window > r.rec.steps[len(r.rec.steps)-1].Ms && g.event["type"] == s.Event["type"] {
		return true // the recording was ended amid these
	}
	for i := s.index; i < len(r.rec.steps); i++ {
		next := &r.rec.steps[i]
		if next.Ms > s.Ms+window {
			return false
		}
		if next.Who == s.Who && next.Event != nil && !next.done && mismatch(next.Event, g.event, maps.Clone(r.b)) == "" {
			return true
		}
	}
	return false
}

// timing compares when an event came.
func (r *replay) timing(s *step, g *arrival) {
	ms := g.ms - int(r.shift/time.Millisecond)
	early, late := earlinessOther, lateness
	if s.Event["type"] == "OFFERS" || s.Event["type"] == "INVERSE_OFFERS" {
		early = earlinessOffers
	}
	if r.real != "" {
		early, late = realTolerance, realTolerance
		r.shift += max(0, time.Duration(ms-s.Ms)*time.Millisecond)
	}
	early += s.Ms * 3 / 100
	if since := r.lastStart(s); since >= 0 && s.Ms-since < 5000 {
		early = max(early, 1200) // a restarted process: random back-off
	}
	switch {
	case ms > s.Ms+late+s.Ms*3/100:
		r.fail(s, "came at %d ms, which is too late", ms)
	case ms < s.Ms-early:
		r.fail(s, "came at %d ms, which is too early", ms)
	}
}

// lastStart is when a process was last started before the step.
func (r *replay) lastStart(s *step) int {
	for i := s.index - 2; i >= 0; i-- {
		if n := r.rec.steps[i].Note; strings.Contains(n, "started again") || strings.Contains(n, "continue") || strings.HasSuffix(n, " started") {
			return r.rec.steps[i].Ms
		}
	}
	return -1
}

func (a *actor) untaken() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, g := range a.got {
		if !g.taken && g.event["type"] != "HEARTBEAT" {
			out = append(out, fmt.Sprintf("%d ms %s", g.ms, summary(g.event)))
		}
	}
	if len(out) == 0 {
		out = append(out, "nothing else")
	}
	return out
}

// leftovers reports what came and is not recorded, and streams that did not end as recorded.
func (r *replay) leftovers() {
	if len(r.failed) > 0 {
		return
	}
	end := r.rec.steps[len(r.rec.steps)-1].Ms
	for name, a := range r.actors {
		a.mu.Lock()
		for _, g := range a.got {
			if g.taken || g.event["type"] == "HEARTBEAT" || g.event == nil || strings.HasPrefix(name, "auto-") {
				continue
			}
			if ms := g.ms - int(r.shift/time.Millisecond); ms < end-window && !r.hungUp(name, ms) {
				r.failed = append(r.failed, fmt.Sprintf("%s got at %d ms what is not recorded: %s", name, ms, short(g.event)))
			}
		}
		a.mu.Unlock()
	}
	for i := range r.rec.steps {
		s := &r.rec.steps[i]
		if !strings.Contains(s.Note, "stream ended (EOF)") || i < len(r.rec.steps)-1 && r.resubscribes(s) {
			continue
		}
		a := r.actor(s.Who)
		a.mu.Lock()
		if !a.ended {
			r.failed = append(r.failed, fmt.Sprintf("step %s: the stream is open", s))
		}
		a.mu.Unlock()
	}
}

// hungUp says that the recorded client read no more by then.
func (r *replay) hungUp(who string, ms int) bool {
	for i := range r.rec.steps {
		if s := &r.rec.steps[i]; s.Who == who && (strings.Contains(s.Note, "EOF") || strings.Contains(s.Note, "exits") || strings.Contains(s.Note, "closes")) && s.Ms <= ms+window {
			return true
		}
	}
	return false
}

func (r *replay) resubscribes(s *step) bool {
	for i := s.index; i < len(r.rec.steps); i++ {
		if next := &r.rec.steps[i]; next.Who == s.Who && next.Send != nil {
			return true
		}
	}
	return false
}

func (r *replay) compareEnvironment(s *step) {
	a := r.actor(s.Who)
	if a.puppet == nil {
		r.fail(s, "there is no process")
		return
	}
	want, have := map[string]any{}, map[string]any{}
	for k, v := range s.Environment {
		want[k] = v
	}
	for k, v := range a.puppet.environment() {
		have[k] = v
	}
	if text := mismatch(want, have, r.b); text != "" {
		r.fail(s, "environment %s", text)
	}
}

var (
	agentNote    = regexp.MustCompile(`^(agent-\d)(?: process)? (.*)$`)
	executorNote = regexp.MustCompile(`^executor (x\d) (stopped|continues)`)
	exitCode     = regexp.MustCompile(`exits with code (\d+)`)
	childNote    = regexp.MustCompile(`^process (X\d+) \(child`)
)

// note does what was done to a process.
func (r *replay) note(s *step) {
	n := s.Note
	switch {
	case strings.Contains(n, "master process: aborted"):
		return // a real master's crash is not played
	case strings.Contains(n, "stream ended (EOF)"):
		r.streamEnds(s)
		return
	case strings.Contains(n, "executor process is gone (SIGKILL"):
		r.advanceTo(r.at(s.Ms))
		if p := r.actor(s.Who).puppet; p == nil || p.alive() {
			r.fail(s, "the process lives")
		}
		return
	}
	r.advanceTo(r.at(s.Ms))
	switch {
	case strings.Contains(n, "closes its event stream"), strings.Contains(n, "breaks its stream"):
		r.actor(s.Who).hangUp()
	case strings.Contains(n, "holds back its last byte"):
		r.hold(s)
	case strings.HasPrefix(n, "executor exits"), strings.HasPrefix(n, "executor process"):
		if strings.Contains(n, "stream lost") {
			r.causeComesLater(s)
		}
		r.exit(s)
	case childNote.MatchString(n):
		r.actor(childNote.FindStringSubmatch(n)[1]).hangUp()
	case executorNote.MatchString(n):
		// The recorded executor was only kept from talking; so is a puppet that is not told to talk.
	case strings.HasPrefix(n, "master (registry in memory) killed"):
		r.cluster.StopMaster()
	case strings.HasPrefix(n, "master started again, it knows nothing"):
		if err := r.cluster.StartMaster(true); err != nil {
			r.fail(s, "%v", err)
		}
	case strings.HasPrefix(n, "master killed with SIGKILL, started again"):
		r.failOver(s)
	case strings.HasPrefix(n, "agent-2 and the master killed"):
		r.cluster.Agent("agent-2").Kill()
		r.failOver(s)
	default:
		r.agentNote(s, strings.TrimPrefix(n, "A4: "))
	}
	r.settle()
}

// streamEnds waits for the end of a framework's stream. Where the recording leaves out why it ended, that was a TEARDOWN
// (or, before anything else could follow, the client itself).
func (r *replay) streamEnds(s *step) {
	if !strings.HasPrefix(s.Who, "F") || r.rec.ID == "C25" || r.rec.ID == "E15" {
		return // others are looked at in the end
	}
	for i := s.index; i < len(r.rec.steps) && r.rec.steps[i].Ms <= s.Ms+window; i++ {
		if n := r.rec.steps[i].Note; strings.Contains(n, "killed") && r.rec.steps[i].Send == nil {
			return // its cause is written down a moment later
		}
	}
	a := r.actor(s.Who)
	ended := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.ended || a.hang == nil
	}
	if r.advanceUntil(r.at(s.Ms+20), ended) || r.causeComesLater(s) && r.advanceUntil(r.at(s.Ms+lateness), ended) {
		return
	}
	if status, text := r.tearDown(a); status != 202 {
		r.fail(s, "TEARDOWN: %d %s", status, text)
	}
	if !r.advanceUntil(r.at(s.Ms+lateness), ended) {
		r.fail(s, "the stream is open")
	}
}

// tearDown ends the framework that the actor is subscribed as.
func (r *replay) tearDown(a *actor) (int, string) {
	framework := ""
	a.mu.Lock()
	for _, g := range a.got {
		if subscribed, ok := g.event["subscribed"].(obj); ok {
			framework = value(subscribed["framework_id"])
		}
	}
	stream := a.stream
	a.mu.Unlock()
	return post(r.master(), "/api/v1/scheduler", stream, obj{"type": "TEARDOWN", "framework_id": id(framework)})
}

func (r *replay) failOver(s *step) {
	if err := r.cluster.FailOver(FailOverOptions{Down: 40 * time.Millisecond, Starting: 25 * time.Millisecond, Recovery: 30 * time.Millisecond}); err != nil {
		r.fail(s, "%v", err)
	}
}

func (r *replay) agentNote(s *step, n string) {
	groups := agentNote.FindStringSubmatch(n)
	if groups == nil {
		r.fail(s, "a note that the replayer does not know")
		return
	}
	name, what := groups[1], groups[2]
	h := r.cluster.Agent(name)
	var err error
	switch {
	case what == "started":
		for i, a := range r.rec.Agents {
			if a.Name == name {
				r.clock.AfterFunc(r.untilAgentAdded(s), func() { // the process takes its time
					h, err := r.cluster.AddAgent(AgentOptions{Name: name, Resources: a.Resources, Attributes: a.Attributes, Launcher: puppetLauncher{r}})
					if err != nil {
						r.fail(s, "%v", err)
						return
					}
					r.b[fmt.Sprintf("${agent.%d}", i+1)] = h.ID()
				})
			}
		}
	case strings.Contains(what, "empty work_dir"):
		err = h.Replace()
	case strings.HasPrefix(what, "killed with SIGKILL") && !strings.Contains(what, "started again"):
		h.Kill()
	case strings.Contains(what, "SIGUSR1"):
		h.Unregister()
	case strings.Contains(what, "SIGSTOP"):
		h.Stop()
	case strings.HasPrefix(what, "continues"):
		h.Continue()
	case strings.Contains(what, "started again"):
		err = h.Restart()
	default:
		err = fmt.Errorf("a note that the replayer does not know")
	}
	if err != nil {
		r.fail(s, "%v", err)
	}
}

func (r *replay) untilAgentAdded(s *step) time.Duration {
	for i := s.index; i < len(r.rec.steps); i++ {
		if r.rec.steps[i].Event["type"] == "AGENT_ADDED" {
			return time.Duration(r.rec.steps[i].Ms-s.Ms-3) * time.Millisecond
		}
	}
	return 0
}

// exit ends an executor's process as the recorded one ended: with the status that the next FAILURE tells.
func (r *replay) exit(s *step) {
	a := r.actor(s.Who)
	if a.puppet == nil {
		r.fail(s, "there is no process")
		return
	}
	status, delay := 0, time.Duration(0)
	if groups := exitCode.FindStringSubmatch(s.Note); groups != nil {
		code, _ := strconv.Atoi(groups[1])
		status = code << 8
	}
	if strings.Contains(s.Note, "signal 9") {
		status = int(syscall.SIGKILL)
	}
	for i := s.index; i < len(r.rec.steps); i++ {
		failure, ok := r.rec.steps[i].Event["failure"].(map[string]any)
		if ok && failure["executor_id"] != nil && value(failure["executor_id"]) == a.puppet.launch.ExecutorID && r.rec.steps[i].Ms < s.Ms+3000 {
			if recorded, ok := failure["status"].(float64); ok && recorded >= 0 {
				status = int(recorded)
				delay = time.Duration(r.rec.steps[i].Ms-s.Ms-1) * time.Millisecond
			}
			break
		}
	}
	p := a.puppet
	a.hangUp()
	r.settle()
	if delay > 0 {
		r.clock.AfterFunc(delay, func() { p.exit(status) })
		return
	}
	p.exit(status)
}

// missingCause makes the call of a framework that the recording leaves out: it has the event that the call led to only.
func (r *replay) missingCause(s *step, a *actor) {
	if update, ok := s.Event["update"].(obj); ok && strings.HasPrefix(s.Who, "F") {
		r.missingUpdate(s, update["status"].(obj))
		return
	}
	if !strings.HasPrefix(s.Who, "X") || s.Event == nil || a.puppet == nil {
		return
	}
	var call map[string]any
	switch s.Event["type"] {
	case "MESSAGE":
		data := s.Event["message"].(map[string]any)["data"]
		for i := range r.rec.steps[:s.index] {
			if c, ok := r.rec.steps[i].call(); ok && c["type"] == "MESSAGE" {
				if m, ok := c["message"].(map[string]any); ok && m["data"] == data {
					return
				}
			}
		}
		call = obj{"type": "MESSAGE", "message": obj{"agent_id": id(a.puppet.environment()["MESOS_SLAVE_ID"]), "executor_id": id(a.puppet.launch.ExecutorID), "data": data}}
	case "SHUTDOWN":
		for i := range r.rec.steps[:s.index] {
			n := r.rec.steps[i].Note
			if c, ok := r.rec.steps[i].call(); ok && strings.HasSuffix(c["type"].(string), "DOWN") || strings.Contains(n, "closes") || strings.Contains(n, "SIGUSR1") || strings.Contains(n, "unregisters") {
				return
			}
			if c, ok := r.rec.steps[i].call(); ok && slices.Contains([]string{"MARK_AGENT_GONE", "START_MAINTENANCE", "KILL", "DRAIN_AGENT"}, c["type"].(string)) {
				return
			}
		}
		call = obj{"type": "TEARDOWN"}
	default:
		return
	}
	r.advanceTo(r.at(s.Ms - 2))
	call["framework_id"] = id(a.puppet.launch.FrameworkID)
	stream := ""
	for _, f := range r.cluster.Frameworks() {
		if f.ID == a.puppet.launch.FrameworkID {
			stream = f.StreamID
		}
	}
	if status, text := post(r.cluster.URL(), "/api/v1/scheduler", stream, call); status != 202 {
		r.fail(s, "the call that leads to it: %d %s", status, text)
	}
}

// missingUpdate makes the executor's call of which the recording has only the framework's event.
func (r *replay) missingUpdate(s *step, status obj) {
	name, _ := status["uuid"].(string)
	if status["source"] != "SOURCE_EXECUTOR" || r.b[name] != "" || status["executor_id"] == nil {
		return
	}
	for i := range r.rec.steps {
		if call, ok := r.rec.steps[i].call(); ok && strings.HasPrefix(r.rec.steps[i].Who, "X") && strings.Contains(short(call["update"]), name) {
			return
		}
	}
	for who, a := range r.actors {
		if strings.HasPrefix(who, "X") && a.puppet != nil && a.puppet.alive() && a.puppet.launch.ExecutorID == value(status["executor_id"]) {
			r.advanceTo(r.at(s.Ms - 2))
			fresh := uuid.New()
			r.b[name] = base64.StdEncoding.EncodeToString(fresh[:])
			call := obj{"type": "UPDATE", "framework_id": id(a.puppet.launch.FrameworkID), "executor_id": status["executor_id"], "update": obj{"status": obj{
				"task_id": status["task_id"], "state": status["state"], "source": "SOURCE_EXECUTOR", "executor_id": status["executor_id"], "uuid": r.b[name]}}}
			if code, text := post(a.puppet.environment()["MESOS_AGENT_ENDPOINT"], "/api/v1/executor", "", call); code != 202 {
				r.fail(s, "the executor's update: %d %s", code, text)
			}
			return
		}
	}
}

func (s *step) call() (map[string]any, bool) {
	if s.Send == nil {
		return nil, false
	}
	c, ok := s.Send.Call.(map[string]any)
	if ok {
		_, ok = c["type"].(string)
	}
	return c, ok
}

// crashes handles the steps of the two recordings in which the real master crashes: the simulator refuses or ignores
// what made it crash, and what followed from it is left out.
func (r *replay) crashes(s *step) bool {
	switch {
	case r.rec.ID == "C25" && s.Answer != nil && s.Answer.Error != "":
		a := r.actor(s.Who)
		request, cancel := r.request(s, a, r.address(s, a))
		defer cancel()
		response, err := a.client.Do(request)
		if err != nil {
			r.fail(s, "%v", err)
			return true
		}
		_ = response.Body.Close()
		if response.StatusCode/100 == 2 {
			r.fail(s, "%s: a call of type UNKNOWN must be refused", response.Status)
		}
		return true
	case r.rec.ID == "C25" && strings.Contains(s.Note, "EOF"):
		return true
	case r.rec.ID == "E15" && s.Event != nil:
		update, ok := s.Event["update"].(map[string]any)
		return ok && update["status"].(map[string]any)["state"] == "TASK_UNREACHABLE"
	case r.rec.ID == "E15":
		if c, ok := s.call(); ok && c["type"] == "ACKNOWLEDGE" {
			unbound := map[string]bool{}
			r.b.substitute(c, unbound)
			return len(unbound) > 0
		}
	}
	return false
}

// compareRecord compares a protobuf record by its field numbers.
func compareRecord(want map[string]any, raw []byte, b binding) string {
	if raw == nil {
		return "no protobuf record"
	}
	fields, ok := want["fields_by_number"].([]any)
	if !ok {
		return ""
	}
	return compareFields(fields, raw, b, "")
}
