// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

const (
	mesosVersion          = "1.12.0"
	maxCompletedFramework = 50
	maxCompletedTasks     = 1000
	maxUnreachableTasks   = 1000
)

// A nodeState is what a master process answers with.
type nodeState int

const (
	nodeDown       nodeState = iota // refuses connections
	nodeStarting                    // 404
	nodeStandby                     // 307 or 503
	nodeRecovering                  // leads, 503
	nodeLeading
)

// A masterNode is one master process: an address and a place in the election.
type masterNode struct {
	cluster  *Cluster
	index    int
	addr     string
	listener net.Listener
	served   chan struct{} // closed when the listener is
	server   *http.Server
	state    nodeState
}

// startMasters opens the listeners; the first master leads.
func (c *Cluster) startMasters() error {
	for i := range c.opts.Masters {
		node := &masterNode{cluster: c, index: i, addr: c.opts.Listen}
		if i > 0 {
			host, _, err := net.SplitHostPort(c.masters[0].addr)
			if err != nil {
				return fmt.Errorf("address of the master: %w", err)
			}
			node.addr = net.JoinHostPort(host, "0")
		}
		if err := node.listen(); err != nil {
			return fmt.Errorf("listener of the master: %w", err)
		}
		node.state = nodeStandby
		c.masters = append(c.masters, node)
	}
	c.do(func() {
		c.lead(0, newRegistry())
		c.masters[0].state = nodeLeading
	})
	return nil
}

func (n *masterNode) listen() error {
	listener, err := net.Listen("tcp", n.addr)
	if err != nil {
		return err
	}
	n.addr, n.listener = listener.Addr().String(), listener
	n.server = &http.Server{Handler: n, ReadHeaderTimeout: time.Minute, ErrorLog: discardLog}
	server, served := n.server, make(chan struct{})
	n.served = served
	n.cluster.wg.Add(1)
	go func() {
		defer n.cluster.wg.Done()
		defer close(served)
		_ = server.Serve(listener)
	}()
	return nil
}

// close ends the process: every connection breaks. It does not wait.
func (n *masterNode) close() {
	n.state = nodeDown
	if n.server != nil {
		_ = n.server.Close()
		n.server, n.listener = nil, nil
	}
}

// A registry is what survives a change of the leader.
type registry struct {
	agents      map[string]mesos.AgentInfo
	unreachable map[string]time.Time
	gone        map[string]time.Time
	deactivated map[string]bool
	draining    map[string]*drain
	quota       map[string]*quota
	weights     map[string]float64
	schedule    *maintenance
}

func newRegistry() *registry {
	return &registry{agents: map[string]mesos.AgentInfo{}, unreachable: map[string]time.Time{}, gone: map[string]time.Time{},
		deactivated: map[string]bool{}, draining: map[string]*drain{}, quota: map[string]*quota{}, weights: map[string]float64{}, schedule: newMaintenance()}
}

// A master is the state of the leading master. A new leader begins with a new one and the registry.
type master struct {
	c        *Cluster
	node     *masterNode
	id       string
	started  time.Time
	ended    bool
	registry *registry

	frameworks map[string]*framework
	completed  []*framework
	agents     map[string]*agentView // registered
	byEndpoint map[string]*agentView
	recovered  map[string]bool // known to the registry, not yet back after a fail-over
	offers     map[string]*offer
	inverse    map[string]*inverseOffer
	alloc      *allocator
	watchers   []*watcher

	nextFramework, nextAgent, nextOffer int
	stops                               []func()
}

// lead makes masters[index] the leader with the registry. The caller holds the lock.
func (c *Cluster) lead(index int, reg *registry) {
	m := &master{c: c, node: c.masters[index], id: uuid.NewString(), started: c.now(), registry: reg,
		frameworks: map[string]*framework{}, agents: map[string]*agentView{}, byEndpoint: map[string]*agentView{}, recovered: map[string]bool{}, offers: map[string]*offer{},
		inverse: map[string]*inverseOffer{}}
	for id := range reg.agents {
		m.recovered[id] = true
	}
	for role, text := range c.opts.Quota {
		if reg.quota[role] == nil {
			reg.quota[role] = parseQuota(text)
		}
	}
	for role, w := range c.opts.Weights {
		reg.weights[role] = w
	}
	m.alloc = newAllocator(m)
	c.m, c.leader = m, index
	if len(m.recovered) > 0 {
		m.stops = append(m.stops, c.after(c.timing.AgentReregister, m.expireRecovered))
	}
}

