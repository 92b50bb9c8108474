// SPDX-License-Identifier: Apache-2.0

package taskinfo

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

const uid = types.UID("f3b3c1de-7d6c-4b41-9a1b-6a1a5f3f0c2e")

// legal is what the master demands of an id (src/common/validation.cpp).
func legal(id string) error {
	switch {
	case id == "", len(id) > 255, id == ".", id == "..", strings.ContainsAny(id, "/\\"):
		return fmt.Errorf("illegal id %q", id)
	}
	for _, r := range id {
		if r < 0x20 || r == 0x7f {
			return fmt.Errorf("control character in %q", id)
		}
	}
	return nil
}

func TestC40_TaskIDs(t *testing.T) {
	first, second := TaskID(uid, 1), TaskID(uid, 2)
	if first == second {
		t.Error("two attempts have one id")
	}
	for _, id := range []string{first, second, TaskID(uid, 1<<62), ExecutorID{Digest: "0123456789ab", Kind: resources.Static, Incarnation: 1 << 62}.String()} {
		if err := legal(id); err != nil {
			t.Error(err)
		}
	}
	// The longest legal pod name is shown, cut at the border of a character, and is in no id.
	ref := Reference{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("p", 190) + strings.Repeat("é", 31), UID: string(uid), Node: "node"}
	task := Task(first, "S1", ref, nil, nil)
	if len(task.Name) > 255 || !utf8.ValidString(task.Name) || !strings.HasPrefix(task.Name, ref.Namespace+"/ppp") {
		t.Errorf("name of %d bytes: %q", len(task.Name), task.Name)
	}
	if strings.Contains(task.TaskID.Value, "p") && strings.Contains(task.TaskID.Value, ref.Name) {
		t.Errorf("a user's text in the id %q", task.TaskID.Value)
	}
	for _, label := range task.Labels.Labels {
		if label.Key == wellknown.PodTaskLabel && label.GetValue() != ref.Name {
			t.Error("the whole name is in a label of the task")
		}
	}
}

func TestParseTaskID(t *testing.T) {
	for _, attempt := range []int64{0, 1, 35, 36, 1 << 62} {
		gotUID, gotAttempt, ok := ParseTaskID(TaskID(uid, attempt))
		if !ok || gotUID != uid || gotAttempt != attempt {
			t.Errorf("%d: %s %d %v", attempt, gotUID, gotAttempt, ok)
		}
	}
	for _, id := range []string{"", ".", "x", ".1", "uid.", "uid.-1", "uid.!", "uid." + strings.Repeat("z", 40)} {
		if u, a, ok := ParseTaskID(id); ok || u != "" || a != 0 {
			t.Errorf("%q: %q %d %v", id, u, a, ok)
		}
	}
	if u, _, ok := ParseTaskID("a.b.1"); !ok || u != "a.b" {
		t.Errorf("the last dot counts: %q", u)
	}
}

func TestParseExecutorID(t *testing.T) {
	e := ExecutorID{Digest: "abc", Kind: resources.Static, Incarnation: 12345}
	if got, ok := ParseExecutorID(e.String()); !ok || got != e {
		t.Errorf("%+v %v", got, ok)
	}
	for _, id := range []string{"", "kube-mesos", "kube-mesos.a.u", "kube-mesos.a.uu.1", "kube-mesos.a.u.", "kube-mesos.a.u.-1", "other.a.u.1", "kube-mesos.a.u.1.2", "default"} {
		if got, ok := ParseExecutorID(id); ok {
			t.Errorf("%q: %+v", id, got)
		}
	}
}

func executor() Executor {
	return Executor{
		Path: "/opt/kube-mesos-executor", Kubeconfig: "/etc/kubernetes/{node}.conf", Amounts: resources.Amounts{CPUs: 100, Mem: 128_000},
		BindTimeout: 10 * time.Minute, KillMargin: time.Minute, ShutdownGracePeriod: 10 * time.Minute, User: "root",
		Environment: []EnvironmentVariable{{"A", "b"}},
	}
}

