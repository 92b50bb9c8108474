// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestDeleteOfAPodThatIsNotFound: an API server that has just started answers a node's deletion of any pod with 404 until it
// has learnt of the pods. That alone must not pass for the end of a pod, which runs on.
func TestDeleteOfAPodThatIsNotFound(t *testing.T) {
	notFound := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	for _, c := range []struct {
		name   string
		list   int // HTTP status of a list
		there  types.UID
		gone   bool
		failed bool
	}{
		{"it is not there", http.StatusOK, "", true, false},
		{"another one is", http.StatusOK, "other", true, false},
		{"it is there", http.StatusOK, "u", false, true},
		{"nobody can tell", http.StatusServiceUnavailable, "", false, true},
		{"it may not be asked for yet", http.StatusForbidden, "", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.Method == http.MethodDelete {
					w.WriteHeader(http.StatusNotFound)
					_ = json.NewEncoder(w).Encode(notFound)
					return
				}
				if version := r.URL.Query().Get("resourceVersion"); version != "" {
					t.Errorf("a list of version %q need not be the latest", version)
				}
				w.WriteHeader(c.list)
				list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
				if c.there != "" {
					list.Items = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: c.there}}}
				}
				_ = json.NewEncoder(w).Encode(list)
			}))
			defer server.Close()
			kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
			config := clientcmdapi.NewConfig()
			config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
			config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
			config.CurrentContext = "c"
			if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
				t.Fatal(err)
			}
			node := NewNode("node", kubeconfig)
			fresh, err := newCredentials(kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			defer fresh.close()
			node.current.Store(fresh)
			gone, err := node.Delete(t.Context(), "ns", "p", "u", 5)
			if gone != c.gone || (err != nil) != c.failed {
				t.Errorf("gone %v, %v; want gone %v, an error %v", gone, err, c.gone, c.failed)
			}
		})
	}
}
