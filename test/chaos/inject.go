// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// injector carries out a plan. What lasts ends by itself; when carryOut returns, all faults have ended.
type injector struct {
	*world
	all     map[string]action // by kind
	busy    sync.Map          // what a fault holds at present
	running sync.WaitGroup
	mu      sync.Mutex
	struck  map[string]int // by kind
	missed  map[string]int
	slow    string // what took long
}

// hits says what a fault needs for itself: two faults do not stop the same process at once.
func (f fault) hits() []string {
	switch f.kind {
	case "kill-scheduler", "stop-scheduler":
		return []string{"scheduler"}
	case "fail-over", "restart-master", "wipe-registry", "tear-down":
		return []string{"master"}
	case "silence", "rival", "api-slow", "api-away":
		return []string{f.kind}
	case "cut-agent", "stop-agent", "restart-agent", "disconnect-agent", "lose-launch", "slow-agent", "replace-agent", "unregister-agent", "mark-agent-gone", "drain-agent", "deactivate-agent":
		return []string{fmt.Sprintf("agent-%d", f.agent)}
	case "maintain":
		return []string{"maintenance", fmt.Sprintf("agent-%d", f.agent)}
	case "kill-bridge", "stop-bridge", "kill-executor":
		return []string{fmt.Sprintf("executor-%d", f.agent)}
	case "rotate-credentials":
		return []string{fmt.Sprintf("credentials-%d", f.agent)}
	case "restart-api-server", "stop-api-server":
		return []string{"api-server"}
	case "stop-kubelets":
		return []string{f.kind}
	case "delete-node", "node-not-ready", "stop-kubelet", "restart-kubelet":
		return []string{fmt.Sprintf("node-%d", f.agent)}
	}
	return nil
}

// carryOut strikes with every fault of the plan at its time and waits until the last has ended.
func (in *injector) carryOut(ctx context.Context, plan []fault) {
	in.all = in.actions()
	in.sim.Faults().OnCall(in.hooks.onCall)
	start := time.Now()
	for _, f := range plan {
		if !pause(ctx, time.Until(start.Add(f.at))) {
			break
		}
		in.running.Go(func() { in.strike(ctx, f) })
	}
	in.running.Wait()
	in.sim.Faults().Clear()
	in.sim.Faults().Silence("", false)
	in.api.clear()
	in.journal.add(incident{text: "all faults have ended", hides: true})
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (in *injector) strike(ctx context.Context, f fault) {
	for _, what := range f.hits() {
		if _, taken := in.busy.LoadOrStore(what, f); taken {
			in.count(&in.missed, f)
			return
		}
		defer in.busy.Delete(what)
	}
	act := in.all[f.kind]
	if act == nil {
		in.journal.notef("FAULT %s: unknown", f)
		return
	}
	begun := time.Now()
	err := act(ctx, f)
	if took := time.Since(begun); took > 20*time.Second {
		in.mu.Lock()
		in.slow += fmt.Sprintf(" (%s: %.0f s)", f, took.Seconds())
		in.mu.Unlock()
	}
	if err != nil {
		in.journal.notef("FAULT %s: %v", f, err)
		in.count(&in.missed, f)
		return
	}
	in.count(&in.struck, f)
	in.journal.add(incident{text: fmt.Sprintf("ended: %s", f), hides: !f.aside()})
}

func (in *injector) count(m *map[string]int, f fault) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[f.kind]++
}

// aside says whether a fault leaves the messages between Mesos and the scheduler alone: its requests to the API server are
// on record with the times at which they were sent.
func (f fault) aside() bool {
	switch f.kind {
	case "restart-api-server", "stop-api-server", "stop-kubelets", "stop-kubelet", "restart-kubelet", "force-delete-pod", "delete-node", "node-not-ready", "rotate-credentials", "rival":
		return true
	}
	return strings.HasPrefix(f.kind, "api-")
}

// begin notes the start of a fault.
func (in *injector) begin(f fault, i incident) {
	i.text = fmt.Sprintf("FAULT %s%s", f, i.text)
	i.hides = i.hides && !f.aside()
	in.journal.add(i)
}

type action func(ctx context.Context, f fault) error

