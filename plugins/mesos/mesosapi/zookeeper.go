// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"k8s.io/klog/v2"
)

// A zkGroup is where masters elect their leader: zk://[user:password@]host:port[,host:port...]/path.
type zkGroup struct {
	servers []string
	path    string
	digest  string // user:password, empty for none
}

const (
	zkSession  = 10 * time.Second // as masters use
	zkMaxReply = 4 << 20
	// jsonLabel and legacyLabel are the names, before the sequence number, of the nodes that hold a MasterInfo in JSON
	// and, before Mesos 0.24, in protobuf (src/master/constants.hpp, src/master/detector/zookeeper.cpp).
	jsonLabel   = "json.info_"
	legacyLabel = "info_"
)

// parseZK reads a zk:// address. The errors do not repeat it, since it may hold a password.
func parseZK(text string) (*zkGroup, error) {
	rest := strings.TrimPrefix(text, "zk://")
	g := &zkGroup{}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		auth := rest[:at]
		user, password, found := strings.Cut(auth, ":")
		if !found || user == "" || password == "" {
			return nil, errors.New("the part before @ is not user:password: " + zkWanted)
		}
		if un, err := url.PathUnescape(password); err == nil {
			password = un
		}
		g.digest = user + ":" + password
		rest = rest[at+1:]
	}
	hosts, path, found := strings.Cut(rest, "/")
	if !found || path == "" {
		return nil, errors.New("the path is missing: " + zkWanted + ", for example zk://host:2181/mesos")
	}
	g.path = "/" + path
	if strings.HasSuffix(path, "/") || strings.Contains(path, "//") || strings.ContainsAny(path, "?# \x00") ||
		strings.Contains("/"+path+"/", "/./") || strings.Contains("/"+path+"/", "/../") {
		return nil, errors.New("the path is not a ZooKeeper path: " + zkWanted)
	}
	for _, host := range strings.Split(hosts, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			return nil, errors.New("a server is not host:port: " + zkWanted)
		}
		m, err := newMaster("zk", name, port)
		if err != nil {
			return nil, errors.New("a server is not host:port: " + zkWanted)
		}
		g.servers = append(g.servers, m.host)
	}
	return g, nil
}

// leader asks ZooKeeper who leads and returns the addresses of that master, best first. It connects anew each time:
// it is asked once a subscription, and a master that loses its leadership exits, which ends the stream.
func (g *zkGroup) leader(ctx context.Context, scheme string, timeout time.Duration) ([]master, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	conn, events, err := zk.Connect(g.servers, zkSession,
		zk.WithHostProvider(&rotation{}),
		zk.WithDialer(func(network, address string, limit time.Duration) (net.Conn, error) {
			c, err := (&net.Dialer{Timeout: limit}).DialContext(ctx, network, address)
			if err == nil {
				context.AfterFunc(ctx, func() { _ = c.Close() })
			}
			return c, err
		}),
		zk.WithMaxBufferSize(zkMaxReply), zk.WithLogInfo(false), zk.WithLogger(zkLogger{klog.FromContext(ctx)}))
	if err != nil {
		return nil, fmt.Errorf("ZooKeeper %s: %w", strings.Join(g.servers, ","), err)
	}
	// The library's calls know no context: closing the connection ends them.
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		conn.Close()
	})
	defer func() {
		if stop() {
			conn.Close()
		} else {
			<-closed
		}
		cancel()
		for range events { // closed when the library's goroutines have ended
		}
	}()

	masters, err := g.read(conn, scheme)
	if err != nil {
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		return nil, fmt.Errorf("ZooKeeper %s, path %s: %w", strings.Join(g.servers, ","), g.path, err)
	}
	return masters, nil
}

// zkReader is the part of a ZooKeeper connection that finding a leader needs.
type zkReader interface {
	AddAuth(scheme string, auth []byte) error
	Children(path string) ([]string, *zk.Stat, error)
	Get(path string) ([]byte, *zk.Stat, error)
}

