// SPDX-License-Identifier: Apache-2.0

// Package manifests_test applies the installation manifests to a real API server and checks what they grant.
package manifests_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	mesosconfig "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	_ "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/scheme" // kube-scheduler's decoder knows MesosArgs
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/validation"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

const (
	namespace = "kube-mesos"
	scheduler = "kube-mesos-scheduler"
	limit     = time.Minute
)

func TestManifests(t *testing.T) {
	ctx := t.Context()
	root, err := cluster.RepositoryRoot()
	require.NoError(t, err)
	dir := filepath.Join(root, "manifests")
	c, err := cluster.Start(ctx, cluster.Options{Dir: t.TempDir(), ControllerManager: true, Logf: t.Logf})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	require.NoError(t, c.AddKwokNodes(ctx, cluster.Node{Name: "a"}, cluster.Node{Name: "b"}))

	for _, run := range []string{"first", "second"} {
		out, err := c.Apply(ctx, dir)
		require.NoError(t, err, "%s application", run)
		require.Contains(t, out, "deployment.apps/kube-mesos-scheduler")
	}

	t.Run("pods pass the namespaces' pod security", func(t *testing.T) {
		waitPods(ctx, t, c, namespace, 2)
		waitPods(ctx, t, c, "kube-mesos-node", 2) // one a node
	})

	t.Run("probes ask a port on which the scheduler's status is served", func(t *testing.T) {
		d, err := c.Client.AppsV1().Deployments(namespace).Get(ctx, scheduler, metav1.GetOptions{})
		require.NoError(t, err)
		args := mesosArgs(t, config(ctx, t, c))
		require.Equal(t, fmt.Sprintf("0.0.0.0:%d", port(t, d, "status")), args["statusAddress"])
		require.Equal(t, "/opt/kube-mesos/bin/kube-mesos-executor", args["executor"].(map[string]any)["path"])
	})

	t.Run("the scheduler's configuration", func(t *testing.T) { checkConfig(t, config(ctx, t, c)) })

	t.Run("examples name the scheduler and apply", func(t *testing.T) {
		files, err := filepath.Glob(filepath.Join(dir, "examples", "*.yaml"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			// These need what a dry run does not make, or a feature gate; the end-to-end tests apply every file in earnest.
			if name := filepath.Base(file); name == "preemption.yaml" || strings.HasPrefix(name, "gang") {
				continue
			}
			out, err := c.Kubectl(ctx, "apply", "--server-side", "--validate=strict", "--dry-run=server", "--filename="+file, "--output=yaml")
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(out, "schedulerName: "+scheduler), out)
		}
	})

	t.Run("the chart with other values", func(t *testing.T) { checkChart(ctx, t, c) })

	t.Run("rights", func(t *testing.T) { checkRights(ctx, t, c) })
	t.Run("rights against those of a kube-scheduler", func(t *testing.T) { compareRights(ctx, t, c) })
}

// config returns the configuration file in the ConfigMap.
func config(ctx context.Context, t *testing.T, c *cluster.Cluster) []byte {
	t.Helper()
	m, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-mesos-scheduler-config", metav1.GetOptions{})
	require.NoError(t, err)
	return []byte(m.Data["config.yaml"])
}

func mesosArgs(t *testing.T, config []byte) map[string]any {
	t.Helper()
	var doc struct {
		Profiles []struct {
			PluginConfig []struct {
				Name string         `json:"name"`
				Args map[string]any `json:"args"`
			} `json:"pluginConfig"`
		} `json:"profiles"`
	}
	require.NoError(t, yaml.Unmarshal(config, &doc))
	for _, p := range doc.Profiles[0].PluginConfig {
		if p.Name == "Mesos" {
			return p.Args
		}
	}
	t.Fatal("no args for Mesos")
	return nil
}

// checkConfig reads the configuration with kube-scheduler's own strict decoder and checks what the plugin needs of it.
func checkConfig(t *testing.T, data []byte) {
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	require.NoError(t, err)
	config, ok := object.(*schedulerconfig.KubeSchedulerConfiguration)
	require.True(t, ok, "%T", object)
	require.Equal(t, namespace, config.LeaderElection.ResourceNamespace)
	require.Equal(t, scheduler, config.LeaderElection.ResourceName)
	require.InDelta(t, 1000, config.ClientConnection.QPS, 0)
	require.Len(t, config.Profiles, 1)
	profile := config.Profiles[0]
	require.Equal(t, scheduler, profile.SchedulerName)
	require.Contains(t, profile.Plugins.MultiPoint.Enabled, schedulerconfig.Plugin{Name: "Mesos"})
	require.Equal(t, []schedulerconfig.Plugin{{Name: "DefaultBinder"}}, profile.Plugins.Bind.Disabled)
	require.Equal(t, []schedulerconfig.Plugin{{Name: "DefaultPreemption"}}, profile.Plugins.PostFilter.Disabled)
	checked := 0
	for _, p := range profile.PluginConfig {
		switch args := p.Args.(type) {
		case *schedulerconfig.PodTopologySpreadArgs:
			require.Equal(t, schedulerconfig.ListDefaulting, args.DefaultingType)
			require.Empty(t, args.DefaultConstraints)
			checked++
		case *mesosconfig.MesosArgs:
			require.NoError(t, validation.ValidateMesosArgs(nil, args).ToAggregate())
			require.Equal(t, namespace, args.StateConfigMap.Namespace)
			require.Equal(t, "kube-mesos-scheduler-framework", args.StateConfigMap.Name)
			checked++
		}
	}
	require.Equal(t, 2, checked)
}

