// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// ParseResources reads resources in Mesos' own text form: "cpus:8;mem(role):512;cpus{REV}:2;ports:[1-2,5-9]".
func ParseResources(text string) ([]mesos.Resource, error) {
	var out []mesos.Resource
	for _, part := range strings.Split(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, ":")
		if !ok {
			return nil, fmt.Errorf("resource %q: want name:value", part)
		}
		r := mesos.Resource{}
		if before, ok := strings.CutSuffix(name, "{REV}"); ok {
			name, r.Revocable = before, &mesos.Resource_RevocableInfo{}
		}
		if i := strings.IndexByte(name, '('); i >= 0 {
			role, ok := strings.CutSuffix(name[i+1:], ")")
			if !ok || role == "" {
				return nil, fmt.Errorf("resource %q: bad role", part)
			}
			name = name[:i]
			if role != "*" {
				r.Reservations = []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: proto.String(role)}}
			}
		}
		r.Name = name
		if name == "" {
			return nil, fmt.Errorf("resource %q: no name", part)
		}
		if err := parseValue(value, &r.Type, &r.Scalar, &r.Ranges, func(items []string) {
			r.Type, r.Set = mesos.SET.Enum(), &mesos.Value_Set{Item: items}
		}); err != nil {
			return nil, fmt.Errorf("resource %q: %w", part, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// ParseAttributes reads attributes in Mesos' own text form: "rack:r1;level:10;slots:[1-4]".
func ParseAttributes(text string) ([]mesos.Attribute, error) {
	var out []mesos.Attribute
	for _, part := range strings.Split(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("attribute %q: want name:value", part)
		}
		a := mesos.Attribute{Name: name}
		kind := mesos.TEXT.Enum()
		if err := parseValue(value, &kind, &a.Scalar, &a.Ranges, func([]string) {}); err != nil || kind == nil || *kind == mesos.SET || *kind == mesos.TEXT {
			a.Type, a.Text = mesos.TEXT, &mesos.Value_Text{Value: value}
		} else {
			a.Type = *kind
		}
		out = append(out, a)
	}
	return out, nil
}

func parseValue(text string, kind **mesos.Value_Type, scalar **mesos.Value_Scalar, ranges **mesos.Value_Ranges, set func([]string)) error {
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"):
		out := &mesos.Value_Ranges{}
		for _, part := range strings.Split(text[1:len(text)-1], ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			from, to, ok := strings.Cut(part, "-")
			if !ok {
				return fmt.Errorf("range %q: want begin-end", part)
			}
			begin, err := strconv.ParseUint(strings.TrimSpace(from), 10, 64)
			if err != nil {
				return err
			}
			end, err := strconv.ParseUint(strings.TrimSpace(to), 10, 64)
			if err != nil {
				return err
			}
			if begin > end {
				return fmt.Errorf("range %q: begin > end", part)
			}
			out.Range = append(out.Range, mesos.Value_Range{Begin: begin, End: end})
		}
		*kind, *ranges = mesos.RANGES.Enum(), out
		return nil
	case strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}"):
		var items []string
		for _, part := range strings.Split(text[1:len(text)-1], ",") {
			if part = strings.TrimSpace(part); part != "" {
				items = append(items, part)
			}
		}
		set(items)
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return err
	}
	*kind, *scalar = mesos.SCALAR.Enum(), &mesos.Value_Scalar{Value: v}
	return nil
}
