// SPDX-License-Identifier: Apache-2.0

// Package simprocess runs bin/mesos-sim, for measurements that its work must not be a part of.
package simprocess

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// Process is a running mesos-sim.
type Process struct {
	// Master and Control are the addresses of the master and of the control endpoint, host:port.
	Master, Control string
	cmd             *exec.Cmd
	client          http.Client
}

// Start starts a simulator with synthetic agents, beside the arguments that it is given, and returns when it is ready.
func Start(binary string, arguments ...string) (*Process, error) {
	p := &Process{client: http.Client{Transport: &http.Transport{}}}
	p.cmd = exec.Command(binary, append([]string{"--listen=127.0.0.1:0", "--control=127.0.0.1:0", "--synthetic"}, arguments...)...)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w (run make build)", err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "master":
			p.Master = value
		case "control":
			p.Control = value
		case "agents":
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return p, nil
		}
	}
	p.Stop()
	return nil, fmt.Errorf("mesos-sim ended before it was ready: %w", lines.Err())
}

// Stop ends the simulator and waits for that.
func (p *Process) Stop() {
	p.client.CloseIdleConnections()
	_ = p.cmd.Process.Signal(os.Interrupt)
	_ = p.cmd.Wait()
}

// CPU returns the CPU time that the simulator has used, to 10 ms; 0 if the system does not tell.
func (p *Process) CPU() time.Duration { return CPU(p.cmd.Process.Pid) }

// CPU returns the CPU time that a process has used.
func CPU(pid int) time.Duration {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every platform of Linux
	return time.Duration(user+system) * tick
}

// Counters returns what the simulator has counted since its start.
func (p *Process) Counters(ctx context.Context) (c mesossim.Counters, err error) {
	return c, p.get(ctx, "/counters", &c)
}

// State reads the simulator's state; see mesossim.Cluster.ServeControl.
func (p *Process) State(ctx context.Context, into any) error { return p.get(ctx, "/state", into) }

// Do has the simulator do an action of its control endpoint.
func (p *Process) Do(ctx context.Context, action map[string]string) error {
	body, err := json.Marshal(action)
	if err != nil {
		return err
	}
	return p.ask(ctx, http.MethodPost, "/fault", body, nil)
}

func (p *Process) get(ctx context.Context, path string, into any) error {
	return p.ask(ctx, http.MethodGet, path, nil, into)
}

func (p *Process) ask(ctx context.Context, method, path string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+p.Control+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("mesos-sim, %s %s %s: %s: %s", method, path, body, response.Status, text)
	}
	if into != nil {
		return json.NewDecoder(response.Body).Decode(into)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
