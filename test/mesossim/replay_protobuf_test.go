// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/gogo/protobuf/proto"
)

// compareFields compares an encoded message with a recorded list of {number: value}, where a value is a list again for
// a message.
func compareFields(want []any, raw []byte, b binding, path string) string {
	type field struct {
		number string
		value  any // uint64, float64 or []byte
	}
	var have []field
	buffer := proto.NewBuffer(raw)
	for {
		key, err := buffer.DecodeVarint()
		if err != nil {
			break
		}
		f := field{number: fmt.Sprint(key >> 3)}
		switch key & 7 {
		case proto.WireVarint:
			f.value, err = buffer.DecodeVarint()
		case proto.WireFixed64:
			var bits uint64
			bits, err = buffer.DecodeFixed64()
			f.value = math.Float64frombits(bits)
		case proto.WireBytes:
			f.value, err = buffer.DecodeRawBytes(true)
		default:
			return path + ": unknown wire type"
		}
		if err != nil {
			return path + ": " + err.Error()
		}
		have = append(have, f)
	}
	used := make([]bool, len(have))
	for _, item := range want {
		for number, value := range item.(map[string]any) {
			found, why := false, "missing"
			for i := range have {
				if used[i] || have[i].number != number {
					continue
				}
				trial := maps.Clone(b)
				why = compareField(value, have[i].value, trial, path+"."+number)
				if why == "" {
					maps.Copy(b, trial)
					used[i], found = true, true
					break
				}
			}
			if !found {
				return fmt.Sprintf("%s.%s: %s", path, number, why)
			}
		}
	}
	for i := range have {
		if !used[i] {
			return fmt.Sprintf("%s.%s is there, not recorded", path, have[i].number)
		}
	}
	return ""
}

func compareField(want, have any, b binding, path string) string {
	switch h := have.(type) {
	case []byte:
		if list, ok := want.([]any); ok {
			return compareFields(list, h, b, path)
		}
		return mismatch(want, string(h), b)
	case uint64:
		if s, ok := want.(string); ok && strings.HasPrefix(s, "${") {
			return ""
		}
		if n, ok := want.(float64); ok && n > 1024 && n < 65536 && uint64(n) != h && h > 1024 && h < 65536 {
			return "" // a port
		}
		return mismatch(want, float64(h), b)
	default:
		return mismatch(want, have, b)
	}
}
