// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// shipped returns the configuration of the manifests with an address in place of its master.
func shipped(t *testing.T, master string) string {
	data, err := os.ReadFile("../../manifests/20-config.yaml")
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(data), "config.yaml: |\n")
	require.True(t, ok)
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n    ", "\n"), "http://mesos-master.example.com:5050", master)[4:]
}

// validate runs the command as a person would.
func validate(t *testing.T, config string) (string, error) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := newCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"--config=" + file, "--validate-config"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestValidateConfig(t *testing.T) {
	sim, err := mesossim.Start(t.Context(), mesossim.Options{Masters: 2, WorkDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(sim.Close)
	urls := sim.URLs()

	out, err := validate(t, shipped(t, urls[0]))
	require.NoError(t, err, out)
	require.Contains(t, out, "profiles: kube-mesos-scheduler")
	require.Contains(t, out, "leads and lets the framework speak")
	require.Empty(t, sim.Frameworks(), "nothing is subscribed")

	// A standby alone points at the leader.
	out, err = validate(t, shipped(t, urls[1]))
	require.NoError(t, err, out)
}

// Every mistake ends in a message that names the field and what would be right.
func TestValidateConfigSaysWhatIsWrong(t *testing.T) {
	good := shipped(t, "127.0.0.1:1")
	change := func(old, new string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, new, 1)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	t.Cleanup(web.Close)
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="mesos-master-scheduler"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(refuses.Close)
	for name, tt := range map[string]struct {
		config string
		want   []string
	}{
		"nothing listens":           {good, []string{"no Mesos master can be used", "http://127.0.0.1:1", "refused"}},
		"another web server":        {shipped(t, web.URL), []string{web.URL, "not the answer of a Mesos master"}},
		"no credential":             {shipped(t, refuses.URL), []string{refuses.URL, "refused the credential"}},
		"a misspelt field":          {change("masters:", "master:"), []string{`unknown field "master"`, "args.master: there is no such field, did you mean masters?"}},
		"a misspelt field of k8s":   {change("leaderElect:", "leaderElct:"), []string{"leaderElct"}},
		"no masters":                {change("      - 127.0.0.1:1", ""), []string{"args.masters", "Required"}},
		"a bad master":              {change("- 127.0.0.1:1", "- ftp://x:1"), []string{"args.masters[0]", "want host:port"}},
		"a bad duration":            {change("statusAddress:", "launchTimeout: soon\n      statusAddress:"), []string{`args.launchTimeout: is "soon", must be a duration`}},
		"a port that is none":       {change("0.0.0.0:10270", "0.0.0.0:102700"), []string{"args.statusAddress", "0 to 65535"}},
		"DefaultBinder left":        {change("      disabled:\n      - name: DefaultBinder\n", "      {}\n"), []string{"DefaultBinder", "bind.disabled"}},
		"no plugin":                 {change("    multiPoint:\n      enabled:\n      - name: Mesos\n", "    multiPoint: {}\n"), []string{"bind", "Mesos has arguments here, but is not enabled"}},
		"a plugin in small letters": {change("      - name: Mesos\n", "      - name: mesos\n"), []string{"multiPoint.enabled[0].name: the plugin's name is Mesos"}},
		"arguments of nobody":       {strings.Replace(good, "  - name: Mesos\n    args:", "  - name: mesos\n    args:", 1), []string{"args.masters", "pluginConfig[1].name: the plugin's name is Mesos"}},
		"an old version":            {change("config.k8s.io/v1\n", "config.k8s.io/v1beta3\n"), []string{"apiVersion: must be kubescheduler.config.k8s.io/v1"}},
		"an empty file":             {"", []string{"kind: must be KubeSchedulerConfiguration"}},
		"one master as text":        {change("masters:\n      - 127.0.0.1:1", "masters: 127.0.0.1:1"), []string{"args.masters: is text, must be a list"}},
		"a file that is not there":  {change("statusAddress:", "authentication: {principal: p, secretFile: /nowhere/secret}\n      statusAddress:"), []string{"/nowhere/secret"}},
		"not YAML":                  {"{", []string{"config.yaml"}},
		"another kind":              {"apiVersion: v1\nkind: Pod\n", []string{"Pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := validate(t, tt.config)
			require.Error(t, err, out)
			for _, want := range tt.want {
				require.Contains(t, err.Error(), want)
			}
		})
	}
	cmd := newCommand()
	cmd.SetArgs([]string{"--validate-config"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	require.ErrorContains(t, cmd.ExecuteContext(t.Context()), "--config")
}
