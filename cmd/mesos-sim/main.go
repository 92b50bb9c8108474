// SPDX-License-Identifier: Apache-2.0

// Command mesos-sim runs a simulated Mesos cluster on loopback: masters with the v1 scheduler and operator APIs, and
// agents that start real executors.
//
//	mesos-sim --listen 127.0.0.1:5050 \
//	    --agent 'name=node-1 resources=cpus:8;mem:16384;disk:100000;ports:[31000-32000] attributes=rack:r1'
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == guardArgument {
		runGuard()
		return
	}
	if err := run(); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "mesos-sim: "+err.Error())
		os.Exit(1)
	}
}

// frugal leaves the machine to what is measured with the simulator. All its work stands behind one lock, so that a second
// processor only adds wake-ups, and most of the collector's work is saved by a larger heap. GOMAXPROCS and GOGC win.
func frugal() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

func run() error {
	frugal()
	var (
		options   mesossim.Options
		agents    []string
		synthetic bool
		control   string
		rival     string
		offerLife time.Duration
	)
	flags := pflag.NewFlagSet("mesos-sim", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&options.Listen, "listen", "127.0.0.1:5050", "address of the first master")
	flags.IntVar(&options.Masters, "masters", 1, "number of masters; the first leads")
	flags.StringArrayVar(&agents, "agent", nil, "an agent, as space separated key=value pairs: name, hostname, resources, attributes, region, zone, listen, isolation, synthetic, count (repeatable)")
	flags.StringVar(&options.WorkDir, "work-dir", "", "folder for executors' sandboxes (default: a temporary one that is removed)")
	flags.BoolVar(&synthetic, "synthetic", false, "agents answer for their executors without processes")
	flags.DurationVar(&options.Timing.AllocationInterval, "allocation-interval", time.Second, "pause between two runs of the allocator")
	flags.DurationVar(&offerLife, "offer-timeout", 0, "rescind offers after this time (0: never)")
	flags.DurationVar(&options.Timing.PingTimeout, "agent-ping-timeout", 15*time.Second, "an agent is unreachable after --max-agent-ping-timeouts of these")
	flags.IntVar(&options.Timing.MaxPingTimeouts, "max-agent-ping-timeouts", 5, "pings missed before an agent is unreachable")
	flags.DurationVar(&options.Timing.ExecutorReregister, "executor-reregistration-timeout", 2*time.Second, "time for executors to come back after a restart of their agent")
	flags.StringSliceVar(&options.Roles, "roles", nil, "the only roles that frameworks may have (default: any)")
	flags.StringToStringVar(&options.Quota, "quota", nil, "limits by role, as role='cpus:4;mem:1024'")
	flags.StringToStringVar(&options.Credentials, "credential", nil, "principal=secret of frameworks, which then must authenticate")
	flags.StringVar(&control, "control", "", "address of the control endpoint for faults and state (default: none)")
	flags.StringVar(&rival, "rival", "", "run a second framework of this role that takes offers")
	klogFlags(flags)
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	options.Timing.OfferTimeout = offerLife
	if synthetic {
		options.Synthetic = &mesossim.Script{}
	}
	for _, text := range agents {
		parsed, err := parseAgents(text)
		if err != nil {
			return fmt.Errorf("--agent %q: %w", text, err)
		}
		options.Agents = append(options.Agents, parsed...)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	guard, err := startGuard()
	if err != nil {
		return fmt.Errorf("guard of the executors: %w", err)
	}
	defer guard.end()
	options.OnProcess = guard.note

	cluster, err := mesossim.Start(ctx, options)
	if err != nil {
		return err
	}
	defer cluster.Close()
	fmt.Printf("master: %s\n", strings.Join(cluster.URLs(), ","))
	if control != "" {
		listener, err := net.Listen("tcp", control)
		if err != nil {
			return fmt.Errorf("--control: %w", err)
		}
		fmt.Printf("control: %s\n", listener.Addr())
		go cluster.ServeControl(listener)
	}
	if rival != "" {
		r, err := cluster.StartRival(ctx, mesossim.RivalOptions{Role: rival})
		if err != nil {
			return fmt.Errorf("--rival: %w", err)
		}
		defer r.Stop()
	}
	fmt.Printf("agents: %d\n", len(options.Agents))
	<-ctx.Done()
	klog.FromContext(ctx).V(2).Info("Ending")
	return nil
}