func TestExecutorInfo(t *testing.T) {
	held := resources.ExecutorResources(executor().Amounts, "k8s", resources.Unreserved, false)
	info := executor().Info("id", "node-a", held)
	if info.Command.GetShell() || info.Command.GetValue() != "/opt/kube-mesos-executor" || info.Command.GetUser() != "root" {
		t.Errorf("command %v", info.Command)
	}
	want := []string{"/opt/kube-mesos-executor", "--kubeconfig=/etc/kubernetes/node-a.conf", "--node-name=node-a", "--bind-timeout=10m0s", "--force-delete-after=0s", "--kill-margin=1m0s"}
	if diff := cmp.Diff(want, info.Command.Arguments); diff != "" {
		t.Errorf("arguments (-want,+got):\n%s", diff)
	}
	environment := map[string]string{}
	for _, v := range info.Command.Environment.Variables {
		environment[v.Name] = v.GetValue()
	}
	if diff := cmp.Diff(map[string]string{"GOMEMLIMIT": "102MiB", "A": "b"}, environment); diff != "" {
		t.Errorf("environment (-want,+got):\n%s", diff)
	}
	if info.ShutdownGracePeriod.GetNanoseconds() != (10 * time.Minute).Nanoseconds() {
		t.Errorf("grace %v", info.ShutdownGracePeriod)
	}
	// The master compares infos: equal arguments give equal ones.
	a, errA := info.Marshal()
	b, errB := executor().Info("id", "node-a", held).Marshal()
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("%v %v: two infos differ", errA, errB)
	}
}

// C47: whatever the master compares changes the digest, and nothing else does.
func TestC47_DigestCoversWhatMesosCompares(t *testing.T) {
	base := executor().Digest("n", "k8s", false)
	if again := executor().Digest("n", "k8s", false); again != base {
		t.Errorf("%s, then %s", base, again)
	}
	changed := map[string]string{
		"node": executor().Digest("m", "k8s", false), "role": executor().Digest("n", "dev", false), "revocability": executor().Digest("n", "k8s", true),
	}
	typ := reflect.TypeFor[Executor]()
	for i := range typ.NumField() {
		e := executor()
		f := reflect.ValueOf(&e).Elem().Field(i)
		switch f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Int64:
			f.SetInt(f.Int() + int64(time.Second))
		case reflect.Struct:
			f.Field(0).SetInt(f.Field(0).Int() + 1)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]EnvironmentVariable{{"A", "c"}}))
		default:
			t.Fatalf("field %s of kind %s is not tested", typ.Field(i).Name, f.Kind())
		}
		digest := e.Digest("n", "k8s", false)
		if name := typ.Field(i).Name; name == "ShutdownGracePeriod" {
			if digest != base {
				t.Error("Mesos does not compare the shutdown grace period: no new executor for it")
			}
		} else {
			changed[name] = digest
		}
	}
	seen := map[string]string{base: "nothing"}
	for what, digest := range changed {
		if other, ok := seen[digest]; ok {
			t.Errorf("a change of %s gives the digest of a change of %s", what, other)
		}
		seen[digest] = what
	}
}

func TestTask(t *testing.T) {
	ref := Reference{Namespace: "ns", Name: "pod", UID: string(uid), Node: "n", GraceSeconds: 45, Ports: []int32{80}, Bound: true}
	info := &mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: "x"}}
	task := Task("id", "S1", ref, resources.ExecutorResources(resources.Amounts{CPUs: 500}, "k8s", resources.Unreserved, false), info)
	if task.Name != "ns/pod" || task.AgentID.Value != "S1" || task.Executor != info || task.Command != nil || len(task.Resources) != 1 {
		t.Errorf("%+v", task)
	}
	if got := task.KillPolicy.GracePeriod.GetNanoseconds(); got != (45 * time.Second).Nanoseconds() {
		t.Errorf("kill policy %d", got)
	}
	back, err := ParseReference(task.Data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ref, back); diff != "" {
		t.Errorf("reference (-want,+got):\n%s", diff)
	}
}

func TestParseReference(t *testing.T) {
	good := Reference{Namespace: "ns", Name: "pod", UID: "u", Node: "n"}
	if _, err := ParseReference(good.Marshal()); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Reference){
		"namespace":    func(r *Reference) { r.Namespace = "" },
		"name":         func(r *Reference) { r.Name = "" },
		"uid":          func(r *Reference) { r.UID = "" },
		"node":         func(r *Reference) { r.Node = "" },
		"graceSeconds": func(r *Reference) { r.GraceSeconds = -1 },
	} {
		r := good
		change(&r)
		if _, err := ParseReference(r.Marshal()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, want one that names it", name, err)
		}
	}
	for _, data := range []string{"", "null", "[]", "{", `{"namespace":1}`} {
		if _, err := ParseReference([]byte(data)); err == nil {
			t.Errorf("%q is no reference", data)
		}
	}
}