func port(t *testing.T, d *appsv1.Deployment, name string) int32 {
	t.Helper()
	container := d.Spec.Template.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		require.Equal(t, name, probe.HTTPGet.Port.StrVal)
	}
	for _, p := range container.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	t.Fatalf("no port %s", name)
	return 0
}

func waitPods(ctx context.Context, t *testing.T, c *cluster.Cluster, namespace string, n int) {
	t.Helper()
	require.NoError(t, cluster.WaitAtMost(ctx, limit, fmt.Sprintf("%d pods in %s", n, namespace), func(ctx context.Context) error {
		pods, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) != n {
			err = fmt.Errorf("there are %d", len(pods.Items))
		}
		return err
	}))
}

// checkRights asks the API server what the service account may do.
func checkRights(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, namespace, scheduler)
	require.NoError(t, err)
	restConfig, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(restConfig)
	require.NoError(t, err)
	for _, tt := range []struct {
		verb, group, resource, namespace, name string
		want                                   bool
	}{
		{"list", "", "pods", "", "", true},
		{"patch", "", "pods", "default", "x", true},
		{"create", "", "pods/binding", "default", "x", true},
		{"patch", "", "pods/status", "default", "x", true},
		{"patch", "", "nodes", "", "x", true},
		{"get", "", "namespaces", "", "kube-system", true},
		{"create", "", "configmaps", namespace, "", true},
		{"update", "", "configmaps", namespace, "kube-mesos-scheduler-framework", true},
		{"create", "coordination.k8s.io", "leases", namespace, "", true},
		{"update", "coordination.k8s.io", "leases", namespace, scheduler, true},
		{"get", "", "configmaps", "kube-system", "extension-apiserver-authentication", true},

		{"create", "", "pods", "default", "", false},
		{"create", "", "pods/eviction", "default", "x", false},
		{"delete", "", "nodes", "", "x", false},
		{"update", "", "nodes", "", "x", false},
		{"patch", "", "nodes/status", "", "x", false},
		{"get", "", "secrets", namespace, "x", false},
		{"get", "", "configmaps", namespace, "kube-mesos-scheduler-config", false},
		{"update", "", "configmaps", "default", "kube-mesos-scheduler-framework", false},
		{"delete", "", "configmaps", namespace, "kube-mesos-scheduler-framework", false},
		{"update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler", false},
		{"create", "coordination.k8s.io", "leases", "kube-system", "", false},
		{"impersonate", "", "users", "", "x", false},
	} {
		resource, subresource, _ := strings.Cut(tt.resource, "/")
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: tt.verb, Group: tt.group, Resource: resource, Subresource: subresource, Namespace: tt.namespace, Name: tt.name,
			}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		if review.Status.Allowed != tt.want {
			t.Errorf("%s %s/%s %s/%s: allowed is %t, want %t", tt.verb, tt.group, tt.resource, tt.namespace, tt.name, review.Status.Allowed, tt.want)
		}
	}
}

// compareRights compares the ClusterRole with those that the API server gives a kube-scheduler of its version, so that
// an upgrade of Kubernetes shows what has to change.
func compareRights(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	stock := slices.Concat(rights(ctx, t, c, "system:kube-scheduler"), rights(ctx, t, c, "system:volume-scheduler"))
	ours := rights(ctx, t, c, scheduler)
	var got []string
	for _, r := range stock {
		if !slices.Contains(ours, r) {
			got = append(got, "- "+r)
		}
	}
	for _, r := range ours {
		if !slices.Contains(stock, r) {
			got = append(got, "+ "+r)
		}
	}
	slices.Sort(got)
	want := []string{
		"+ patch nodes",
		"+ patch pods",
		// Leases: a Role in our namespace.
		"- create leases.coordination.k8s.io",
		"- get leases.coordination.k8s.io kube-scheduler",
		"- list leases.coordination.k8s.io kube-scheduler",
		"- update leases.coordination.k8s.io kube-scheduler",
		"- watch leases.coordination.k8s.io kube-scheduler",
		// Only for coordinated leader election, which is off.
		"- create leasecandidates.coordination.k8s.io",
		"- delete leasecandidates.coordination.k8s.io",
		"- deletecollection leasecandidates.coordination.k8s.io",
		"- get leasecandidates.coordination.k8s.io",
		"- list leasecandidates.coordination.k8s.io",
		"- patch leasecandidates.coordination.k8s.io",
		"- update leasecandidates.coordination.k8s.io",
		"- watch leasecandidates.coordination.k8s.io",
		// A group that no longer exists.
		"- get replicasets.extensions",
		"- list replicasets.extensions",
		"- watch replicasets.extensions",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights that differ from a kube-scheduler's (-want,+got):\n%s", diff)
	}
}

// rights returns the rules of a ClusterRole one by one, each once.
func rights(ctx context.Context, t *testing.T, c *cluster.Cluster, role string) []string {
	t.Helper()
	r, err := c.Client.RbacV1().ClusterRoles().Get(ctx, role, metav1.GetOptions{})
	require.NoError(t, err)
	var all []string
	for _, rule := range r.Rules {
		all = append(all, single(rule)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func single(rule rbacv1.PolicyRule) []string {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []string
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			if group != "" {
				resource += "." + group
			}
			for _, verb := range rule.Verbs {
				for _, name := range names {
					all = append(all, strings.TrimSpace(verb+" "+resource+" "+name))
				}
			}
		}
	}
	return all
}