func (in *injector) actions() map[string]action {
	faults := in.sim.Faults()
	// hiding is a fault of the messages between scheduler, masters and agents.
	hiding := func(act func(f fault)) action {
		return func(ctx context.Context, f fault) error {
			in.begin(f, incident{hides: true})
			act(f)
			return nil
		}
	}
	matching := func(f fault) func(string, *mesos.TaskStatus) bool {
		if f.variant == "master" {
			return nil
		}
		return func(string, *mesos.TaskStatus) bool { return true }
	}
	out := map[string]action{
		"kill-scheduler": in.killScheduler,
		"stop-scheduler": in.stopScheduler,

		"fail-over": func(ctx context.Context, f fault) error {
			in.begin(f, incident{hides: true, newMaster: true})
			err := in.sim.FailOver(mesossim.FailOverOptions{KeepOld: f.variant == "keep-old", Vacancy: f.lasts, Recovery: f.lasts / 2})
			pause(ctx, f.lasts+f.lasts/2+50*ms) // no other change of masters before this one is complete
			return err
		},
		"restart-master": func(ctx context.Context, f fault) error { return in.restartMaster(ctx, f, false) },
		"wipe-registry":  func(ctx context.Context, f fault) error { return in.restartMaster(ctx, f, true) },

		"cut-stream":      hiding(func(f fault) { faults.CutStream("", int64(f.n)) }),
		"cut-next-stream": hiding(func(f fault) { faults.CutNextStream(int64(f.n)) }),
		"silence": func(ctx context.Context, f fault) error {
			in.begin(f, incident{hides: true})
			faults.Silence("", true)
			pause(ctx, f.lasts)
			// No connection loses what is in its middle and goes on: it breaks.
			faults.CutStream("", 0)
			faults.Silence("", false)
			return nil
		},
		"lose-update":   hiding(func(f fault) { faults.Update(mesossim.UpdateFault{Match: matching(f), Times: f.n, Lose: true}) }),
		"double-update": hiding(func(f fault) { faults.Update(mesossim.UpdateFault{Match: matching(f), Times: f.n, Double: true}) }),
		"delay-update":  hiding(func(f fault) { faults.Update(mesossim.UpdateFault{Match: matching(f), Times: f.n, Delay: f.lasts}) }),
		"lose-call":     hiding(func(f fault) { faults.Call(mesossim.CallFault{Call: f.call, Times: f.n, LoseCall: true}) }),
		"lose-answer":   hiding(func(f fault) { faults.Call(mesossim.CallFault{Call: f.call, Times: f.n, LoseAnswer: true}) }),
		"delay-call":    hiding(func(f fault) { faults.Call(mesossim.CallFault{Call: f.call, Times: f.n, Delay: f.lasts}) }),
		"rescind-offers": hiding(func(fault) {
			faults.RescindAll("")
		}),

		"cut-agent":     in.onAgent(in.cutAgent),
		"stop-agent":    in.onAgent(in.stopAgent),
		"restart-agent": in.onAgent(in.restartAgent),
		"disconnect-agent": in.onAgent(func(_ context.Context, f fault, h *mesossim.AgentHandle) error {
			in.begin(f, incident{hides: true})
			h.Disconnect()
			return nil
		}),
		"slow-agent":       in.onAgent(in.slowAgent),
		"replace-agent":    in.onAgent(in.replaceAgent),
		"unregister-agent": in.onAgent(in.unregisterAgent),
		"mark-agent-gone":  in.onAgent(in.markGone),
		"drain-agent":      in.onAgent(in.drainAgent),
		"deactivate-agent": in.onAgent(in.deactivateAgent),

		"kill-bridge":   in.onAgent(in.killBridge),
		"stop-bridge":   in.onAgent(in.stopBridge),
		"kill-executor": in.onAgent(in.killExecutor),
		"drop-executor-streams": in.onAgent(func(_ context.Context, f fault, h *mesossim.AgentHandle) error {
			in.begin(f, incident{hides: true})
			h.DropExecutorStreams()
			return nil
		}),

		"restart-api-server": in.restartAPIServer,
		"stop-api-server":    in.stopProcess(in.c.APIServer),
		"stop-kubelets":      in.stopProcess(in.c.Kwok),
		"force-delete-pod":   in.forceDelete,
		"delete-node":        in.deleteNode,
		"stop-kubelet":       in.stopKubelet,
		"restart-kubelet":    in.restartKubelet,

		"crash-on-call":    in.crashOnCall,
		"crash-on-request": in.crashOnRequest,
		"maintain":         in.onAgent(in.maintain),
		"rival":            in.rival,
		"tear-down":        in.tearDown,
		// What is sent into a connection that has broken, before its end is noticed, is lost.
		"lose-launch": in.onAgent(func(ctx context.Context, f fault, h *mesossim.AgentHandle) error {
			in.begin(f, incident{hides: true})
			faults.LoseLaunches(h.Name(), f.n)
			pause(ctx, f.lasts)
			faults.LoseLaunches(h.Name(), 0)
			h.Disconnect()
			return nil
		}),
	}
	maps.Copy(out, in.apiActions())
	return out
}

// choose returns the schedulers that a fault means.
func (in *injector) choose(ctx context.Context, variant string) []*cluster.Scheduler {
	if variant == "both" {
		return in.schedulers
	}
	for i, s := range in.schedulers {
		if leads(ctx, s) {
			if variant == "standby" {
				i = 1 - i
			}
			return in.schedulers[i : i+1]
		}
	}
	return in.schedulers[:1]
}

func (in *injector) killScheduler(ctx context.Context, f fault) error {
	chosen := in.choose(ctx, f.variant)
	for _, s := range chosen {
		in.begin(f, incident{text: ": SIGKILL of " + s.Name, hides: true})
		in.setBenched(s, true)
		defer in.setBenched(s, false)
		if err := s.Kill(); err != nil {
			return err
		}
	}
	pause(ctx, f.lasts)
	return nil
}

func (in *injector) stopScheduler(ctx context.Context, f fault) error {
	s := in.choose(ctx, f.variant)[0]
	in.begin(f, incident{text: ": SIGSTOP of " + s.Name, hides: true})
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	pause(ctx, f.lasts)
	return s.Signal(syscall.SIGCONT)
}

func (in *injector) restartMaster(ctx context.Context, f fault, wipe bool) error {
	in.begin(f, incident{hides: true, newMaster: true})
	in.sim.StopMaster()
	pause(ctx, f.lasts)
	return in.sim.StartMaster(wipe)
}

// stopProcess stops a program for a while with SIGSTOP: its connections stay open and nothing is answered.
func (in *injector) stopProcess(p *cluster.Process) action {
	return func(ctx context.Context, f fault) error {
		in.begin(f, incident{hides: true})
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		pause(ctx, f.lasts)
		return p.Signal(syscall.SIGCONT)
	}
}

func (in *injector) restartAPIServer(ctx context.Context, f fault) error {
	in.begin(f, incident{hides: true})
	if err := in.c.APIServer.Kill(); err != nil {
		return err
	}
	pause(ctx, f.lasts)
	if err := in.c.APIServer.Start(); err != nil {
		return err
	}
	return in.c.WaitReady(ctx)
}
