// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bytes"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"sigs.k8s.io/yaml"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config"
	_ "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/scheme"
	configv1 "github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/v1"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/apis/config/validation"
)

// decode reads a configuration as kube-scheduler does (cmd/kube-scheduler/app/options, loadConfig).
func decode(data []byte) (*config.MesosArgs, error) {
	obj, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	for _, c := range obj.(*schedulerconfig.KubeSchedulerConfiguration).Profiles[0].PluginConfig {
		if args, ok := c.Args.(*config.MesosArgs); ok {
			return args, nil
		}
	}
	return nil, os.ErrNotExist
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// encode writes arguments as a user would, defaults included.
func encode(t *testing.T, args *config.MesosArgs) []byte {
	t.Helper()
	out := &configv1.MesosArgs{}
	if err := schedulerscheme.Scheme.Convert(args, out, nil); err != nil {
		t.Fatal(err)
	}
	out.APIVersion, out.Kind = "kubescheduler.config.k8s.io/v1", "MesosArgs"
	data, err := yaml.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// wrap puts encoded arguments into a configuration.
func wrap(args []byte) []byte {
	var b bytes.Buffer
	b.WriteString("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- pluginConfig:\n  - name: Mesos\n    args:\n")
	for line := range strings.Lines(string(args)) {
		b.WriteString("      " + line)
	}
	return b.Bytes()
}

// What a user writes, with the defaults filled in, is what the golden file says, and reads the same again.
func TestDefaultsAndRoundTrip(t *testing.T) {
	for _, name := range []string{"minimal", "full"} {
		t.Run(name, func(t *testing.T) {
			args, err := decode(read(t, name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if errs := validation.ValidateMesosArgs(nil, args); len(errs) != 0 {
				t.Error(errs.ToAggregate())
			}
			written := encode(t, args)
			golden := name + ".defaulted.yaml"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile("testdata/"+golden, written, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(read(t, golden)), string(written)); diff != "" {
				t.Errorf("%s (-want,+got, UPDATE_GOLDEN=1 writes it):\n%s", golden, diff)
			}
			again, err := decode(wrap(written))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(args, again); diff != "" {
				t.Errorf("Read again (-want,+got):\n%s", diff)
			}
		})
	}
}

// Each field of full.yaml differs from its default, so the round trip would notice one that the conversion forgets.
func TestFullSetsEveryField(t *testing.T) {
	full, err := decode(read(t, "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	minimal, err := decode(read(t, "minimal.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	minimal.TLS = &config.TLS{MinVersion: "1.2"}
	var same []string
	var walk func(path string, a, b reflect.Value)
	walk = func(path string, a, b reflect.Value) {
		for a.Kind() == reflect.Pointer {
			a, b = a.Elem(), b.Elem()
		}
		if a.Kind() == reflect.Struct && strings.HasPrefix(a.Type().PkgPath(), reflect.TypeFor[config.MesosArgs]().PkgPath()) {
			for i := range a.NumField() {
				if name := a.Type().Field(i).Name; name != "TypeMeta" {
					walk(path+"."+name, a.Field(i), b.Field(i))
				}
			}
			return
		}
		if reflect.DeepEqual(a.Interface(), b.Interface()) {
			same = append(same, path)
		}
	}
	walk("", reflect.ValueOf(full), reflect.ValueOf(minimal))
	if want := []string{".Authentication.BearerTokenFile"}; !slices.Equal(same, want) { // excludes SecretFile
		t.Errorf("Fields with their default: %v, want %v", same, want)
	}
}

func TestDecodingIsStrict(t *testing.T) {
	minimal := string(read(t, "minimal.yaml"))
	for name, tt := range map[string]struct {
		args string // lines that follow the masters
		want string
	}{
		"nothing more":              {"", ""},
		"unknown field":             {"master: m2:5050", `unknown field "master"`},
		"unknown field, other case": {"FailoverTimeout: 1h", `unknown field "FailoverTimeout"`},
		"unknown field in a struct": {"executor: {cpus: 1}", `unknown field "executor.cpus"`},
		"unknown field in a list":   {"roles: [{name: a, weight: 1}]", `unknown field "roles[0].weight"`},
		"duplicate field":           {"user: a\nuser: b", `key "user" already set`},
		"duplicate in a struct":     {"executor:\n  path: /a\n  path: /b", `key "path" already set`},
		"number for a duration":     {"launchTimeout: 60", "launchTimeout"},
		"a duration without a unit": {`launchTimeout: "60"`, "missing unit"},
		"a bad quantity":            {"executor: {cpu: lots}", "quantities must match"},
		"text for a number":         {"maxBatchTasks: many", "maxBatchTasks"},
		"a fraction for a number":   {"maxBatchTasks: 1.5", "maxBatchTasks"},
		"a number out of range":     {"maxBatchTasks: 3000000000", "maxBatchTasks"},
		"text for a list":           {"roles: kubernetes", "roles"},
		"another version":           {"apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: MesosArgs", "args"},
		"another kind":              {"apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs", "args"},
	} {
		t.Run(name, func(t *testing.T) {
			text := minimal
			for line := range strings.Lines(tt.args) {
				text += "      " + strings.TrimRight(line, "\n") + "\n"
			}
			_, err := decode([]byte(text))
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Decode = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// An explicit zero is not taken for a field that was left out; whether it is good is for the validation to say.
func TestExplicitZeroIsKept(t *testing.T) {
	args, err := decode(append(read(t, "minimal.yaml"), []byte(`      failoverTimeout: 0s
      frameworkName: ""
      roles: []
      launchRetries: 0
      attributeLabels: false
      statusAddress: ""
      webUIURL: ""
      minimumTaskResources: {cpu: "0"}
`)...))
	if err != nil {
		t.Fatal(err)
	}
	if args.FailoverTimeout.Duration != 0 || args.FrameworkName != "" || args.Roles == nil || len(args.Roles) != 0 || args.LaunchRetries != 0 ||
		args.AttributeLabels || args.StatusAddress != "" || args.WebUIURL != "" || !args.MinimumTaskResources.CPU.IsZero() || args.MinimumTaskResources.Memory.String() != "32Mi" {
		t.Errorf("Arguments = %+v", args)
	}
}

// The Mesos UI links to where the page can be opened.
func TestDefaultWebUIURL(t *testing.T) {
	const onOnesOwnMachine = "http://127.0.0.1:10270/mesos/" // by `kubectl mesos ui`
	for status, want := range map[string]string{
		"127.0.0.1:10270": onOnesOwnMachine,
		"127.0.0.1:8080":  "http://127.0.0.1:8080/mesos/",
		"[::1]:8080":      "http://[::1]:8080/mesos/",
		"localhost:8080":  "http://localhost:8080/mesos/",
		"127.0.0.1:0":     onOnesOwnMachine,
		"0.0.0.0:10270":   onOnesOwnMachine,
		":9999":           onOnesOwnMachine,
		"10.0.0.1:10270":  onOnesOwnMachine,
		"":                "",
	} {
		args, err := decode(append(read(t, "minimal.yaml"), []byte("      statusAddress: \""+status+"\"\n")...))
		if err != nil {
			t.Fatal(err)
		}
		if args.WebUIURL != want {
			t.Errorf("statusAddress %q: webUIURL is %q, want %q", status, args.WebUIURL, want)
		}
		if errs := validation.ValidateMesosArgs(nil, args); len(errs) > 0 {
			t.Errorf("statusAddress %q: %v", status, errs)
		}
	}
}

// Without args in the configuration the plugin gets the defaults; only the masters are missing.
func TestNoArgs(t *testing.T) {
	args, err := decode(wrap([]byte("kind: MesosArgs\napiVersion: kubescheduler.config.k8s.io/v1\n")))
	if err != nil {
		t.Fatal(err)
	}
	errs := validation.ValidateMesosArgs(nil, args)
	if len(errs) != 1 || errs[0].Field != "masters" {
		t.Errorf("ValidateMesosArgs = %v, want masters to be required", errs)
	}
}

func TestDefaultsAreNotShared(t *testing.T) {
	a, b := &configv1.MesosArgs{}, &configv1.MesosArgs{}
	configv1.SetDefaults_MesosArgs(a)
	configv1.SetDefaults_MesosArgs(b)
	a.Roles[0].Name, *a.User = "x", "x"
	a.Executor.CPU.Set(99)
	if b.Roles[0].Name == "x" || *b.User == "x" || b.Executor.CPU.String() != "100m" {
		t.Error("A change of one shows in the other")
	}
}