func (g *zkGroup) read(conn zkReader, scheme string) ([]master, error) {
	if g.digest != "" {
		err := conn.AddAuth("digest", []byte(g.digest))
		if errors.Is(err, zk.ErrAuthFailed) {
			err = fmt.Errorf("%w: ZooKeeper refused the user of the zk:// address: %w", ErrUnauthorized, err)
		}
		if err != nil {
			return nil, err
		}
	}
	// A leader that dies between the two questions takes its node along; a few rounds are enough to meet the next.
	for range 3 {
		children, _, err := conn.Children(g.path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, fmt.Errorf("%w: the path does not exist", ErrNoLeader)
		}
		if err != nil {
			return nil, err
		}
		node := leaderNode(children)
		if node == "" {
			return nil, fmt.Errorf("%w: no master is registered there", ErrNoLeader)
		}
		data, _, err := conn.Get(g.path + "/" + node)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		masters, err := masterAddresses(node, data, scheme)
		if err != nil {
			return nil, fmt.Errorf("%w: node %s: %w", ErrProtocol, node, err)
		}
		return masters, nil
	}
	return nil, fmt.Errorf("%w: the leading master changes", ErrNoLeader)
}

// leaderNode returns the child with the lowest sequence number among those that describe a master, empty if none does.
// Nodes of the old kind count only where there is none of the new one; log_replicas and others never do.
func leaderNode(children []string) string {
	for _, label := range []string{jsonLabel, legacyLabel} {
		best, lowest := "", int64(0)
		for _, child := range children {
			digits, found := strings.CutPrefix(child, label)
			if !found {
				continue
			}
			n, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				continue
			}
			if best == "" || n < lowest {
				best, lowest = child, n
			}
		}
		if best != "" {
			return best
		}
	}
	return ""
}

// masterAddresses reads the MasterInfo of a node. Over http the IP address comes first, since the master listens on
// it; over https the host name, since the certificate names it.
func masterAddresses(node string, data []byte, scheme string) ([]master, error) {
	var hostname, ip string
	var port int64
	if strings.HasPrefix(node, jsonLabel) {
		var info struct {
			IP       uint32 `json:"ip"`
			Port     int64  `json:"port"`
			Hostname string `json:"hostname"`
			Address  struct {
				Hostname string `json:"hostname"`
				IP       string `json:"ip"`
				Port     int64  `json:"port"`
			} `json:"address"`
		}
		if err := json.Unmarshal(data, &info); err != nil {
			return nil, fmt.Errorf("the MasterInfo is not JSON: %w", err)
		}
		hostname, ip, port = first(info.Address.Hostname, info.Hostname), first(info.Address.IP, legacyIP(info.IP)), info.Address.Port
		if port == 0 {
			port = info.Port
		}
	} else {
		var info mesos.MasterInfo
		if err := unmarshal(data, &info, masterInfoShape()); err != nil {
			return nil, fmt.Errorf("the MasterInfo is not protobuf: %w", err)
		}
		address := info.GetAddress()
		hostname, ip = first(address.GetHostname(), info.GetHostname()), first(address.GetIP(), legacyIP(info.GetIP()))
		port = int64(address.GetPort())
		if port == 0 {
			port = int64(info.GetPort())
		}
	}

	hosts := []string{ip, hostname}
	if scheme == "https" {
		hosts = []string{hostname, ip}
	}
	var masters []master
	for _, host := range hosts {
		m, err := newMaster(scheme, host, strconv.FormatInt(port, 10))
		if err == nil && (len(masters) == 0 || masters[0] != m) {
			masters = append(masters, m)
		}
	}
	if len(masters) == 0 {
		return nil, fmt.Errorf("the MasterInfo has no usable address: hostname %q, ip %q, port %d", hostname, ip, port)
	}
	return masters, nil
}

// legacyIP writes MasterInfo.ip, an IPv4 address whose bytes lie in the number in network order on a little-endian
// machine, as text.
func legacyIP(n uint32) string {
	if n == 0 {
		return ""
	}
	b := make(net.IP, net.IPv4len)
	binary.LittleEndian.PutUint32(b, n)
	return b.String()
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// A rotation is a zk.HostProvider that leaves names to the dialer: the library's own resolves them at once and without
// a limit of time.
type rotation struct {
	mu      sync.Mutex
	servers []string
	next    int
	tried   int
}

func (r *rotation) Init(servers []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.servers = servers
	return nil
}

func (r *rotation) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.servers)
}

// Next returns the next server, and true when all were tried since the last connection.
func (r *rotation) Next() (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	server := r.servers[r.next]
	r.next = (r.next + 1) % len(r.servers)
	r.tried++
	if r.tried > len(r.servers) {
		r.tried = 1
		return server, true
	}
	return server, false
}

func (r *rotation) Connected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = 0
}

type zkLogger struct{ klog.Logger }

func (l zkLogger) Printf(format string, args ...any) {
	l.V(4).Info("ZooKeeper client", "message", fmt.Sprintf(format, args...))
}
