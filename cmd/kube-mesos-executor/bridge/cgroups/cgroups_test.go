// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/cgroups/cgroupstest"
)

const uid = "0a1b-2c3d"

func TestLook(t *testing.T) {
	tests := []struct {
		name string
		tree map[string]string // file -> content; a path that ends with / is a directory
		want State
	}{
		{name: "no kubelet", tree: map[string]string{"system.slice/cgroup.procs": "1\n"}, want: Invisible},
		{name: "nothing at all", want: Invisible},
		{name: "v2 systemd, no cgroup of the pod", tree: map[string]string{"kubepods.slice/": ""}, want: Empty},
		{name: "v2 systemd, guaranteed", tree: map[string]string{"kubepods.slice/kubepods-pod0a1b_2c3d.slice/cgroup.events": "populated 1\nfrozen 0\n"}, want: Populated},
		{name: "v2 systemd, burstable", tree: map[string]string{"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b_2c3d.slice/cgroup.events": "frozen 0\npopulated 1\n"}, want: Populated},
		{name: "v2 systemd, best effort", tree: map[string]string{"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0a1b_2c3d.slice/cgroup.events": "populated 1\n"}, want: Populated},
		{name: "v2 unpopulated", tree: map[string]string{"kubepods.slice/kubepods-pod0a1b_2c3d.slice/cgroup.events": "populated 0\nfrozen 0\n"}, want: Empty},
		{name: "v2 cgroupfs", tree: map[string]string{"kubepods/burstable/pod0a1b-2c3d/cgroup.events": "populated 1\n"}, want: Populated},
		{name: "v2 below a cgroup root", tree: map[string]string{"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod0a1b_2c3d.slice/cgroup.events": "populated 1\n"}, want: Populated},
		{name: "v1 cgroupfs, process in a container", tree: map[string]string{
			"memory/kubepods/burstable/pod0a1b-2c3d/cgroup.procs":    "",
			"memory/kubepods/burstable/pod0a1b-2c3d/c1/cgroup.procs": "",
			"memory/kubepods/burstable/pod0a1b-2c3d/c2/cgroup.procs": "17\n",
		}, want: Populated},
		{name: "v1 cgroupfs, no process", tree: map[string]string{
			"memory/kubepods/pod0a1b-2c3d/cgroup.procs":    "",
			"memory/kubepods/pod0a1b-2c3d/c1/cgroup.procs": "",
			"pids/kubepods/": "",
		}, want: Empty},
		{name: "v1, one controller is enough", tree: map[string]string{
			"cpu/kubepods/": "",
			"memory/kubepods/pod0a1b-2c3d/cgroup.procs":  "",
			"systemd/kubepods/pod0a1b-2c3d/cgroup.procs": "9\n",
		}, want: Populated},
		{name: "v1 systemd", tree: map[string]string{"memory/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0a1b_2c3d.slice/c/cgroup.procs": "9\n"}, want: Populated},
		{name: "another pod's", tree: map[string]string{
			"kubepods/pod0a1b-2c3/cgroup.events":   "populated 1\n",
			"kubepods/pod0a1b-2c3de/cgroup.events": "populated 1\n",
		}, want: Empty},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, content := range tt.tree {
				path := filepath.Join(root, name)
				dir := filepath.Dir(path)
				if strings.HasSuffix(name, "/") {
					dir = path
				}
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if dir != path {
					if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := NewReader(root).Look(time.Now(), uid); got != tt.want {
				t.Errorf("Look gives %v, want %v", got, tt.want)
			}
		})
	}
}

// A kubelet can be started after the executor, and its hierarchy can go.
func TestHierarchyComesAndGoes(t *testing.T) {
	root := t.TempDir()
	r := NewReader(root)
	now := time.Now()
	want := func(at time.Duration, state State) {
		t.Helper()
		if got := r.Look(now.Add(at), uid); got != state {
			t.Errorf("After %v: %v, want %v", at, got, state)
		}
	}
	want(0, Invisible)
	pod := filepath.Join(root, "kubepods", "pod"+uid)
	if err := os.MkdirAll(pod, 0o755); err != nil {
		t.Fatal(err)
	}
	want(searchAgain, Empty)
	if err := os.WriteFile(filepath.Join(pod, "cgroup.events"), []byte("populated 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want(searchAgain, Populated)
	if err := os.RemoveAll(filepath.Join(root, "kubepods")); err != nil {
		t.Fatal(err)
	}
	want(searchAgain, Invisible)
}

func TestOddUIDs(t *testing.T) {
	r := NewReader(t.TempDir())
	for _, uid := range []string{"", "../x", "a/b", "\x00"} {
		if got := r.Look(time.Now(), uid); got != Invisible {
			t.Errorf("Look(%q) = %v", uid, got)
		}
	}
}

func TestUnreadableIsInvisible(t *testing.T) {
	root := t.TempDir()
	// A directory in place of the file cannot be read, not even by root.
	if err := os.MkdirAll(filepath.Join(root, "kubepods", "pod"+uid, "cgroup.events"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := NewReader(root).Look(time.Now(), uid); got != Invisible {
		t.Errorf("Look gives %v", got)
	}
}

// The same with the kernel's cgroups and a real process, where this machine lets us.
func TestRealCgroup(t *testing.T) {
	root := cgroupstest.Kubepods(t)
	r := NewReader(root)
	want := func(state State, when string) {
		t.Helper()
		deadline := time.Now().Add(10 * time.Second)
		for {
			got := r.Look(time.Now(), uid)
			if got == state {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v, want %v", when, got, state)
			}
			time.Sleep(time.Millisecond)
		}
	}
	want(Empty, "before the process")
	stop := cgroupstest.Start(t, root, uid)
	want(Populated, "with the process")
	stop()
	want(Empty, "after the process")
}
