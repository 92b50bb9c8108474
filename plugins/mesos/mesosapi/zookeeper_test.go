// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

const recordedInfo = `{"address":{"hostname":"m2.example","ip":"10.0.0.2","port":5050},"capabilities":[{"type":"AGENT_UPDATE"}],` +
	`"hostname":"m2.example","id":"9f48d831-63e7-4556-86ab-463a69389e4d","ip":33554442,"pid":"master@10.0.0.2:5050","port":5050,"version":"1.12.0"}`

func TestLeaderNode(t *testing.T) {
	for name, tt := range map[string]struct {
		children []string
		want     string
	}{
		"none":                {nil, ""},
		"the log only":        {[]string{"log_replicas"}, ""},
		"lowest, any order":   {[]string{"json.info_0000000012", "log_replicas", "json.info_0000000009", "json.info_0000000010"}, "json.info_0000000009"},
		"old kind":            {[]string{"info_0000000003", "info_0000000002"}, "info_0000000002"},
		"new before old kind": {[]string{"info_0000000001", "json.info_0000000002"}, "json.info_0000000002"},
		"others":              {[]string{"json.info_", "json.info_x", "info_", "xjson.info_0000000001", "json.info_0000000001x", "json.info_0000000007"}, "json.info_0000000007"},
		"after the overflow":  {[]string{"json.info_-2147483648", "json.info_2147483647"}, "json.info_-2147483648"},
	} {
		if got := leaderNode(tt.children); got != tt.want {
			t.Errorf("%s: leaderNode = %q, want %q", name, got, tt.want)
		}
	}
}

func TestMasterAddresses(t *testing.T) {
	ip := uint32(33554442)
	port, legacyPort := int32(5051), uint32(5050)
	host, address := "m2", "10.0.0.3"
	legacy, err := (&mesos.MasterInfo{ID: "m", IP: ip, Port: &legacyPort, Hostname: &host}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	modern, err := (&mesos.MasterInfo{ID: "m", IP: ip, Port: &legacyPort, Hostname: &host, Address: &mesos.Address{Hostname: &host, IP: &address, Port: port}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		node, data, scheme string
		want               string // empty: an error
	}{
		"json":                 {"json.info_1", recordedInfo, "http", "http://10.0.0.2:5050 http://m2.example:5050"},
		"json over TLS":        {"json.info_1", recordedInfo, "https", "https://m2.example:5050 https://10.0.0.2:5050"},
		"json without address": {"json.info_1", `{"id":"m","ip":33554442,"port":5050,"hostname":"m2"}`, "http", "http://10.0.0.2:5050 http://m2:5050"},
		"json, IP as the name": {"json.info_1", `{"ip":33554442,"port":5050,"hostname":"10.0.0.2"}`, "http", "http://10.0.0.2:5050"},
		"json, name only":      {"json.info_1", `{"port":5050,"hostname":"m2"}`, "http", "http://m2:5050"},
		"json, IPv6":           {"json.info_1", `{"address":{"ip":"fe80::1","port":5050}}`, "http", "http://[fe80::1]:5050"},
		"protobuf":             {"info_1", string(legacy), "http", "http://10.0.0.2:5050 http://m2:5050"},
		"protobuf, address":    {"info_1", string(modern), "http", "http://10.0.0.3:5051 http://m2:5051"},
		"no port":              {"json.info_1", `{"hostname":"m2"}`, "http", ""},
		"port too large":       {"json.info_1", `{"hostname":"m2","port":99999}`, "http", ""},
		"negative port":        {"json.info_1", `{"hostname":"m2","port":-1}`, "http", ""},
		"no host":              {"json.info_1", `{"port":5050}`, "http", ""},
		"odd host":             {"json.info_1", `{"port":5050,"hostname":"m2/x"}`, "http", ""},
		"no JSON":              {"json.info_1", `m2:5050`, "http", ""},
		"empty":                {"json.info_1", ``, "http", ""},
		"no protobuf":          {"info_1", "\xa3\x06", "http", ""},
		"empty protobuf":       {"info_1", "", "http", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := masterAddresses(tt.node, []byte(tt.data), tt.scheme)
			var texts []string
			for _, m := range got {
				texts = append(texts, m.String())
			}
			if (err != nil) != (tt.want == "") || strings.Join(texts, " ") != tt.want {
				t.Errorf("masterAddresses = %v, %v, want %q", texts, err, tt.want)
			}
		})
	}
}

// A zkServer is a ZooKeeper ensemble of one that knows sessions, digests, children and data, and nothing of writing.
type zkServer struct {
	net.Listener
	wg sync.WaitGroup

	mu     sync.Mutex
	nodes  map[string]string // path to data
	gone   map[string]bool   // listed once more, but gone when read
	digest string            // what a client must show
	mute   bool              // accepts connections and never answers
	conns  []net.Conn
}

func newZKServer(t *testing.T) *zkServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	z := &zkServer{Listener: l, nodes: map[string]string{}, gone: map[string]bool{}}
	z.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			z.mu.Lock()
			z.conns = append(z.conns, c)
			z.mu.Unlock()
			z.wg.Go(func() {
				defer func() { _ = c.Close() }()
				z.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		z.mu.Lock()
		for _, c := range z.conns {
			_ = c.Close()
		}
		z.mu.Unlock()
		z.wg.Wait()
	})
	return z
}

func readPacket(r io.Reader) ([]byte, error) {
	var size int32
	if err := binary.Read(r, binary.BigEndian, &size); err != nil || size < 0 || size > 1<<20 {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	data := make([]byte, size)
	_, err := io.ReadFull(r, data)
	return data, err
}

func packet(parts ...any) []byte {
	var b bytes.Buffer
	for _, part := range parts {
		if text, isText := part.(string); isText {
			_ = binary.Write(&b, binary.BigEndian, int32(len(text)))
			b.WriteString(text)
			continue
		}
		_ = binary.Write(&b, binary.BigEndian, part)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(b.Len())), b.Bytes()...)
}

