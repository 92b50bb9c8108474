// SPDX-License-Identifier: Apache-2.0

package throughput

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

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
)

// simulator is a running bin/mesos-sim.
type simulator struct {
	cmd             *exec.Cmd
	master, control string
}

// startSimulator starts a master without agents.
func startSimulator() (*simulator, error) {
	s := &simulator{cmd: exec.Command("../../../bin/mesos-sim", "--listen=127.0.0.1:0", "--control=127.0.0.1:0", "--synthetic")}
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w (run make build)", err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "master":
			s.master = value
		case "control":
			s.control = value
		case "agents":
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return s, nil
		}
	}
	s.stop()
	return nil, fmt.Errorf("mesos-sim ended before it was ready: %w", lines.Err())
}

func (s *simulator) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.cmd.Wait()
}

// addAgents gives each node that can take pods an agent that gives away what pods may use of the node.
func (s *simulator) addAgents(ctx context.Context, nodes []v1.Node) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range nodes {
		node := &nodes[i]
		if node.Status.Allocatable.Pods().IsZero() {
			continue
		}
		group.Go(func() error {
			text := fmt.Sprintf("cpus:%g;mem:%d;ports:[20000-21000]", node.Status.Allocatable.Cpu().AsApproximateFloat64(), node.Status.Allocatable.Memory().Value()>>20)
			body, err := json.Marshal(map[string]string{"action": "add-agent", "agent": node.Name, "resources": text})
			if err != nil {
				return err
			}
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.control+"/fault", bytes.NewReader(body))
			if err != nil {
				return err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				text, _ := io.ReadAll(response.Body)
				return fmt.Errorf("add agent %s: %s: %s", node.Name, response.Status, text)
			}
			_, err = io.Copy(io.Discard, response.Body)
			return err
		})
	}
	err := group.Wait()
	http.DefaultClient.CloseIdleConnections()
	return err
}

// simulatorState is what is read of the simulator's state.
type simulatorState struct {
	Tasks []struct {
		Name    string
		History []struct {
			At    time.Time
			State json.RawMessage
		}
	}
	Counters struct {
		Calls       map[string]int
		Allocations int
	}
}

func (s *simulator) state() (*simulatorState, error) {
	response, err := http.Get("http://" + s.control + "/state")
	if err != nil {
		return nil, err
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer response.Body.Close()
	state := &simulatorState{}
	return state, json.NewDecoder(response.Body).Decode(state)
}

// running returns when each task whose pod is in a namespace began to run.
func (s *simulatorState) running(namespace string) []time.Time {
	var out []time.Time
	for _, t := range s.Tasks {
		if !strings.HasPrefix(t.Name, namespace+"/") {
			continue
		}
		for _, h := range t.History {
			if state := strings.Trim(string(h.State), `"`); state == "TASK_RUNNING" || state == "1" {
				out = append(out, h.At)
				break
			}
		}
	}
	return out
}

// cpu returns the CPU time that a process has used.
func cpu(pid int) time.Duration {
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
