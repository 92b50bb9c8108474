// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge"
)

// The executor must stay small and build without cgo: the scheduler's dependencies are none of its own.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		if pkg == "k8s.io/kubernetes" || strings.HasPrefix(pkg, "k8s.io/kubernetes/") {
			t.Errorf("The executor depends on %s", pkg)
		}
	}
}

func TestBadStartsAreRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("no kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := func(more ...string) []string {
		return append([]string{"--kubeconfig=" + file, "--node-name=node-1"}, more...)
	}
	environment := map[string]string{
		"MESOS_FRAMEWORK_ID": "f", "MESOS_EXECUTOR_ID": "e", "MESOS_AGENT_ENDPOINT": "127.0.0.1:5051", "MESOS_SANDBOX": dir,
	}
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want []string
	}{
		{name: "nothing given", want: []string{"--kubeconfig=:", "--node-name=:"}},
		{name: "node name", args: good("--node-name=Node_1"), want: []string{"--node-name=Node_1"}},
		{name: "several at once", args: good("--bind-timeout=0s", "--kill-margin=-1s", "--force-delete-after=-2s"),
			want: []string{"--bind-timeout=0s", "--kill-margin=-1s", "--force-delete-after=-2s"}},
		{name: "no duration", args: good("--bind-timeout=soon"), want: []string{`"soon"`, "--bind-timeout"}},
		{name: "relative cgroup root", args: good("--cgroup-root=cgroup"), want: []string{"--cgroup-root=cgroup"}},
		{name: "cgroup root that is a file", args: good("--cgroup-root=" + file), want: []string{"--cgroup-root=" + file}},
		{name: "verbosity", args: good("--v=x"), want: []string{`"x"`, "--v"}},
		{name: "unknown flag", args: good("--nonsense"), want: []string{"nonsense"}},
		{name: "argument", args: good("more"), want: []string{`"more"`}},
		{name: "kubeconfig that is none", args: good(), want: []string{"--kubeconfig=" + file}},
		{name: "no kubeconfig", args: good("--kubeconfig=/no/such/file"), want: []string{"--kubeconfig=/no/such/file"}},
		{name: "no agent", args: good(), env: map[string]string{"MESOS_AGENT_ENDPOINT": "", "MESOS_FRAMEWORK_ID": ""}, want: []string{"MESOS_AGENT_ENDPOINT", "MESOS_FRAMEWORK_ID"}},
		{name: "bad endpoint", args: good(), env: map[string]string{"MESOS_AGENT_ENDPOINT": "host"}, want: []string{"MESOS_AGENT_ENDPOINT", `"host"`}},
		{name: "bad duration", args: good(), env: map[string]string{"MESOS_RECOVERY_TIMEOUT": "15m"}, want: []string{"MESOS_RECOVERY_TIMEOUT", `"15m"`}},
		{name: "bad switch", args: good(), env: map[string]string{"LIBPROCESS_SSL_ENABLED": "on"}, want: []string{"LIBPROCESS_SSL_ENABLED", `"on"`}},
		{name: "no sandbox", args: good(), env: map[string]string{"MESOS_SANDBOX": "/no/such/dir"}, want: []string{"MESOS_SANDBOX", "/no/such/dir"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for k, v := range environment {
				t.Setenv(k, v)
			}
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			code, text := captured(t, tt.args)
			if code != bridge.ExitUsage {
				t.Errorf("Exit code %d, want %d", code, bridge.ExitUsage)
			}
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q does not name %q", text, want)
				}
			}
		})
	}
}

// captured runs the program's main function and returns what it wrote to stderr.
func captured(t *testing.T, args []string) (int, string) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	old := os.Stderr
	os.Stderr = f
	code := run(args)
	os.Stderr = old
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return code, string(b)
}
