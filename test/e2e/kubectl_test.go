// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	debugv1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/test/cluster"
)

// hostIP is an address of this host that the API server's proxy may ask: not a loopback one.
func hostIP(t *testing.T) string {
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this host has no address but loopback ones")
	return ""
}

// kubectlMesos runs the plugin.
func (w *world) kubectlMesos(args ...string) (stdout, stderr string, err error) {
	w.Helper()
	root, err := cluster.RepositoryRoot()
	w.ok(err)
	cmd := exec.CommandContext(w.ctx, filepath.Join(root, "bin", "kubectl-mesos"), args...)
	cmd.Env = append(os.Environ(), "HOME="+w.TempDir(), "KUBECONFIG=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// expose makes a pod object for the scheduler that leads, as the Deployment would: the API server proxies to its address.
func (w *world) expose(ip string, port int) {
	w.Helper()
	var holder string
	w.waitFor("a leader", func() error {
		lease, err := shared.Client.CoordinationV1().Leases(cluster.SchedulerNamespace).Get(w.ctx, cluster.SchedulerName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return fmt.Errorf("nobody leads")
		}
		holder, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
		return nil
	})
	no, yes := false, true
	pods := shared.Client.CoreV1().Pods(cluster.SchedulerNamespace)
	pod, err := pods.Create(w.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.SchedulerNamespace, Name: holder},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody", ServiceAccountName: cluster.SchedulerName, AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "scheduler", Image: "registry.invalid/scheduler", Ports: []corev1.ContainerPort{{Name: "status", ContainerPort: int32(port)}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}, metav1.CreateOptions{})
	w.ok(err)
	w.Cleanup(func() {
		zero := int64(0)
		_ = pods.Delete(context.WithoutCancel(w.ctx), holder, metav1.DeleteOptions{GracePeriodSeconds: &zero})
	})
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	_, err = pods.UpdateStatus(w.ctx, pod, metav1.UpdateOptions{})
	w.ok(err)
}

// user makes somebody with some of the Roles that the manifests have for people, and returns his kubeconfig.
func (w *world) user(name string, roles ...string) string {
	w.Helper()
	_, err := shared.Client.CoreV1().ServiceAccounts(w.namespace).Create(w.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.ok(err)
	for _, role := range roles {
		_, err := shared.Client.RbacV1().RoleBindings(cluster.SchedulerNamespace).Create(w.ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: w.namespace + "-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: name}},
		}, metav1.CreateOptions{})
		w.ok(err)
	}
	kubeconfig, err := shared.ServiceAccountKubeconfig(w.ctx, w.namespace, name)
	w.ok(err)
	return kubeconfig
}

func TestKubectlMesos(t *testing.T) {
	ip := hostIP(t)
	port, err := cluster.FreePort()
	require.NoError(t, err)
	defer cluster.ReleasePort(port)
	w := newWorld(t, worldOptions{agents: 2, mesos: map[string]any{
		"statusAddress": fmt.Sprintf("0.0.0.0:%d", port),
		"idleAfter":     "1h", // offers stay in hand
		"offerHold":     "1h",
		"executor":      map[string]any{"environment": []any{map[string]any{"name": "PLANTED", "value": "planted-secret"}}},
	}})
	w.expose(ip, port)
	viewer, operator, nobody := w.user("viewer", "kube-mesos-viewer"), w.user("operator", "kube-mesos-viewer", "kube-mesos-operator"), w.user("nobody")

	w.pod("runs", "500m", "64Mi")
	w.waitRunning("runs")
	w.pod("waits", "9", "64Mi")
	look := func(args ...string) string {
		t.Helper()
		out, errs, err := w.kubectlMesos(append([]string{"--kubeconfig=" + viewer}, args...)...)
		require.NoError(t, err, "%s", errs)
		require.NotContains(t, out, "\x1b", "colours are for terminals")
		require.NotContains(t, out, "planted-secret")
		return out
	}

	t.Run("a waiting pod is explained in full", func(t *testing.T) {
		var out string
		w.waitFor("the waiting pod", func() error {
			if out = look("pods"); !strings.Contains(out, "waits") {
				return fmt.Errorf("%s", out)
			}
			return nil
		})
		require.Contains(t, out, "Insufficient cpus in Mesos offers")
		out = look("pod", w.namespace+"/waits")
		require.Contains(t, out, "asks for cpus:9;mem:64 as Mesos role kubernetes")
		for _, node := range w.nodes {
			require.Contains(t, out, node)
		}
		var pod debugv1.Pod
		require.NoError(t, json.Unmarshal([]byte(look("pod", w.namespace+"/waits", "-o", "json")), &pod))
		require.NotNil(t, pod.Waiting)
		require.GreaterOrEqual(t, len(pod.Verdicts), 2)
		require.False(t, pod.Verdicts[0].Fits)
		require.InDelta(t, 4, pod.Verdicts[0].Offered.CPUs, 1)
	})

	t.Run("the journey of a pod that runs", func(t *testing.T) {
		var pod debugv1.Pod
		require.NoError(t, yaml.UnmarshalStrict([]byte(look("pod", "runs", "-n", w.namespace, "-o", "yaml")), &pod))
		var steps []string
		for _, s := range pod.Steps {
			steps = append(steps, s.What+s.State)
		}
		journey := strings.Join(steps, " ")
		for _, want := range []string{"claimed", "stateLaunching", "stateStarting", "bound", "stateRunning"} {
			require.Contains(t, journey, want)
		}
		require.True(t, pod.Task.Bound)
		require.Contains(t, look("pod", w.namespace+"/runs"), "TASK_RUNNING")
	})

	t.Run("status and lists", func(t *testing.T) {
		var status debugv1.Status
		require.NoError(t, json.Unmarshal([]byte(look("status", "-o", "json")), &status))
		require.Equal(t, "subscribed", status.Phase)
		require.True(t, status.Leading)
		require.Equal(t, w.sim.Frameworks()[0].ID, status.FrameworkID)
		require.Equal(t, 1, status.Tasks["Running"])
		f := status.Offers
		require.Equal(t, f.Received, f.Held+f.Accepted+f.Declined+f.Rescinded+f.Lost)
		out := look("status")
		require.Contains(t, out, "subscribed for")
		require.Contains(t, out, status.FrameworkID)
		require.Contains(t, look("tasks", "-o", "wide"), "TASK_RUNNING")
		require.Contains(t, look("agents", "-o", "wide"), w.nodes[0])
		w.waitFor("offers of both agents", func() error {
			out := look("offers")
			for _, node := range w.nodes {
				if !strings.Contains(out, node) {
					return fmt.Errorf("%s", out)
				}
			}
			return nil
		})
		require.Contains(t, look("events"), "claimed")
		require.Contains(t, look("__complete", "pod", ""), w.namespace+"/runs")
	})

	t.Run("rights", func(t *testing.T) {
		_, errs, err := w.kubectlMesos("--kubeconfig="+nobody, "status")
		require.Error(t, err)
		require.Contains(t, errs, "forbidden")
		_, errs, err = w.kubectlMesos("--kubeconfig="+viewer, "reconcile")
		require.Error(t, err)
		require.Contains(t, errs, "kube-mesos-operator")
		out, errs, err := w.kubectlMesos("--kubeconfig="+operator, "reconcile")
		require.NoError(t, err, "%s", errs)
		require.Contains(t, out, "asked")
		// A viewer cannot change anything by asking in another way either.
		_, errs, err = w.kubectlMesos("--kubeconfig="+operator, "reconcile", "--operator=kube-mesos-viewer")
		require.Error(t, err)
		require.Contains(t, errs, "cannot post path")
	})

	t.Run("the listener itself", func(t *testing.T) {
		get := func(method, path, token string) (int, string) {
			request, err := http.NewRequestWithContext(w.ctx, method, fmt.Sprintf("https://%s:%d%s", ip, port, path), nil)
			require.NoError(t, err)
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} // self-signed
			response, err := client.Do(request)
			require.NoError(t, err)
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			return response.StatusCode, string(body)
		}
		token := func(account string) string {
			made, err := shared.Client.CoreV1().ServiceAccounts(cluster.SchedulerNamespace).CreateToken(w.ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			require.NoError(t, err)
			return made.Status.Token
		}
		for _, tt := range []struct {
			method, path, account string
			want                  int
		}{
			{"GET", "/healthz", "", 200},
			{"GET", "/readyz", "", 200},
			{"GET", "/mesos/v1/status", "", 403},
			{"GET", "/mesos/", "", 403},
			{"GET", "/", "", 403},
			{"GET", "/mesos/v1/status", "kube-mesos-viewer", 200},
			{"GET", "/mesos/", "kube-mesos-viewer", 200},
			{"GET", "/mesos/v1/status", "kube-mesos-scheduler", 403},
			{"POST", "/mesos/v1/reconcile", "kube-mesos-viewer", 403},
			{"POST", "/mesos/v1/reconcile", "kube-mesos-operator", 202},
		} {
			bearer := ""
			if tt.account != "" {
				bearer = token(tt.account)
			}
			code, body := get(tt.method, tt.path, bearer)
			require.Equal(t, tt.want, code, "%s %s as %q: %s", tt.method, tt.path, tt.account, body)
		}
		code, _ := get("GET", "/mesos/v1/status", "wrong")
		require.Equal(t, 401, code)
	})

	t.Run("the page through the API server", func(t *testing.T) {
		root, err := cluster.RepositoryRoot()
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(w.ctx)
		cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl-mesos"), "ui", "--kubeconfig="+viewer)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG=")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		defer func() {
			cancel()
			_ = cmd.Wait()
		}()
		address, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err, "%s", errs.String())
		for path, want := range map[string]string{"": "<h1>kube-mesos-scheduler</h1>", "app.js": "'use strict'", "style.css": ":root", "v1/status": `"phase":"subscribed"`} {
			response, err := http.Get(strings.TrimSpace(address) + path)
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", path, body)
			require.Contains(t, string(body), want, path)
		}
	})

	t.Run("drain", func(t *testing.T) {
		node := w.waitRunning("runs").Spec.NodeName
		admin := "--kubeconfig=" + shared.AdminKubeconfig()
		out, errs, err := w.kubectlMesos(admin, "drain", node, "--dry-run")
		require.NoError(t, err, "%s", errs)
		require.Contains(t, out, "would evict pod "+w.namespace+"/runs")
		w.waitRunning("runs")

		// A budget is honoured, and named.
		one := intstr.FromInt32(1)
		pod, err := w.get("runs")
		require.NoError(t, err)
		pod.Labels = map[string]string{"app": "runs"}
		_, err = shared.Client.CoreV1().Pods(w.namespace).Update(w.ctx, pod, metav1.UpdateOptions{})
		require.NoError(t, err)
		budgets := shared.Client.PolicyV1().PodDisruptionBudgets(w.namespace)
		_, err = budgets.Create(w.ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "keep"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		w.waitFor("the budget to count", func() error {
			b, err := budgets.Get(w.ctx, "keep", metav1.GetOptions{})
			if err == nil && b.Status.CurrentHealthy != 1 {
				err = fmt.Errorf("%d healthy", b.Status.CurrentHealthy)
			}
			return err
		})
		_, errs, err = w.kubectlMesos(admin, "drain", node, "--timeout=3s")
		require.Error(t, err)
		require.Contains(t, errs, "waiting for a disruption budget: "+w.namespace+"/runs")
		require.Contains(t, errs, "not done within 3s: 1 tasks are left")
		w.waitRunning("runs")
		require.NoError(t, budgets.Delete(w.ctx, "keep", metav1.DeleteOptions{}))

		out, errs, err = w.kubectlMesos(admin, "drain", node, "--timeout=60s", "--master="+w.sim.URLs()[0])
		require.NoError(t, err, "%s %s", out, errs)
		require.Contains(t, out, "asked")
		_, err = w.get("runs")
		require.Error(t, err)
		now, err := shared.Client.CoreV1().Nodes().Get(w.ctx, node, metav1.GetOptions{})
		require.NoError(t, err)
		require.True(t, now.Spec.Unschedulable)
		_, errs, err = w.kubectlMesos(admin, "drain", "nowhere")
		require.Error(t, err)
		require.Contains(t, errs, "no agent is known")
	})
}
