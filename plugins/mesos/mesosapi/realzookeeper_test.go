// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// zookeeperJar is where Debian's package has ZooKeeper; other jars stand beside it.
const zookeeperJar = "/usr/share/java/zookeeper.jar"

// startZooKeeper starts a real ZooKeeper on a port of loopback with its data in dir, and returns how to stop it.
func startZooKeeper(t *testing.T, port int, dir string) func() {
	t.Helper()
	config := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPortAddress=127.0.0.1\nclientPort=%d\nadmin.enableServer=false\n", dir, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", "/usr/share/java/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		cancel()
		_ = cmd.Wait()
		_ = log.Close()
	}
	deadline := time.Now().Add(time.Minute)
	for {
		err := speaks(port)
		if err == nil {
			return stop
		}
		if time.Now().After(deadline) || cmd.ProcessState != nil {
			stop()
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("ZooKeeper does not listen: %v\n%s", err, said)
		}
		select { // the port opens when it opens
		case <-t.Context().Done():
			stop()
			t.Fatal(t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// speaks says whether a ZooKeeper answers; it opens its port before it does.
func speaks(port int) error {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return err
	}
	answer := make([]byte, 256)
	n, err := conn.Read(answer)
	if err == nil && !strings.Contains(string(answer[:n]), "Zookeeper version") {
		err = fmt.Errorf("it says %q", answer[:n])
	}
	return err
}

func connectZooKeeper(t *testing.T, port int, auth string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{fmt.Sprintf("127.0.0.1:%d", port)}, 5*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range events {
		}
	}()
	if auth != "" {
		if err := conn.AddAuth("digest", []byte(auth)); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// TestRealZooKeeper finds masters through ZooKeeper as Debian packages it, with the nodes that a master makes: ephemeral and
// sequential, readable by its own digest user only.
func TestRealZooKeeper(t *testing.T) {
	if _, err := os.Stat(zookeeperJar); err != nil {
		t.Skip("ZooKeeper is not installed (Debian's package zookeeper)")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("java is not installed")
	}
	leads := func() (*httptest.Server, []byte) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("Failed to validate scheduler::Call: " + probeAnswer))
		}))
		t.Cleanup(s.Close)
		u, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		port, _ := strconv.Atoi(u.Port())
		return s, fmt.Appendf(nil, `{"address":{"hostname":"localhost","ip":"127.0.0.1","port":%d},"hostname":"localhost","id":"x","ip":16777343,"pid":"master@127.0.0.1:%d","port":%d,"version":"1.12.0"}`, port, port, port)
	}
	first, firstInfo := leads()
	second, secondInfo := leads()

	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	dir := t.TempDir()
	stop := startZooKeeper(t, port, dir)
	defer func() { stop() }()

	probe := func(user string) (string, error) {
		c, err := New(Config{Masters: []string{fmt.Sprintf("zk://%s127.0.0.1:%d/mesos", user, port)}, CallTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.Probe(t.Context())
	}
	if _, err := probe("me:hush@"); !errors.Is(err, ErrNoLeader) {
		t.Errorf("before any master: %v", err)
	}

	acl := zk.DigestACL(zk.PermAll, "me", "hush")
	conn := connectZooKeeper(t, port, "me:hush")
	if _, err := conn.Create("/mesos", nil, 0, acl); err != nil {
		t.Fatal(err)
	}
	if _, err := probe("me:hush@"); !errors.Is(err, ErrNoLeader) || !strings.Contains(err.Error(), "no master is registered") {
		t.Errorf("without masters: %v", err)
	}
	if _, err := conn.Create("/mesos/log_replicas", nil, 0, acl); err != nil {
		t.Fatal(err)
	}
	node, err := conn.Create("/mesos/json.info_", firstInfo, zk.FlagEphemeral|zk.FlagSequence, acl)
	if err != nil {
		t.Fatal(err)
	}
	standby := connectZooKeeper(t, port, "me:hush")
	defer standby.Close()
	if _, err := standby.Create("/mesos/json.info_", secondInfo, zk.FlagEphemeral|zk.FlagSequence, acl); err != nil {
		t.Fatal(err)
	}
	t.Log("the leader is at", node)
	if got, err := probe("me:hush@"); err != nil || got != first.URL {
		t.Errorf("got %q, %v, want the first master %s", got, err, first.URL)
	}

	for user, name := range map[string]string{"": "no user", "me:wrong-planted@": "a wrong password", "you:hush@": "another user"} {
		_, err := probe(user)
		if err == nil || !strings.Contains(err.Error(), "not authenticated") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "planted") {
			t.Errorf("the error tells the password: %v", err)
		}
	}

	conn.Close() // the leader's session ends: its node goes
	if got, err := probe("me:hush@"); err != nil || got != second.URL {
		t.Errorf("after a failover: got %q, %v, want the second master %s", got, err, second.URL)
	}

	stop()
	if _, err := probe("me:hush@"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("ZooKeeper 127.0.0.1:%d", port)) {
		t.Errorf("with ZooKeeper down: %v", err)
	}
	stop = startZooKeeper(t, port, dir)
	again := connectZooKeeper(t, port, "me:hush")
	defer again.Close()
	if _, err := again.Create("/mesos/json.info_", firstInfo, zk.FlagEphemeral|zk.FlagSequence, acl); err != nil {
		t.Fatal(err)
	}
	// The standby's node outlives the restart with its session, which its client takes up again: it leads.
	if got, err := probe("me:hush@"); err != nil || got != second.URL && got != first.URL {
		t.Errorf("after a restart of ZooKeeper: got %q, %v", got, err)
	}
}
