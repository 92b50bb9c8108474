// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/history"
	v1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/debug/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/session"
)

type fakeSession struct {
	status session.Status
	asked  int
}

func (f *fakeSession) Status() session.Status { return f.status }
func (f *fakeSession) LastEvent() time.Time   { return time.Time{} }
func (f *fakeSession) AskReconcile()          { f.asked++ }
func (f *fakeSession) Roles() []session.RoleStatus {
	return []session.RoleStatus{{Name: "kubernetes", Suppressed: true}}
}

const ours = "ours"

// fixture is a server with one agent of 4 cpus on node a, a node b without an agent, a pod that runs and one that waits.
type fixture struct {
	*httptest.Server
	session *fakeSession
	ledger  *ledger.Ledger
	clock   *testingclock.FakeClock
	pods    cache.Indexer
}

func newFixture(t *testing.T) *fixture {
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	h := history.New(clock)
	f := &fixture{session: &fakeSession{status: session.Status{Phase: session.Subscribed, Master: "http://m:5050"}}, clock: clock}
	f.ledger = ledger.New(ledger.Options{Clock: clock, NodeName: func(o *mesos.Offer) string { return o.Hostname }, Observe: h.Observe})
	f.pods = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, name := range []string{"a", "b"} {
		require.NoError(t, nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	s := New(Options{
		Clock: clock, Ledger: f.ledger, Session: f.session, History: h,
		Pods: corelisters.NewPodLister(f.pods), Nodes: corelisters.NewNodeLister(nodes),
		Leading: func() bool { return true }, Ours: func(name string) bool { return name == ours }, Stopped: func() time.Time { return time.Time{} },
		Framework: "test", Match: func(*corev1.Pod, string) bool { return true },
		Explain: func(*ledger.Snapshot, *corev1.Pod, resources.Need, time.Time) string { return "asks for much" },
	})
	f.ledger.SetConnected(true)
	cpus, mem := 4.0, 1024.0
	scalar := func(name string, v float64) mesos.Resource {
		kind := mesos.SCALAR
		return mesos.Resource{Name: name, Type: &kind, Scalar: &mesos.Value_Scalar{Value: v}}
	}
	role := "kubernetes"
	require.Empty(t, f.ledger.AddOffers([]mesos.Offer{{
		ID: mesos.OfferID{Value: "o1"}, AgentID: mesos.AgentID{Value: "s1"}, Hostname: "a",
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role},
		Resources:      []mesos.Resource{scalar("cpus", cpus), scalar("mem", mem)},
	}}))
	f.pod(t, "runs")
	require.NoError(t, f.ledger.Claim(ledger.Pod{UID: "uid-runs", Namespace: "ns", Name: "runs"}, need(1000, 64000), "a"))
	waits := f.pod(t, "waits")
	f.ledger.Wait(waits, need(9000, 64000), 5)
	s.sample()
	f.Server = httptest.NewServer(s.Handler())
	t.Cleanup(f.Close)
	return f
}

func need(cpus, mem int64) resources.Need {
	return resources.Need{Amounts: resources.Amounts{CPUs: cpus, Mem: mem}, Role: "kubernetes"}
}

func (f *fixture) pod(t *testing.T, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.PodSpec{SchedulerName: ours}}
	require.NoError(t, f.pods.Add(p))
	return p
}

func (f *fixture) get(t *testing.T, path string, code int, into any) {
	t.Helper()
	response, err := http.Get(f.URL + path)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, code, response.StatusCode)
	if into != nil {
		require.NoError(t, json.NewDecoder(response.Body).Decode(into))
	}
}

func TestAnswers(t *testing.T) {
	f := newFixture(t)

	var status v1.Status
	f.get(t, "/mesos/v1/status", 200, &status)
	require.Equal(t, v1.APIVersion, status.APIVersion)
	require.Equal(t, "subscribed", status.Phase)
	require.Equal(t, map[string]int{string(ledger.ReasonCPUs): 1}, status.Waiting)
	require.Equal(t, 1, status.Tasks["Claimed"])
	require.Equal(t, int64(1), status.Offers.Held)
	require.True(t, status.Roles[0].Suppressed)

	var offers v1.OfferList
	f.get(t, "/mesos/v1/offers?node=a", 200, &offers)
	require.Equal(t, "cpus:4;mem:1024", offers.Items[0].Amounts.String())
	require.True(t, offers.Items[0].Claimed)
	f.get(t, "/mesos/v1/offers?node=b", 200, &offers)
	require.Empty(t, offers.Items)

	var agents v1.AgentList
	f.get(t, "/mesos/v1/agents", 200, &agents)
	require.Equal(t, v1.Amounts{CPUs: 1, Mem: 64}, agents.Items[0].Claimed)

	var tasks v1.TaskList
	f.get(t, "/mesos/v1/tasks?state=Claimed", 200, &tasks)
	require.Equal(t, "runs", tasks.Items[0].Name)
	f.get(t, "/mesos/v1/tasks?state=Running", 200, &tasks)
	require.Empty(t, tasks.Items)

	var pods v1.PodList
	f.get(t, "/mesos/v1/pods", 200, &pods)
	require.Equal(t, "waits", pods.Items[0].Name)
	require.Equal(t, string(ledger.ReasonCPUs), pods.Items[0].Reason)
	require.Equal(t, "asks for much", pods.Items[0].Message)

	var events v1.EventList
	f.get(t, "/mesos/v1/events?after=0", 200, &events)
	require.Equal(t, "claimed", events.Items[0].What)

	var series v1.Series
	f.get(t, "/mesos/v1/series", 200, &series)
	require.Len(t, series.Items, 1)
	require.InDelta(t, 4, series.Items[0].OfferedCPUs, 0)
}

