// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

// controlRequest is the body of POST /fault: an action and its arguments.
type controlRequest struct {
	// Action is one of the names in controlActions.
	Action string `json:"action"`

	Agent     string  `json:"agent,omitempty"`
	Executor  string  `json:"executor,omitempty"`
	Framework string  `json:"framework,omitempty"`
	Offer     string  `json:"offer,omitempty"`
	Call      string  `json:"call,omitempty"`
	Resources string  `json:"resources,omitempty"`
	Attrs     string  `json:"attributes,omitempty"`
	Role      string  `json:"role,omitempty"`
	Bytes     int64   `json:"bytes,omitempty"`
	Times     int     `json:"times,omitempty"`
	Signal    int     `json:"signal,omitempty"`
	Seconds   float64 `json:"seconds,omitempty"`
	Vacancy   float64 `json:"vacancySeconds,omitempty"`
	Recovery  float64 `json:"recoverySeconds,omitempty"`
	To        *int    `json:"to,omitempty"`
	Wipe      bool    `json:"wipeRegistry,omitempty"`
	KeepOld   bool    `json:"keepOld,omitempty"`
	On        *bool   `json:"on,omitempty"`
	What      string  `json:"what,omitempty"` // loseCall, loseAnswer, delay; lose, double, delay
}

func duration(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// controlActions are all actions of the control endpoint.
var controlActions = map[string]func(*Cluster, *controlRequest) error{
	"kill-agent":     onAgent(func(h *AgentHandle, _ *controlRequest) error { h.Kill(); return nil }),
	"restart-agent":  onAgent(func(h *AgentHandle, _ *controlRequest) error { return h.Restart() }),
	"replace-agent":  onAgent(func(h *AgentHandle, _ *controlRequest) error { return h.Replace() }),
	"stop-agent":     onAgent(func(h *AgentHandle, _ *controlRequest) error { h.Stop(); return nil }),
	"continue-agent": onAgent(func(h *AgentHandle, _ *controlRequest) error { h.Continue(); return nil }),
	"cut-agent":      onAgent(func(h *AgentHandle, _ *controlRequest) error { h.Cut(); return nil }),
	"heal-agent":     onAgent(func(h *AgentHandle, _ *controlRequest) error { h.Heal(); return nil }),
	"disconnect-agent": onAgent(func(h *AgentHandle, _ *controlRequest) error {
		h.Disconnect()
		return nil
	}),
	"unregister-agent": onAgent(func(h *AgentHandle, _ *controlRequest) error { h.Unregister(); return nil }),
	"delay-agent":      onAgent(func(h *AgentHandle, r *controlRequest) error { h.SetDelay(duration(r.Seconds)); return nil }),
	"drop-executor-streams": onAgent(func(h *AgentHandle, _ *controlRequest) error {
		h.DropExecutorStreams()
		return nil
	}),
	"kill-executor": onAgent(func(h *AgentHandle, r *controlRequest) error {
		return found(h.KillExecutor(r.Executor) || h.ExitExecutor(r.Executor, 9), "executor", r.Executor)
	}),
	"signal-executor": onAgent(func(h *AgentHandle, r *controlRequest) error {
		return found(h.SignalExecutor(r.Executor, syscall.Signal(r.Signal)), "executor", r.Executor)
	}),
	"lose-launches": onAgent(func(h *AgentHandle, r *controlRequest) error {
		h.c.Faults().LoseLaunches(h.Name(), max(r.Times, 1))
		return nil
	}),
	"add-agent": func(c *Cluster, r *controlRequest) error {
		_, err := c.AddAgent(AgentOptions{Name: r.Agent, Resources: r.Resources, Attributes: r.Attrs})
		return err
	},
	"fail-over": func(c *Cluster, r *controlRequest) error {
		return c.FailOver(FailOverOptions{To: r.To, WipeRegistry: r.Wipe, KeepOld: r.KeepOld, Vacancy: duration(r.Vacancy), Recovery: duration(r.Recovery)})
	},
	"stop-master":  func(c *Cluster, _ *controlRequest) error { c.StopMaster(); return nil },
	"start-master": func(c *Cluster, r *controlRequest) error { return c.StartMaster(r.Wipe) },
	"cut-stream":   func(c *Cluster, r *controlRequest) error { c.Faults().CutStream(r.Framework, r.Bytes); return nil },
	"cut-next-stream": func(c *Cluster, r *controlRequest) error {
		c.Faults().CutNextStream(r.Bytes)
		return nil
	},
	"chunk-streams": func(c *Cluster, r *controlRequest) error { c.Faults().ChunkStreams(int(r.Bytes)); return nil },
	"silence": func(c *Cluster, r *controlRequest) error {
		c.Faults().Silence(r.Framework, r.On == nil || *r.On)
		return nil
	},
	"rescind": func(c *Cluster, r *controlRequest) error {
		if r.Offer == "" {
			c.Faults().RescindAll(r.Framework)
			return nil
		}
		return found(c.Faults().Rescind(r.Offer), "offer", r.Offer)
	},
	"offer-timeout": func(c *Cluster, r *controlRequest) error { c.Faults().OfferTimeout(duration(r.Seconds)); return nil },
	"call": func(c *Cluster, r *controlRequest) error {
		f := CallFault{Call: r.Call, Times: r.Times}
		switch r.What {
		case "loseCall":
			f.LoseCall = true
		case "loseAnswer":
			f.LoseAnswer = true
		case "delay":
			f.Delay = duration(r.Seconds)
		default:
			return fmt.Errorf("what %q: want loseCall, loseAnswer or delay", r.What)
		}
		c.Faults().Call(f)
		return nil
	},
	"update": func(c *Cluster, r *controlRequest) error {
		f := UpdateFault{Times: r.Times}
		switch r.What {
		case "lose":
			f.Lose = true
		case "double":
			f.Double = true
		case "delay":
			f.Delay = duration(r.Seconds)
		default:
			return fmt.Errorf("what %q: want lose, double or delay", r.What)
		}
		c.Faults().Update(f)
		return nil
	},
	"rival": func(c *Cluster, r *controlRequest) error {
		_, err := c.StartRival(c.ctx, RivalOptions{Role: r.Role})
		return err
	},
	"clear": func(c *Cluster, _ *controlRequest) error { c.Faults().Clear(); return nil },
}

func onAgent(act func(*AgentHandle, *controlRequest) error) func(*Cluster, *controlRequest) error {
	return func(c *Cluster, r *controlRequest) error {
		h := c.Agent(r.Agent)
		if h == nil {
			return found(false, "agent", r.Agent)
		}
		return act(h, r)
	}
}

func found(ok bool, kind, name string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("there is no %s %q", kind, name)
}

// ServeControl serves the control endpoint until the cluster or the listener is closed:
//
//	GET  /state      everything that the readers of Cluster return, as JSON
//	GET  /counters   of that the counters alone, which cost little
//	POST /fault      {"action": "kill-agent", "agent": "agent-1"}; see controlActions
func (c *Cluster) ServeControl(listener net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaJSON)
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(map[string]any{"masters": c.URLs(), "leader": c.URL(), "frameworks": c.Frameworks(), "agents": c.Agents(), "offers": c.Offers(),
			"tasks": c.Tasks(), "executors": c.Executors(), "counters": c.Counters()})
	})
	mux.HandleFunc("GET /counters", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaJSON)
		_ = json.NewEncoder(w).Encode(c.Counters())
	})
	mux.HandleFunc("POST /fault", func(w http.ResponseWriter, r *http.Request) {
		var request controlRequest
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&request)
		if err == nil {
			if act := controlActions[request.Action]; act != nil {
				err = act(c, &request)
			} else {
				err = fmt.Errorf("unknown action %q (known: %v)", request.Action, sortedKeys(controlActions))
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte("{}\n"))
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, ErrorLog: discardLog}
	stop := context.AfterFunc(c.ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		c.logger.Error(err, "The control endpoint ended")
	}
}