func text(data []byte) string {
	if len(data) < 4 {
		return ""
	}
	n := min(int(binary.BigEndian.Uint32(data)), len(data)-4)
	return string(data[4 : 4+n])
}

func (z *zkServer) serve(c net.Conn) {
	if _, err := readPacket(c); err != nil {
		return
	}
	z.mu.Lock()
	mute := z.mute
	z.mu.Unlock()
	if mute {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	_, _ = c.Write(packet(int32(0), int32(10000), int64(1), strings.Repeat("p", 16)))
	const noNode, noAuth, authFailed = -101, -102, -115
	authorized := z.digest == ""
	stat := make([]byte, 68)
	for {
		data, err := readPacket(c)
		if err != nil || len(data) < 8 {
			return
		}
		xid, op, body := int32(binary.BigEndian.Uint32(data)), int32(binary.BigEndian.Uint32(data[4:])), data[8:]
		var reply []any
		code := int32(0)
		z.mu.Lock()
		switch op {
		case 100: // auth: type, scheme, data
			rest := body[4+4+len(text(body[4:])):]
			if authorized = text(rest) == z.digest && text(body[4:]) == "digest"; !authorized {
				code = authFailed
			}
		case 12: // children: path
			names := []any{}
			found := false
			for path := range z.nodes {
				if path == text(body) {
					found = true
				}
				if name, below := strings.CutPrefix(path, text(body)+"/"); below {
					names = append(names, name)
				}
			}
			switch {
			case !authorized:
				code = noAuth
			case !found:
				code = noNode
			default:
				reply = append(append([]any{int32(len(names))}, names...), stat)
			}
		case 4: // data: path
			data, found := z.nodes[text(body)]
			if z.gone[text(body)] {
				delete(z.nodes, text(body))
				found = false
			}
			if !found {
				code = noNode
			} else {
				reply = []any{data, stat}
			}
		}
		z.mu.Unlock()
		_, _ = c.Write(packet(append([]any{xid, int64(1), code}, reply...)...))
		if op == -11 { // close
			return
		}
	}
}

func TestSubscribeByZooKeeper(t *testing.T) {
	leader := newFakeMaster(t, nil)
	port := leader.host()[strings.LastIndexByte(leader.host(), ':')+1:]
	info := fmt.Sprintf(`{"address":{"hostname":"localhost","ip":"127.0.0.1","port":%s}}`, port)
	z := newZKServer(t)
	z.digest = "me:hush"
	z.nodes = map[string]string{"/mesos": "", "/mesos/log_replicas": "", "/mesos/json.info_0000000001": "gone", "/mesos/json.info_0000000002": info,
		"/mesos/json.info_0000000003": recordedInfo}
	z.gone["/mesos/json.info_0000000001"] = true
	address := func(auth string) []string {
		return []string{fmt.Sprintf("zk://%s%s,%s/mesos", auth, deadAddress(t), z.Addr())}
	}

	s := subscribed(t, Config{Masters: address("me:hush@"), Credential: secret})
	if s.Master() != leader.URL {
		t.Errorf("Master = %s, want %s", s.Master(), leader.URL)
	}
	if got := authorized(leader); !got[0] {
		t.Error("The leader named by ZooKeeper got no credential")
	}

	for name, tt := range map[string]struct {
		auth     string
		change   func()
		wantKind error
	}{
		"wrong password": {"me:wrong@", func() {}, nil},
		"no user":        {"", func() {}, zk.ErrNoAuth},
		"no master": {"me:hush@", func() {
			z.nodes = map[string]string{"/mesos": "", "/mesos/log_replicas": ""}
		}, ErrNoLeader},
		"no path": {"me:hush@", func() { z.nodes = map[string]string{"/other": ""} }, ErrNoLeader},
		"nonsense": {"me:hush@", func() {
			z.nodes = map[string]string{"/mesos": "", "/mesos/json.info_0000000009": "nonsense"}
		}, ErrProtocol},
		"no answer": {"me:hush@", func() { z.mute = true }, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			z.mu.Lock()
			tt.change()
			z.mu.Unlock()
			defer func() {
				z.mu.Lock()
				defer z.mu.Unlock()
				z.mute = false
			}()
			within(t, func() {
				_, err := newClient(t, Config{Masters: address(tt.auth), CallTimeout: 3 * time.Second}).Subscribe(t.Context(), subscribeCall())
				var typed *SubscribeError
				if !errors.As(err, &typed) || (tt.wantKind != nil && !errors.Is(err, tt.wantKind)) {
					t.Errorf("Subscribe = %v, want kind %v", err, tt.wantKind)
				}
				if strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "wrong") {
					t.Errorf("%v shows the password", err)
				}
			})
		})
	}
}

func TestRotation(t *testing.T) {
	r := &rotation{}
	if err := r.Init([]string{"a", "b"}); err != nil || r.Len() != 2 {
		t.Fatal(err, r.Len())
	}
	var got []string
	take := func() {
		server, again := r.Next()
		got = append(got, fmt.Sprint(server, again))
	}
	for range 5 {
		take()
	}
	r.Connected()
	take()
	take()
	take()
	if diff := cmp.Diff([]string{"afalse", "bfalse", "atrue", "bfalse", "atrue", "bfalse", "afalse", "btrue"}, got); diff != "" {
		t.Errorf("Servers (-want,+got):\n%s", diff)
	}
}
