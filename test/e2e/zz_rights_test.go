// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// TestRights comes last. It compares what the scheduler has asked of the API server in all tests with what the manifests
// allow it: nothing was refused, and no right beyond those of every kube-scheduler is there for nothing.
func TestRights(t *testing.T) {
	const account = "system:serviceaccount:kube-mesos:kube-mesos-scheduler"
	refused, err := shared.Forbidden(account)
	require.NoError(t, err)
	for _, r := range refused {
		t.Errorf("a right is missing: %s", r)
	}

	if f := flag.Lookup("test.run"); f != nil && f.Value.String() != "" {
		t.Skip("only all tests together use all rights")
	}
	requests, err := shared.Requests()
	require.NoError(t, err)
	used := map[string]bool{}
	for _, r := range requests {
		if r.User == account {
			used[r.Verb+" "+r.Resource] = true
		}
	}
	require.NotEmpty(t, used)

	ctx, rbac := t.Context(), shared.Client.RbacV1()
	var stock, ours []string
	for _, name := range []string{"system:kube-scheduler", "system:volume-scheduler"} {
		role, err := rbac.ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		require.NoError(t, err)
		stock = append(stock, expand(role.Rules)...)
	}
	role, err := rbac.ClusterRoles().Get(ctx, cluster.SchedulerName, metav1.GetOptions{})
	require.NoError(t, err)
	ours = expand(role.Rules)
	local, err := rbac.Roles(cluster.SchedulerNamespace).Get(ctx, cluster.SchedulerName, metav1.GetOptions{})
	require.NoError(t, err)
	ours = append(ours, expand(local.Rules)...)
	for _, right := range ours {
		if !used[right] && !slices.Contains(stock, right) {
			t.Errorf("no test has used a right: %s", right)
		}
	}
}

// expand writes rules one verb and resource at a time, as cluster.Request does.
func expand(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resource, subresource, _ := strings.Cut(resource, "/")
				if group != "" {
					resource += "." + group
				}
				if subresource != "" {
					resource += "/" + subresource
				}
				for _, verb := range rule.Verbs {
					out = append(out, verb+" "+resource)
				}
			}
		}
	}
	return out
}
