// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Ports come from below the range that the kernel takes the near ends of connections from (32768 and up), so that no
// connection can sit on the port of a server that is away for a while.
const (
	firstPort = 20000
	lastPort  = 32000
)

var ports = struct {
	sync.Mutex
	held map[int]*os.File
}{held: map[int]*os.File{}}

// FreePort returns a TCP port on 127.0.0.1 on which nothing listens, and which no other process that asks this
// function gets until ReleasePort or the end of this process.
func FreePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	dir := filepath.Join(os.TempDir(), "kube-mesos-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, err
	}
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if _, taken := ports.held[port]; taken {
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			return 0, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil || !free(port) {
			f.Close()
			continue
		}
		ports.held[port] = f
		return port, nil
	}
	return 0, errors.New("no free port found")
}

func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// ReleasePort gives back a port that FreePort returned.
func ReleasePort(port int) {
	ports.Lock()
	defer ports.Unlock()
	if f, ok := ports.held[port]; ok {
		f.Close()
		delete(ports.held, port)
	}
}

// freePorts returns n ports.
func freePorts(n int) ([]int, error) {
	var got []int
	for range n {
		port, err := FreePort()
		if err != nil {
			for _, p := range got {
				ReleasePort(p)
			}
			return nil, err
		}
		got = append(got, port)
	}
	return got, nil
}