// end closes every stream and stops every timer. The caller holds the lock.
func (m *master) end() {
	if m.ended {
		return
	}
	m.ended = true
	m.alloc.end()
	for _, stop := range m.stops {
		stop()
	}
	for _, f := range m.frameworks {
		f.stopTimers()
		f.stream.end()
	}
	for _, v := range m.agents {
		v.stopTimers()
	}
	for _, o := range m.offers {
		m.removeOffer(o, offerLost)
	}
	for _, w := range m.watchers {
		w.close()
	}
}

func (m *master) now() time.Time { return m.c.now() }

func (m *master) nextOfferID() string {
	id := m.id + "-O" + strconv.Itoa(m.nextOffer)
	m.nextOffer++
	return id
}

func (m *master) info() *mesos.MasterInfo {
	host, portText, _ := net.SplitHostPort(m.node.addr)
	port, _ := strconv.ParseUint(portText, 10, 16)
	hostname := m.c.opts.Hostname
	if hostname == "" {
		hostname = host
	}
	info := &mesos.MasterInfo{
		ID: m.id, Port: proto.Uint32(uint32(port)), PID: proto.String("master@" + m.node.addr), Hostname: proto.String(hostname),
		Version: proto.String(mesosVersion), Domain: domainInfo(m.c.opts.Region, m.c.opts.Zone),
		Address: &mesos.Address{Hostname: proto.String(hostname), IP: proto.String(host), Port: int32(port)},
		Capabilities: []mesos.MasterInfo_Capability{
			{Type: mesos.MasterInfo_Capability_AGENT_UPDATE}, {Type: masterCapabilityAgentDraining}, {Type: masterCapabilityQuotaV2}},
	}
	if ip := net.ParseIP(host).To4(); ip != nil {
		info.IP = uint32(ip[0]) | uint32(ip[1])<<8 | uint32(ip[2])<<16 | uint32(ip[3])<<24
	}
	return info
}

func domainInfo(region, zone string) *mesos.DomainInfo {
	if region == "" && zone == "" {
		return nil
	}
	return &mesos.DomainInfo{FaultDomain: &mesos.DomainInfo_FaultDomain{
		Region: mesos.DomainInfo_FaultDomain_RegionInfo{Name: region}, Zone: mesos.DomainInfo_FaultDomain_ZoneInfo{Name: zone}}}
}

// ServeHTTP dispatches by path as libprocess does: every path below /api/v1 that is no other end point is the
// operator's.
func (n *masterNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := n.cluster
	if err := readBody(r); err != nil {
		panic(http.ErrAbortHandler)
	}
	path := strings.TrimPrefix(r.URL.Path, "/master")
	scheduler := path == "/api/v1/scheduler"
	if !scheduler && path != "/api/v1" && !strings.HasPrefix(path, "/api/v1/") {
		writeNotFound(w)
		return
	}
	principal := ""
	if scheduler {
		var herr *httpError
		if principal, herr = c.authenticate(r); herr != nil {
			herr.write(w)
			return
		}
	}
	if herr := n.leading(path); herr != nil {
		herr.write(w)
		return
	}
	if scheduler {
		c.serveScheduler(w, r, principal)
	} else {
		c.serveOperator(w, r)
	}
}

// leading refuses a request that this master cannot handle itself.
func (n *masterNode) leading(path string) *httpError {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case n.state == nodeStarting:
		return refuse(http.StatusNotFound, "404 Not Found.")
	case n.state == nodeRecovering:
		return refuse(http.StatusServiceUnavailable, "Master has not finished recovery")
	case n.state == nodeLeading:
		return nil
	case c.leader < 0:
		return refuse(http.StatusServiceUnavailable, "No leader elected")
	}
	_, port, _ := net.SplitHostPort(c.masters[c.leader].addr)
	host := c.opts.Hostname
	if host == "" {
		host, _, _ = net.SplitHostPort(c.masters[c.leader].addr)
	}
	e := refuse(http.StatusTemporaryRedirect, "")
	e.header = http.Header{"Location": {"//" + net.JoinHostPort(host, port) + "/master" + path}}
	return e
}

func (c *Cluster) authenticate(r *http.Request) (string, *httpError) {
	if len(c.opts.Credentials) == 0 {
		return "", nil
	}
	principal, secret, ok := r.BasicAuth()
	if want, known := c.opts.Credentials[principal]; ok && known && want == secret && !strings.Contains(secret, ":") {
		return principal, nil
	}
	e := refuse(http.StatusUnauthorized, "401 Unauthorized.")
	e.header = http.Header{"Www-Authenticate": {`Basic realm="mesos-master-scheduler"`}}
	return "", e
}
