// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/base64"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	executormetrics "github.com/kube-mesos/kube-mesos-scheduler/cmd/kube-mesos-executor/bridge/metrics"
	"github.com/kube-mesos/kube-mesos-scheduler/test/mesossim"
)

// TestPlantedSecrets runs the scheduler at its most talkative with secrets in every place that takes one, and looks for
// them wherever people look.
func TestPlantedSecrets(t *testing.T) {
	const secret, wrong, variable = "planted-7f3a-secret", "planted-7f3a-wrong", "planted-7f3a-variable"
	file := filepath.Join(t.TempDir(), "secret")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(secret)
	w := newWorld(t, worldOptions{
		agents: 1, args: []string{"--v=10"},
		sim: func(o *mesossim.Options) { o.Credentials = map[string]string{"kubernetes": secret} },
		mesos: map[string]any{
			"authentication": map[string]any{"principal": "kubernetes", "secretFile": file},
			"executor":       map[string]any{"environment": []any{map[string]any{"name": "A_VARIABLE", "value": variable}}},
		},
	})
	w.pod("runs", "500m", "64Mi")
	w.waitRunning("runs")
	w.pod("waits", "9", "64Mi")
	w.waitFor("the waiting pod's event", func() error {
		list, err := shared.Client.EventsV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].Reason == "WaitingForMesosOffers" {
				return nil
			}
		}
		return fs.ErrNotExist
	})

	// The file is read for each request: one with a wrong secret is refused, and what the master says of it is told.
	write(wrong)
	w.waitFor("a call to be refused", func() error {
		data, err := os.ReadFile(w.scheduler.LogFile)
		if err == nil && !bytes.Contains(data, []byte("refused the credential")) {
			err = fs.ErrNotExist
		}
		return err
	})
	write(secret)

	places := map[string][]byte{}
	read := func(name string, data []byte, err error) {
		require.NoError(t, err, name)
		require.NotEmpty(t, data, name)
		places[name] = data
	}
	data, err := os.ReadFile(w.scheduler.LogFile)
	read("the scheduler's log", data, err)
	for _, path := range []string{"status", "offers", "agents", "tasks", "pods", "events", "series", "pods/" + w.namespace + "/runs", "pods/" + w.namespace + "/waits"} {
		response, err := http.Get(w.scheduler.StatusURL + "/mesos/v1/" + path)
		require.NoError(t, err)
		out, err := io.ReadAll(response.Body)
		response.Body.Close()
		require.Equal(t, http.StatusOK, response.StatusCode)
		read("debug API "+path, out, err)
	}
	config := rest.CopyConfig(shared.AdminConfig)
	config.Host, config.TLSClientConfig.CAFile, config.TLSClientConfig.CAData, config.TLSClientConfig.Insecure = w.scheduler.SecureURL, "", nil, true
	client, err := rest.UnversionedRESTClientFor(withDefaults(config))
	require.NoError(t, err)
	for _, path := range []string{"/metrics", "/configz"} {
		data, err := client.Get().AbsPath(path).Do(w.ctx).Raw()
		read(path, data, err)
	}
	for _, kind := range []string{"events", "pods", "configmaps"} {
		out, err := shared.Kubectl(w.ctx, "get", kind, "--all-namespaces", "--output=yaml", "--ignore-not-found")
		read(kind, []byte(out), err)
	}
	// A task names its pod, and nothing of its environment; the agent has what executors are started with.
	for _, task := range w.sim.LiveTasks() {
		places["task "+task.ID] = task.Data
	}
	for _, e := range w.sim.Executors() {
		var text bytes.Buffer
		err := executormetrics.Collect(w.ctx, &text, e.Directory)
		read("metrics of executor "+e.ID, text.Bytes(), err)
		log, err := os.ReadFile(filepath.Join(e.Directory, "stderr"))
		read("log of executor "+e.ID, log, err)
	}
	for name, data := range places {
		for _, planted := range []string{secret, wrong, variable} {
			for _, form := range []string{planted, base64.StdEncoding.EncodeToString([]byte(planted)), base64.StdEncoding.EncodeToString([]byte("kubernetes:" + planted))} {
				if i := bytes.Index(data, []byte(form)); i >= 0 {
					line := data[max(0, i-120):min(len(data), i+60)]
					t.Errorf("%s tells a secret: ...%s", name, strings.ReplaceAll(string(line), "\n", " "))
				}
			}
		}
	}
}
