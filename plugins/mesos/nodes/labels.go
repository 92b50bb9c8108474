// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"encoding/base32"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/kube-mesos/kube-mesos-scheduler/plugins/mesos/wellknown"
)

// Labels turns an agent's attributes into node labels. Text that is no legal label is made legal in a way that can be
// undone: `x-` and its base32 form without padding, if that fits; what does not fit is returned as left out. Several
// attributes of one name become one label with their values joined by `_`.
func Labels(attributes []mesos.Attribute) (labels map[string]string, leftOut []string) {
	values := map[string][]string{}
	for i := range attributes {
		a := &attributes[i]
		values[a.Name] = append(values[a.Name], valueOf(a))
	}
	labels = map[string]string{}
	for name, vs := range values {
		slices.Sort(vs)
		key, okKey := legal(name, func(s string) bool {
			return len(validation.IsQualifiedName(wellknown.AttributeLabelPrefix+s)) == 0 && s != ""
		})
		value, okValue := legal(strings.Join(vs, "_"), func(s string) bool { return len(validation.IsValidLabelValue(s)) == 0 })
		if !okKey || !okValue {
			leftOut = append(leftOut, name)
			continue
		}
		labels[wellknown.AttributeLabelPrefix+key] = value
	}
	slices.Sort(leftOut)
	return labels, leftOut
}

// escaped begins a name or value that was made legal.
const escaped = "x-"

var encoding = base32.StdEncoding.WithPadding(base32.NoPadding)

func legal(s string, ok func(string) bool) (string, bool) {
	if ok(s) && !strings.HasPrefix(s, escaped) {
		return s, true
	}
	made := escaped + encoding.EncodeToString([]byte(s))
	return made, ok(made)
}

// formatScalar writes a scalar with Mesos' own three decimals.
func formatScalar(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

func valueOf(a *mesos.Attribute) string {
	switch {
	case a.Text != nil:
		return a.Text.Value
	case a.Scalar != nil:
		return formatScalar(a.Scalar.Value)
	case a.Ranges != nil:
		parts := make([]string, len(a.Ranges.Range))
		for i, r := range a.Ranges.Range {
			parts[i] = strconv.FormatUint(r.Begin, 10) + "-" + strconv.FormatUint(r.End, 10)
		}
		return strings.Join(parts, "_")
	case a.Set != nil:
		items := slices.Clone(a.Set.Item)
		slices.Sort(items)
		return strings.Join(items, "_")
	}
	return ""
}
