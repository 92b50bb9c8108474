// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sort"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// An agent is one agent: what it keeps on disk, and its process while that runs.
type agent struct {
	c         *Cluster
	name      string
	opts      AgentOptions
	serial    int
	info      mesos.AgentInfo
	resources bag
	id        string // empty until it first registered
	endpoint  string
	workDir   string
	synthetic *Script
	launcher  Launcher

	listener net.Listener
	server   *http.Server

	running    bool
	generation int // counts starts of the process
	state      nodeState
	stopped    bool     // SIGSTOP
	held       []func() // what arrived while stopped
	leaving    bool     // ends with its last executor
	cut        bool     // the network swallows everything
	registered bool     // with the present leader, as the agent believes
	draining   *drain
	continued  time.Time // last SIGCONT

	frameworks map[string]*agentFramework
	streams    map[streamKey]*updateStream
	in, out    lane
	timers     map[int]func()
	nextTimer  int
}

// An agentFramework is what an agent knows of a framework.
type agentFramework struct {
	id          string
	info        *mesos.FrameworkInfo
	executors   map[string]*executor
	terminating bool
}

// AddAgent starts an agent and returns when it has registered with the leading master.
func (c *Cluster) AddAgent(opts AgentOptions) (*AgentHandle, error) {
	a, err := c.newAgent(opts)
	if err != nil {
		return nil, err
	}
	ok := c.do(func() {
		if c.byName[a.name] != nil {
			err = fmt.Errorf("agent %q exists", a.name)
			return
		}
		a.serial = len(c.agents)
		c.agents = append(c.agents, a)
		c.byName[a.name] = a
		a.generation++
		if err = a.listen(); err != nil {
			return
		}
		a.begin(0, 0)
	})
	if !ok {
		return nil, errors.New("the cluster is closed")
	}
	if err != nil {
		return nil, err
	}
	return &AgentHandle{c: c, a: a}, nil
}

func (c *Cluster) newAgent(opts AgentOptions) (*agent, error) {
	if opts.Name == "" {
		return nil, errors.New("an agent needs a name")
	}
	if opts.Hostname == "" {
		opts.Hostname = opts.Name
	}
	if opts.Resources == "" {
		opts.Resources = defaultResources
	}
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	resources, err := ParseResources(opts.Resources)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", opts.Name, err)
	}
	if text := validateResourceList(resources); text != "" {
		return nil, fmt.Errorf("agent %s: %s", opts.Name, text)
	}
	attributes, err := ParseAttributes(opts.Attributes)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", opts.Name, err)
	}
	a := &agent{c: c, name: opts.Name, opts: opts, resources: newBag(resources), synthetic: opts.Synthetic, launcher: opts.Launcher,
		workDir: filepath.Join(c.workDir, opts.Name), frameworks: map[string]*agentFramework{}, streams: map[streamKey]*updateStream{}, timers: map[int]func(){}}
	a.in, a.out = lane{c: c}, lane{c: c}
	if a.launcher == nil {
		a.launcher = processLauncher{onProcess: c.opts.OnProcess}
		if a.synthetic == nil {
			a.synthetic = c.opts.Synthetic
		}
	}
	a.info = mesos.AgentInfo{Hostname: opts.Hostname, Resources: resources, Attributes: attributes, Domain: domainInfo(opts.Region, opts.Zone)}
	return a, nil
}

// listen opens the executor API. Synthetic agents do not listen; their address is made up but unlike any other.
func (a *agent) listen() error {
	if a.synthetic != nil {
		if a.endpoint == "" {
			a.endpoint = fmt.Sprintf("127.%d.%d.%d:5051", 1+a.serial/65536, a.serial/256%256, a.serial%256)
		}
	} else {
		address := a.opts.Listen
		if a.endpoint != "" {
			address = a.endpoint // a restarted process takes its old port
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("listener of agent %s: %w", a.name, err)
		}
		a.endpoint = listener.Addr().String()
		if a.opts.TLS != nil {
			listener = tls.NewListener(listener, a.opts.TLS)
		}
		a.listener = listener
		a.server = &http.Server{Handler: &executorAPI{a: a, generation: a.generation}, ReadHeaderTimeout: time.Minute, ErrorLog: discardLog}
		server := a.server
		a.c.wg.Add(1)
		go func() {
			defer a.c.wg.Done()
			_ = server.Serve(listener)
		}()
	}
	_, port := splitEndpoint(a.endpoint)
	p := int32(port)
	a.info.Port = &p
	return nil
}

func (a *agent) closeListener() {
	if a.server != nil {
		_ = a.server.Close()
		a.server, a.listener = nil, nil
	}
}

// begin starts the process: it answers after ready, and registers after another pause.
func (a *agent) begin(ready, register time.Duration) {
	a.running, a.stopped, a.held, a.leaving = true, false, nil, false
	if ready <= 0 {
		a.state = nodeLeading
		a.after(register, a.register)
		return
	}
	a.state = nodeDown
	// One after the other: timers that are nearly due together may fire in any order on a busy machine.
	a.after(ready*75/100, func() {
		if err := a.listen(); err != nil {
			a.c.logger.Error(err, "An agent cannot listen again")
		}
		a.state = nodeStarting
		a.after(ready*19/100, func() {
			a.state = nodeRecovering
			a.after(ready*6/100, func() {
				a.state = nodeLeading
				a.recover(register)
			})
		})
	})
}

