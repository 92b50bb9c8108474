// SPDX-License-Identifier: Apache-2.0

package mesos

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/ledger"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/lifecycle"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/resources"
	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// TestAnnotationsFit: a Binding's annotations are merged unchecked, and what is merged must be valid.
func TestAnnotationsFit(t *testing.T) {
	ports := make([]int32, maxAnyPorts)
	for i := range ports {
		ports[i] = 65535
	}
	claimed := ledger.Task{AgentID: longestID, Need: resources.Need{Amounts: resources.Amounts{CPUs: 100, Mem: 64_000}, Chosen: ports}}
	if errs := apivalidation.ValidateAnnotations(lifecycle.Annotations(claimed, longestID), field.NewPath("annotations")); len(errs) > 0 {
		t.Errorf("our own annotations: %v", errs)
	}
	claimed.ID, claimed.ExecutorID = longestID, longestID
	own := 0
	for k, v := range lifecycle.Annotations(claimed, longestID) {
		own += len(k) + len(v)
	}
	const key = "example.com/note"
	most := apivalidation.TotalAnnotationSizeLimitB - own - len(key)
	for _, c := range []struct {
		name        string
		annotations map[string]string
		fits        bool
	}{
		{"none", nil, true},
		{"as large as can be", map[string]string{key: strings.Repeat("x", most)}, true},
		{"a byte more", map[string]string{key: strings.Repeat("x", most+1)}, false},
		{"one of ours from before, which is replaced", map[string]string{wellknown.TaskIDAnnotation: strings.Repeat("x", apivalidation.TotalAnnotationSizeLimitB)}, true},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}}
		if err := annotationsFit(pod, claimed); (err == nil) != c.fits {
			t.Errorf("%s: %v", c.name, err)
		}
		if len(pod.Annotations) != len(c.annotations) {
			t.Errorf("%s: the pod's own annotations were changed", c.name)
		}
	}
}
