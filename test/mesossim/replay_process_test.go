// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// A puppetLauncher starts executors that are nothing but a record: the replay speaks for them.
type puppetLauncher struct {
	r *replay
}

// A puppet is an executor process of a replay.
type puppet struct {
	r      *replay
	launch Launch
	pid    int
	actor  string // who speaks for it

	mu     sync.Mutex
	ended  bool
	killed bool
	status int
	done   chan struct{}
}

func (l puppetLauncher) Launch(_ context.Context, launch Launch) (Process, error) {
	r := l.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pids++
	p := &puppet{r: r, launch: launch, pid: 100000 + r.pids, done: make(chan struct{})}
	if launch.Builtin {
		after, status, err := shellScript(strings.TrimPrefix(launch.Info.Command.GetValue(), "exec "))
		if err != nil {
			return nil, err
		}
		if after >= 0 {
			r.clock.AfterFunc(after+150*time.Millisecond, func() { p.exit(status) }) // the shell starts and ends, and that is noticed
		}
		return p, nil
	}
	if value := launch.Info.Command.GetValue(); strings.Contains(value, "no-such") || strings.HasPrefix(value, "/nonexistent") {
		p.ended, p.status = true, 127<<8
		close(p.done)
		r.cluster.busy.enter()
		return p, nil
	}
	r.puppets = append(r.puppets, p)
	if after, status, err := shellScript(strings.TrimPrefix(launch.Info.Command.GetValue(), "exec ")); err == nil {
		r.clock.AfterFunc(after, func() { p.exit(status) }) // no executor at all
	} else if !r.hasExecutors() {
		r.clock.AfterFunc(100*time.Millisecond, func() { p.run() })
	}
	return p, nil
}

func (p *puppet) Pid() int { return p.pid }

func (p *puppet) Wait() int {
	<-p.done
	return p.status
}

// Kill is SIGKILL.
func (p *puppet) Kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	p.exit(9)
}

// Terminate is SIGTERM: the shells of the recordings die of it.
func (p *puppet) Terminate() {
	p.r.clock.AfterFunc(50*time.Millisecond, func() { p.exit(15) })
}

func (p *puppet) exit(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended, p.status = true, status
	if p.r.cluster != nil {
		p.r.cluster.busy.enter() // until the cluster has noticed
	}
	close(p.done)
}

func (p *puppet) reaped() { p.r.cluster.busy.leave() }

func (p *puppet) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ended
}

func (p *puppet) environment() map[string]string {
	out := map[string]string{}
	for _, entry := range p.launch.Environment {
		k, v, _ := strings.Cut(entry, "=")
		out[k] = v
	}
	return out
}

var shellPart = regexp.MustCompile(`^(sleep|exit) ([0-9.]+)$`)

// shellScript reads the commands of the recordings' command tasks: "sleep 1", "exit 3", "sleep 1; exit 3".
func shellScript(text string) (after time.Duration, status int, err error) {
	for _, part := range strings.Split(text, ";") {
		part = strings.TrimSpace(part)
		if part == "true" {
			continue
		}
		groups := shellPart.FindStringSubmatch(part)
		if groups == nil {
			return 0, 0, fmt.Errorf("no puppet for the command %q", text)
		}
		n, err := strconv.ParseFloat(groups[2], 64)
		if err != nil {
			return 0, 0, errors.New(text)
		}
		if groups[1] == "exit" {
			return after, int(n) << 8, nil
		}
		after += time.Duration(n * float64(time.Second))
	}
	return after, 0, nil
}

// hasExecutors says whether the recording speaks for its executors. One does not although they speak.
func (r *replay) hasExecutors() bool {
	speak := false
	for i := range r.rec.steps {
		if strings.HasPrefix(r.rec.steps[i].Who, "X") {
			return true
		}
		if update, ok := r.rec.steps[i].Event["update"].(obj); ok {
			speak = speak || update["status"].(obj)["source"] == "SOURCE_EXECUTOR"
		}
	}
	return !speak
}

// run makes a puppet speak for itself: it subscribes and says that its tasks run.
func (p *puppet) run() {
	a := p.r.actor("auto-" + p.launch.ContainerID)
	env := p.environment()
	ids := obj{"framework_id": id(env["MESOS_FRAMEWORK_ID"]), "executor_id": id(env["MESOS_EXECUTOR_ID"])}
	send := func(more obj) *http.Response {
		call := maps.Clone(ids)
		maps.Copy(call, more)
		request, err := http.NewRequest(http.MethodPost, "http://"+env["MESOS_AGENT_ENDPOINT"]+"/api/v1/executor", bytes.NewReader(mustJSON(call)))
		if err != nil {
			return nil
		}
		request.Header.Set("Content-Type", mediaJSON)
		response, err := a.client.Do(request)
		if err != nil {
			return nil
		}
		return response
	}
	response := send(obj{"type": "SUBSCRIBE", "subscribe": obj{}})
	if response == nil || response.StatusCode != http.StatusOK {
		return
	}
	a.listen(response, func() { _ = response.Body.Close() })
	p.r.settle()
	for _, g := range a.got {
		if g.event["type"] != "LAUNCH" {
			continue
		}
		fresh := uuid.New()
		task := g.event["launch"].(obj)["task"].(obj)["task_id"]
		if r := send(obj{"type": "UPDATE", "update": obj{"status": obj{"task_id": task, "state": "TASK_RUNNING", "source": "SOURCE_EXECUTOR", "executor_id": ids["executor_id"],
			"uuid": base64.StdEncoding.EncodeToString(fresh[:])}}}); r != nil {
			_ = r.Body.Close()
		}
	}
}
