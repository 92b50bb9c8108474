// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/session"
)

const name = "kube-mesos-scheduler"

// Times of starting and ending.
const (
	settleLimit   = 10 * time.Second // scheduling begins without Mesos after
	endLimit      = 2 * time.Second  // for the session to end after a signal
	failoverPause = time.Minute      // before the process ends when another instance leads
)

// newCommand returns kube-scheduler's command with the plugin. Its flags are kube-scheduler's own; app.NewSchedulerCommand
// cannot be used because it leaves no room between the scheduler's making and its run.
func newCommand() *cobra.Command {
	opts := options.NewOptions()
	dry := false
	opts.Flags.FlagSet("mesos").BoolVar(&dry, "validate-config", false, "Only check the file of --config, and that a Mesos master leads and takes the credential; start nothing.")
	cmd := &cobra.Command{
		Use: name,
		Long: `The Kubernetes scheduler with the plugin Mesos. It does all that kube-scheduler does; in profiles that enable
the plugin, pods are placed by the offers of a Mesos master, and each one's resources are held by a Mesos task.
It runs as a second scheduler, and pods choose it by schedulerName.`,
		PersistentPreRunE: func(*cobra.Command, []string) error { return opts.ComponentGlobalsRegistry.Set() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dry {
				return validateConfig(cmd.Context(), opts.ConfigFile, cmd.OutOrStdout())
			}
			return run(cmd, opts)
		},
		Args: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				if arg != "" {
					return fmt.Errorf("%q does not take any arguments, got %q", cmd.CommandPath(), args)
				}
			}
			return nil
		},
	}
	verflag.AddFlags(opts.Flags.FlagSet("global"))
	globalflag.AddGlobalFlags(opts.Flags.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, f := range opts.Flags.FlagSets {
		cmd.Flags().AddFlagSet(f)
	}
	cols, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *opts.Flags, cols)
	if err := cmd.MarkFlagFilename("config", "yaml", "yml", "json"); err != nil {
		klog.Background().Error(err, "Failed to mark flag filename")
	}
	return cmd
}

// run is kube-scheduler's own run function with the Mesos framework around it.
func run(cmd *cobra.Command, opts *options.Options) error {
	verflag.PrintAndExitIfRequested()
	fg := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, fg); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n", err)
		os.Exit(1)
	}
	cliflag.PrintFlags(cmd.Flags())
	if opts.InformerName == nil {
		informers, err := cache.NewInformerName(name)
		if err != nil {
			return err
		}
		opts.InformerName = informers
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	system := mesos.NewSystem()
	cc, sched, err := app.Setup(ctx, opts, app.WithPlugin(mesos.Name, system.Factory))
	if err == nil {
		err = check(sched)
	}
	if err != nil {
		if opts.ConfigFile == "" {
			return err
		}
		return explained(opts.ConfigFile, err)
	}
	if mutable, ok := fg.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()

	if cc.LeaderElection != nil {
		lease := newLease(cc.LeaderElection.Lock, cc.LeaderElection.LeaseDuration)
		cc.LeaderElection.Lock = lease
		system.LeadWhile(lease.held)
	}
	leader := newLeader(ctx, system)
	leader.wrap(sched)
	stop := server.SetupSignalHandler()
	go func() {
		<-stop
		system.End()
		leader.stop()
		cancel()
	}()
	if err := serveStatus(ctx, system, cc); err != nil {
		return err
	}
	return app.Run(ctx, cc, sched)
}

func check(sched *scheduler.Scheduler) error {
	profiles := map[string]framework.Framework{}
	for name, p := range sched.Profiles {
		profiles[name] = p
	}
	return mesos.CheckProfiles(profiles)
}

// leader runs the Mesos framework from the moment that this process really begins to schedule.
type leader struct {
	system *mesos.System
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
	begun  chan struct{}
	done   chan struct{}
}

func newLeader(ctx context.Context, system *mesos.System) *leader {
	ctx, cancel := context.WithCancel(ctx)
	return &leader{system: system, ctx: ctx, cancel: cancel, begun: make(chan struct{}), done: make(chan struct{})}
}

// wrap has the first call of NextEntity start the framework: it is never called on a standby. Nothing is taken from the
// queue before the framework is subscribed and reconciled, for a moment: attempts before would only fail.
func (l *leader) wrap(sched *scheduler.Scheduler) {
	if !l.system.Used() {
		return
	}
	next := sched.NextEntity
	sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		l.once.Do(func() {
			close(l.begun)
			go l.lead()
			l.settle()
		})
		return next(logger)
	}
}

func (l *leader) settle() {
	limit := time.NewTimer(settleLimit)
	defer limit.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !l.system.Settled() {
		select {
		case <-poll.C:
		case <-limit.C:
			return
		case <-l.ctx.Done():
			return
		}
	}
}

func (l *leader) lead() {
	defer close(l.done)
	err := l.system.Lead(l.ctx)
	if errors.Is(err, session.ErrFailedOver) {
		klog.FromContext(l.ctx).Error(err, "Another scheduler leads this Mesos framework; ending in a while, to leave it alone", "pause", failoverPause)
		select {
		case <-time.After(failoverPause):
		case <-l.ctx.Done():
			return
		}
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	if err != nil && l.ctx.Err() == nil {
		klog.FromContext(l.ctx).Error(err, "The Mesos framework ended")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

// stop ends the framework: the master sees it disconnect and keeps its tasks.
func (l *leader) stop() {
	l.cancel()
	select {
	case <-l.begun:
	default:
		return
	}
	select {
	case <-l.done:
	case <-time.After(endLimit):
	}
}
