// SPDX-License-Identifier: Apache-2.0

// kube-mesos-executor is the Mesos executor of kube-mesos-scheduler. It runs on each Mesos agent beside the host's own
// kubelet and keeps Mesos tasks and the pods that they stand for in step: it starts and runs no containers itself.
package main

import (
	"context"
	"errors"
	goflag "flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/pods"
	"github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/supervisor"
)

// Hidden flags that tell the two processes apart, and that try a newer version.
const (
	bridgeFlag = "run-bridge"
	checkFlag  = "check"
)

// Memory that the garbage collector keeps to: together less than the executor's share of a Mesos agent. GOMEMLIMIT is
// for the bridge, which does the work.
const (
	supervisorMemory = 16 << 20
	bridgeMemory     = 80 << 20
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) > 0 {
		if command, ok := commands[args[0]]; ok {
			if err := command(args[1:]); err != nil {
				return refuse(err)
			}
			return bridge.ExitDone
		}
	}
	opts := bridge.DefaultOptions()
	opts.Version = version
	var runBridge, check, showVersion bool
	fs := pflag.NewFlagSet("kube-mesos-executor", pflag.ContinueOnError)
	opts.AddFlags(fs)
	fs.BoolVar(&runBridge, bridgeFlag, false, "")
	fs.BoolVar(&check, checkFlag, false, "")
	for _, name := range []string{bridgeFlag, checkFlag} {
		_ = fs.MarkHidden(name)
	}
	fs.BoolVar(&showVersion, "version", false, "Print the version and end.")
	addLogFlags(fs)
	fs.Usage = func() {
		fmt.Fprintf(os.Stderr, "Usage: kube-mesos-executor --kubeconfig=PATH --node-name=NODE [flags]\n\nStarted by a Mesos agent for the tasks of kube-mesos-scheduler.\n\n%s\n       kube-mesos-executor install FOLDER  puts this program into a folder of the host and stays\n       kube-mesos-executor metrics FOLDER  prints the metrics of all executors in an agent's work folder\n", fs.FlagUsages())
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return bridge.ExitDone
		}
		return refuse(err)
	}
	if showVersion {
		fmt.Println(program, version)
		return bridge.ExitDone
	}
	if fs.NArg() > 0 {
		return refuse(fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	if err := opts.Validate(); err != nil {
		return refuse(err)
	}
	if check {
		return bridge.ExitDone
	}
	env, err := bridge.ReadEnvironment(os.Getenv)
	if err != nil {
		return refuse(err)
	}
	if runBridge {
		if os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(bridgeMemory)
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		ctx = klog.NewContext(ctx, klog.Background().WithName("bridge"))
		return bridge.Run(ctx, opts, env)
	}
	// Only at the start: later a kubeconfig that is missing for a moment is waited for.
	if err := pods.Check(opts.Kubeconfig); err != nil {
		return refuse(fmt.Errorf("--kubeconfig=%s: %w", opts.Kubeconfig, err))
	}
	if env.TLS != nil {
		if err := env.TLS.Check(); err != nil {
			return refuse(fmt.Errorf("environment variables LIBPROCESS_SSL_*: %w", err))
		}
	}
	debug.SetMemoryLimit(supervisorMemory)
	ctx := klog.NewContext(context.Background(), klog.Background().WithName("supervisor"))
	version, err := supervisor.CurrentVersion(append([]string{"--" + checkFlag}, args...))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Upgrades are not looked for")
	}
	return supervisor.Run(ctx, supervisor.Config{
		Args:    append([]string{"--" + bridgeFlag}, args...),
		Final:   bridge.Final,
		Version: version,
	})
}

// addLogFlags adds --v alone of klog's flags. Logs go to stderr, which the agent keeps in the sandbox.
func addLogFlags(fs *pflag.FlagSet) {
	all := goflag.NewFlagSet("klog", goflag.ContinueOnError)
	klog.InitFlags(all)
	v := all.Lookup("v")
	v.Usage = "How much is logged: 2 shows each task's states, 4 more."
	fs.AddGoFlag(v)
}

// refuse says what is wrong with the way the program was started.
func refuse(err error) int {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(os.Stderr, "kube-mesos-executor: "+line)
	}
	return bridge.ExitUsage
}
