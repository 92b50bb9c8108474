// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func podOf(uid, node string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + uid, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{}}},
	}
}

func taskOf(id_, state string) task { return task{ID: id{id_}, Name: "ns/pod", State: state} }

func TestOrphans(t *testing.T) {
	r := records{
		pods: []corev1.Pod{
			podOf("a", "n", corev1.PodRunning),
			podOf("b", "n", corev1.PodPending),
			podOf("c", "n", corev1.PodSucceeded),
			podOf("d", "", corev1.PodPending),
			podOf("e", "n", corev1.PodRunning),
		},
		tasks: []task{
			taskOf("a.1", "TASK_LOST"), taskOf("a.2", "TASK_RUNNING"), // re-held: as it must be
			taskOf("b.1", "TASK_FAILED"), // its pod stands alone
			taskOf("c.1", "TASK_FINISHED"),
			taskOf("d.1", "TASK_STAGING"), // its pod is not bound yet
			taskOf("e.1", "TASK_RUNNING"), taskOf("e.2", "TASK_STARTING"),
			taskOf("gone.1", "TASK_UNREACHABLE"),
		},
	}
	got := strings.Join(r.orphans(), "\n")
	require.Equal(t, `pod ns/pod-b on n has no live task
task d.1 (ns/pod, TASK_STAGING) has no bound pod
task e.2 is one too many for pod ns/pod-e
task gone.1 (ns/pod, TASK_UNREACHABLE) has no bound pod`, got)
	require.Equal(t, 2, r.runningPods())
	require.Equal(t, 2, r.count("TASK_RUNNING"))
}

func TestLost(t *testing.T) {
	restarted := podOf("e", "n", corev1.PodRunning)
	restarted.Status.ContainerStatuses[0].RestartCount = 1
	deleted := podOf("d", "n", corev1.PodRunning)
	deleted.DeletionTimestamp = &metav1.Time{}
	before := records{
		pods: []corev1.Pod{
			podOf("a", "n", corev1.PodRunning), podOf("b", "n", corev1.PodRunning), podOf("c", "n", corev1.PodRunning),
			podOf("d", "n", corev1.PodRunning), podOf("e", "n", corev1.PodRunning), podOf("f", "n", corev1.PodRunning),
			podOf("w", "", corev1.PodPending),
		},
		tasks: []task{
			taskOf("a.1", "TASK_RUNNING"), taskOf("b.1", "TASK_RUNNING"), taskOf("c.1", "TASK_RUNNING"),
			taskOf("d.1", "TASK_RUNNING"), taskOf("e.1", "TASK_RUNNING"), taskOf("f.1", "TASK_RUNNING"),
		},
	}
	after := records{
		pods: []corev1.Pod{
			podOf("a", "n", corev1.PodRunning), podOf("b", "n", corev1.PodRunning),
			deleted, restarted, podOf("f", "n", corev1.PodFailed), podOf("new", "n", corev1.PodRunning),
		},
		tasks: []task{
			taskOf("a.1", "TASK_RUNNING"), taskOf("b.1", "TASK_KILLED"), taskOf("b.2", "TASK_RUNNING"),
			taskOf("c.1", "TASK_RUNNING"), taskOf("d.1", "TASK_RUNNING"), taskOf("e.1", "TASK_RUNNING"), taskOf("f.1", "TASK_RUNNING"),
		},
	}
	require.Equal(t, []string{
		"task b.1 of pod ns/pod-b no longer runs",
		"pod ns/pod-c is gone",
		"pod ns/pod-d is being deleted",
		"pod ns/pod-e is Running with 1 restarts",
		"pod ns/pod-f is Failed with 0 restarts",
	}, before.lost(after))
	require.Empty(t, before.lost(before))
}

func TestTable(t *testing.T) {
	var out strings.Builder
	done := taskOf("a.1", "TASK_FINISHED")
	done.AgentID = id{"S0"}
	records{
		pods:  []corev1.Pod{podOf("b", "", corev1.PodPending), podOf("a", "host-1", corev1.PodSucceeded)},
		tasks: []task{done},
	}.table(&out, map[string]string{"S0": "host-1"})
	require.Equal(t, `    POD    PHASE      NODE    MESOS TASK  STATE          AGENT
    pod-a  Succeeded  host-1  a.1         TASK_FINISHED  host-1
    pod-b  Pending    -       -           -              -
`, out.String())
}

func TestMaster(t *testing.T) {
	answers := map[string]string{
		"GET_AGENTS": `{"type":"GET_AGENTS","get_agents":{"agents":[
			{"active":true,"agent_info":{"id":{"value":"S0"},"hostname":"h0"}},
			{"active":false,"agent_info":{"id":{"value":"S1"},"hostname":"h1"}}]}}`,
		"GET_FRAMEWORKS": `{"type":"GET_FRAMEWORKS","get_frameworks":{"frameworks":[
			{"connected":true,"framework_info":{"id":{"value":"F"}}}]}}`,
		"GET_TASKS": `{"type":"GET_TASKS","get_tasks":{
			"tasks":[{"task_id":{"value":"u.1"},"state":"TASK_RUNNING","agent_id":{"value":"S0"}}],
			"completed_tasks":[{"task_id":{"value":"v.1"},"state":"TASK_KILLED"}]}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		for kind, answer := range answers {
			if strings.Contains(string(body), kind) {
				_, _ = w.Write([]byte(answer))
			}
		}
	}))
	defer server.Close()
	m := master{url: server.URL}
	ctx := t.Context()
	agents, err := m.agents(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"S0": "h0"}, agents)
	f, err := m.framework(ctx)
	require.NoError(t, err)
	require.Equal(t, framework{ID: "F", Connected: true}, f)
	tasks, err := m.tasks(ctx)
	require.NoError(t, err)
	require.Len(t, tasks, 2)
	require.True(t, tasks[0].live())
	require.Equal(t, "u", tasks[0].podUID())
	require.False(t, tasks[1].live())

	answers["GET_FRAMEWORKS"] = `{"type":"GET_FRAMEWORKS"}`
	_, err = m.framework(ctx)
	require.ErrorContains(t, err, "no framework")
	answers["GET_FRAMEWORKS"] = `{"get_frameworks":{"frameworks":[{}],"completed_frameworks":[{}]}}`
	_, err = m.framework(ctx)
	require.ErrorContains(t, err, "2 frameworks")
}