func TestJourney(t *testing.T) {
	f := newFixture(t)
	var pod v1.Pod
	f.get(t, "/mesos/v1/pods/ns/waits", 200, &pod)
	require.Equal(t, "asks for much", pod.Summary)
	require.Equal(t, []v1.Verdict{
		{Node: "a", AgentID: "s1", Why: string(ledger.ReasonCPUs), Free: v1.Amounts{CPUs: 3, Mem: 960}, Offered: v1.Amounts{CPUs: 4, Mem: 1024}, LastOffered: v1.Amounts{CPUs: 4, Mem: 1024}, LastOfferedAt: f.clock.Now(), Matches: true},
		{Node: "b", Why: string(ledger.ReasonNoAgent), Matches: true},
	}, pod.Verdicts)

	pod = v1.Pod{}
	f.get(t, "/mesos/v1/pods/ns/runs", 200, &pod)
	require.Equal(t, "claimed", pod.Steps[0].What)
	require.Equal(t, "cpus:1;mem:64", pod.Steps[0].Message)
	require.Empty(t, pod.Verdicts)

	f.ledger.Release("uid-runs")
	f.clock.Step(time.Second)
	pod = v1.Pod{}
	f.get(t, "/mesos/v1/pods/ns/runs", 200, &pod)
	require.Equal(t, "released", pod.Steps[len(pod.Steps)-1].What)
	require.Nil(t, pod.Task)

	var problem v1.Error
	f.get(t, "/mesos/v1/pods/ns/none", 404, &problem)
	require.Contains(t, problem.Message, "ns/none")
	require.NoError(t, f.pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other"}, Spec: corev1.PodSpec{SchedulerName: "default-scheduler"}}))
	f.get(t, "/mesos/v1/pods/ns/other", 404, &problem)
	require.Contains(t, problem.Message, "default-scheduler")
}

func TestBadRequests(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{"offers?limit=0", "agents?limit=x", "tasks?limit=999999", "pods?limit=-1", "events?after=x", "events?after=-1"} {
		var problem v1.Error
		f.get(t, "/mesos/v1/"+path, 400, &problem)
		require.Contains(t, problem.Message, "must be", path)
	}
	var problem v1.Error
	f.get(t, "/mesos/v1/nothing", 404, &problem)
	require.Equal(t, "Error", problem.Kind.Kind)
	response, err := http.Post(f.URL+"/mesos/v1/status", "", nil)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 404, response.StatusCode)
}

func TestReconcile(t *testing.T) {
	f := newFixture(t)
	post := func() int {
		response, err := http.Post(f.URL+"/mesos/v1/reconcile", "", nil)
		require.NoError(t, err)
		response.Body.Close()
		return response.StatusCode
	}
	require.Equal(t, http.StatusAccepted, post())
	require.Equal(t, 1, f.session.asked)
	f.session.status.Phase = session.Connecting
	require.Equal(t, http.StatusConflict, post())
	require.Equal(t, 1, f.session.asked)
}

func TestShownArgsHideSecrets(t *testing.T) {
	shown, err := ShownArgs(&config.MesosArgs{
		Masters:  []string{"zk://user:planted@zk1:2181,zk2:2181/mesos", "m1:5050", "http://u:planted@m2:5050", "u:planted@m3:5050"},
		Executor: config.Executor{Environment: []config.EnvVar{{Name: "TOKEN", Value: "planted"}}},
	})
	require.NoError(t, err)
	data, err := json.Marshal(shown)
	require.NoError(t, err)
	require.NotContains(t, string(data), "planted")
	require.Contains(t, string(data), "m1:5050")
	require.True(t, strings.Contains(string(data), "zk1:2181,zk2:2181/mesos"), string(data))
}

// Overlapping port ranges are told once.
func TestPortRanges(t *testing.T) {
	for name, tt := range map[string]struct {
		begin, end uint64
		want       int
	}{
		"Mesos' default":   {31000, 32000, 1},
		"one port of it":   {32767, 40000, 1},
		"below":            {20000, 29999, 0},
		"no ports offered": {2, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testingclock.NewFakeClock(time.Now())
			h := history.New(clock)
			book := ledger.New(ledger.Options{Clock: clock, NodeName: func(o *mesos.Offer) string { return o.Hostname }})
			book.SetConnected(true)
			kind, role := mesos.RANGES, "kubernetes"
			book.AddOffers([]mesos.Offer{{
				ID: mesos.OfferID{Value: "o1"}, AgentID: mesos.AgentID{Value: "s1"}, Hostname: "a", AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role},
				Resources: []mesos.Resource{{Name: "ports", Type: &kind, Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: tt.begin, End: tt.end}}}}},
			}})
			s := New(Options{Clock: clock, Ledger: book, History: h})
			s.warnPorts(t.Context())
			s.warnPorts(t.Context())
			require.Len(t, h.Events(0, 10), tt.want)
		})
	}
}
