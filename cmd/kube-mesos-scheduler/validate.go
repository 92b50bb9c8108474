// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/explain"
)

// probeLimit bounds the wait for a Mesos master in a dry check.
const probeLimit = 30 * time.Second

// validateConfig checks a configuration file as a start would, and then whether a Mesos master leads and takes the
// credential. It opens no listener, talks to no API server, and subscribes nothing.
func validateConfig(ctx context.Context, file string, out io.Writer) error {
	if file == "" {
		return errors.New("--validate-config needs --config: it checks that file")
	}
	config, err := options.LoadConfigFromFile(klog.FromContext(ctx), file)
	if err != nil {
		return explained(file, err)
	}
	if err := validation.ValidateKubeSchedulerConfiguration(config); err != nil {
		return explained(file, err)
	}
	system := mesos.NewSystem()
	if err := buildProfiles(ctx, config, system); err != nil {
		return explained(file, err)
	}
	names := make([]string, 0, len(config.Profiles))
	for i := range config.Profiles {
		names = append(names, config.Profiles[i].SchedulerName)
	}
	slices.Sort(names)
	fmt.Fprintf(out, "%s: the configuration is right; profiles: %s\n", file, strings.Join(names, ", "))
	if !system.Used() {
		return explained(file, fmt.Errorf("no profile enables the plugin %s: this would be a plain kube-scheduler", mesos.Name))
	}
	for _, w := range system.Warnings() {
		fmt.Fprintf(out, "warning: %s\n", w)
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	master, err := system.Probe(ctx)
	if err != nil {
		return fmt.Errorf("no Mesos master can be used: %w", err)
	}
	fmt.Fprintf(out, "the Mesos master %s leads and lets the framework speak\n", master)
	return nil
}

// explained adds to an error of a configuration file what is wrong with its form, field by field.
func explained(file string, err error) error {
	err = fmt.Errorf("%s: %w", file, err)
	data, readErr := os.ReadFile(file)
	if readErr != nil {
		return err
	}
	for _, problem := range explain.Problems(data) {
		err = fmt.Errorf("%w\n%s: %s", err, file, problem)
	}
	return err
}

// buildProfiles makes every plugin of every profile, as a start does, with a client that reaches nobody.
func buildProfiles(ctx context.Context, config *schedulerconfig.KubeSchedulerConfiguration, system *mesos.System) error {
	nobody := &rest.Config{Host: "http://127.0.0.1:1"}
	client, err := kubernetes.NewForConfig(nobody)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(nobody)
	if err != nil {
		return err
	}
	sched, err := scheduler.New(ctx, client, scheduler.NewInformerFactory(client, 0, nil),
		dynamicinformer.NewDynamicSharedInformerFactory(objects, 0),
		func(string) events.EventRecorderLogger { return silent{} },
		scheduler.WithComponentConfigVersion(config.TypeMeta.APIVersion),
		scheduler.WithKubeConfig(nobody),
		scheduler.WithProfiles(config.Profiles...),
		scheduler.WithPercentageOfNodesToScore(config.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{mesos.Name: system.Factory}),
		scheduler.WithPodMaxBackoffSeconds(config.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(config.PodInitialBackoffSeconds),
		scheduler.WithExtenders(config.Extenders...),
		scheduler.WithParallelism(config.Parallelism),
	)
	if err != nil {
		return err
	}
	return check(sched)
}

// silent records no events.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

func (s silent) WithLogger(klog.Logger) events.EventRecorderLogger { return s }
