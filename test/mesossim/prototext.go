// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// protoText prints a message in protobuf's text format as C++'s DebugString does: fields in order of their numbers,
// messages in braces.
func protoText(m any) string {
	var b strings.Builder
	writeText(&b, reflect.Indirect(reflect.ValueOf(m)), "")
	return b.String()
}

func writeText(b *strings.Builder, v reflect.Value, indent string) {
	fields := append([]fieldInfo(nil), fieldsOf(v.Type())...)
	sort.Slice(fields, func(i, j int) bool { return fields[i].number < fields[j].number })
	for i := range fields {
		f := &fields[i]
		fv := v.Field(f.index)
		switch fv.Kind() {
		case reflect.Pointer:
			if !fv.IsNil() {
				writeTextField(b, fv.Elem(), f, indent)
			}
		case reflect.Slice:
			if fv.Type().Elem().Kind() == reflect.Uint8 {
				if fv.Len() > 0 {
					writeTextField(b, fv, f, indent)
				}
				continue
			}
			for j := range fv.Len() {
				writeTextField(b, fv.Index(j), f, indent)
			}
		case reflect.Map:
		default:
			if f.required || !fv.IsZero() {
				writeTextField(b, fv, f, indent)
			}
		}
	}
}

func writeTextField(b *strings.Builder, v reflect.Value, f *fieldInfo, indent string) {
	b.WriteString(indent + f.name)
	switch v.Kind() {
	case reflect.Struct:
		b.WriteString(" {\n")
		writeText(b, v, indent+"  ")
		b.WriteString(indent + "}\n")
	case reflect.String:
		b.WriteString(": " + strconv.Quote(v.String()) + "\n")
	case reflect.Slice:
		b.WriteString(": " + strconv.Quote(string(v.Bytes())) + "\n")
	case reflect.Float64, reflect.Float32:
		b.WriteString(": " + strconv.FormatFloat(v.Float(), 'g', -1, 64) + "\n")
	default:
		if s, ok := v.Interface().(fmt.Stringer); ok && f.enum != "" {
			b.WriteString(": " + s.String() + "\n")
			return
		}
		fmt.Fprintf(b, ": %v\n", v.Interface())
	}
}