// after runs f under the lock unless the process has ended by then.
func (a *agent) after(d time.Duration, f func()) (stop func()) {
	generation := a.generation
	key := a.nextTimer
	a.nextTimer++
	stopTimer := a.c.after(d, func() {
		delete(a.timers, key)
		if a.running && a.generation == generation {
			a.awake(f)
		}
	})
	a.timers[key] = stopTimer
	return func() {
		delete(a.timers, key)
		stopTimer()
	}
}

func (a *agent) stopTimers() {
	for key, stop := range a.timers {
		stop()
		delete(a.timers, key)
	}
}

// awake runs f now, or when the stopped process goes on.
func (a *agent) awake(f func()) {
	if a.stopped {
		a.held = append(a.held, f)
		return
	}
	f()
}

// deliver is the way of a message from the master to the process.
func (a *agent) deliver(f func()) {
	if !a.running || a.cut {
		return
	}
	generation := a.generation
	a.in.send(a.delay(), func() {
		if a.running && a.generation == generation && !a.cut {
			a.awake(f)
		}
	})
}

// toMaster sends a message to the master with which the agent is registered; it is lost if there is none.
func (a *agent) toMaster(f func(*master, *agentView)) {
	if !a.running || a.cut || !a.registered {
		return
	}
	id := a.id
	a.out.send(a.delay(), func() {
		m := a.c.m
		if m == nil || m.ended || a.cut {
			return
		}
		if v := m.agents[id]; v != nil && v.agent == a && v.connected {
			f(m, v)
		}
	})
}

func (a *agent) delay() time.Duration { return a.opts.Delay + a.c.timing.NetworkDelay }

func (a *agent) answersPing(id string) bool {
	return a.running && !a.stopped && !a.cut && a.id == id && a.registered
}

// register asks the leader for an id, or tells it what runs here.
func (a *agent) register() {
	if a.registered || a.c.now().Sub(a.continued) < a.c.timing.RegistrationBackoff {
		return // the second: it has just gone on after a stop, and will register by itself
	}
	a.out.send(a.delay(), func() {
		m := a.c.m
		if m == nil || m.ended || a.c.leader < 0 || !a.running || a.stopped || a.cut || a.registered {
			return // the change of the leader or the end of the fault tries again
		}
		if a.id == "" {
			m.registerAgent(a)
		} else {
			m.reregisterAgent(a)
		}
	})
}

// masterChanged tells the agent that there is a new leader.
func (a *agent) masterChanged() {
	if !a.running {
		return
	}
	a.registered = false
	if a.state != nodeLeading {
		return // recovery ends with a registration
	}
	a.after(a.c.timing.MasterDetection+a.c.timing.RegistrationBackoff, a.register)
}

// linkBroken tells the master, if it is one that knows the agent, that the TCP link broke.
func (a *agent) linkBroken() {
	if m := a.c.m; m != nil && !m.ended {
		if v := m.agents[a.id]; v != nil && v.agent == a {
			m.agentDisconnected(v)
		}
	}
	a.registered = false
}

// die ends the process as SIGKILL does. Executors live on and see their streams end.
func (a *agent) die() {
	if !a.running {
		return
	}
	a.running, a.stopped, a.held = false, false, nil
	a.closeListener()
	a.stopTimers()
	for _, s := range a.streams {
		s.stop = nil
	}
	for _, f := range a.frameworks {
		for _, e := range f.executors {
			e.conn.end()
			e.conn = nil
			e.stopTimer()
		}
	}
	a.linkBroken()
}

func (a *agent) processes() []Process {
	var out []Process
	for _, f := range a.frameworks {
		for _, e := range f.executors {
			if e.process != nil {
				out = append(out, e.process)
			}
			if e.runner != nil {
				out = append(out, e.runner.processes()...)
			}
		}
	}
	return out
}

func (a *agent) sortedFrameworks() []*agentFramework {
	out := make([]*agentFramework, 0, len(a.frameworks))
	for _, f := range a.frameworks {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].id < out[j].id })
	return out
}

func (f *agentFramework) sortedExecutors() []*executor {
	out := make([]*executor, 0, len(f.executors))
	for _, e := range f.executors {
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].serial < out[j].serial })
	return out
}

func (f *agentFramework) partitionAware() bool {
	return slices.ContainsFunc(f.info.Capabilities, func(c mesos.FrameworkInfo_Capability) bool {
		return c.Type == mesos.FrameworkInfo_Capability_PARTITION_AWARE
	})
}

func (f *agentFramework) lost(s mesos.TaskState) mesos.TaskState {
	if f.partitionAware() {
		return s
	}
	return mesos.TASK_LOST
}

// updateFramework is UpdateFrameworkMessage: pending updates are sent again at once.
func (a *agent) updateFramework(id string, info *mesos.FrameworkInfo) {
	f := a.frameworks[id]
	if f == nil {
		return
	}
	f.info = info
	a.resendAll(id)
}

// frameworkMessage passes a MESSAGE on to an executor that runs.
func (a *agent) frameworkMessage(framework, executorID string, data []byte) {
	if f := a.frameworks[framework]; f != nil && !f.terminating {
		if e := f.executors[executorID]; e != nil && e.state == executorRunning {
			e.message(data)
		}
	}
}
