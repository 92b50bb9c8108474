// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/gogo/protobuf/proto"
)

// This file maps protobuf messages to JSON as Mesos does: snake_case names, enums by name, bytes in base64, whole doubles with
// ".0", and scalars that have an explicit default printed even when unset. (The JSON methods that come with the
// generated types print no defaults and accept what a master refuses.)

type fieldInfo struct {
	index    int
	number   int // in protobuf
	name     string
	required bool
	enum     string // full name of the enum
	def      string // default, as text; empty if there is none to be printed
	isMap    bool
}

var fieldCache sync.Map // reflect.Type -> []fieldInfo

func fieldsOf(t reflect.Type) []fieldInfo {
	if f, ok := fieldCache.Load(t); ok {
		return f.([]fieldInfo)
	}
	var fields []fieldInfo
	for i := range t.NumField() {
		tag, ok := t.Field(i).Tag.Lookup("protobuf")
		if !ok {
			continue
		}
		f := fieldInfo{index: i, isMap: t.Field(i).Type.Kind() == reflect.Map}
		for n, part := range strings.Split(tag, ",") {
			key, value, _ := strings.Cut(part, "=")
			switch {
			case n == 1:
				f.number, _ = strconv.Atoi(part)
			case n == 2:
				f.required = part == "req"
			case key == "name":
				f.name = value
			case key == "enum":
				f.enum = value
			case key == "def" && f.name != "role": // role is deprecated, and deprecated fields are not filled in
				f.def = value
			}
		}
		fields = append(fields, f)
	}
	fieldCache.Store(t, fields)
	return fields
}

// marshalJSON encodes a message.
func marshalJSON(m any) []byte {
	var b bytes.Buffer
	writeJSON(&b, reflect.ValueOf(m), nil)
	return b.Bytes()
}

func writeJSON(b *bytes.Buffer, v reflect.Value, f *fieldInfo) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		writeJSON(b, v.Elem(), f)
	case reflect.Struct:
		writeObject(b, v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b.WriteByte('"')
			b.WriteString(base64.StdEncoding.EncodeToString(v.Bytes()))
			b.WriteByte('"')
			return
		}
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSON(b, v.Index(i), f)
		}
		b.WriteByte(']')
	case reflect.Map:
		keys := v.MapKeys()
		sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
		b.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, k.String())
			b.WriteByte(':')
			writeJSON(b, v.MapIndex(k), nil)
		}
		b.WriteByte('}')
	case reflect.String:
		writeString(b, v.String())
	case reflect.Bool:
		b.WriteString(strconv.FormatBool(v.Bool()))
	case reflect.Float64, reflect.Float32:
		b.WriteString(floatText(v.Float()))
	case reflect.Int32, reflect.Int64, reflect.Int:
		if f != nil && f.enum != "" {
			if s, ok := v.Interface().(fmt.Stringer); ok {
				writeString(b, s.String())
				return
			}
		}
		b.WriteString(strconv.FormatInt(v.Int(), 10))
	case reflect.Uint32, reflect.Uint64:
		b.WriteString(strconv.FormatUint(v.Uint(), 10))
	default:
		b.WriteString("null")
	}
}

func writeObject(b *bytes.Buffer, v reflect.Value) {
	b.WriteByte('{')
	first := true
	key := func(name string) {
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.WriteByte('"')
		b.WriteString(name)
		b.WriteString(`":`)
	}
	fields := fieldsOf(v.Type())
	for i := range fields {
		f := &fields[i]
		fv := v.Field(f.index)
		switch fv.Kind() {
		case reflect.Pointer:
			if fv.IsNil() {
				if f.def != "" {
					key(f.name)
					writeDefault(b, fv.Type().Elem(), f)
				}
				continue
			}
		case reflect.Slice, reflect.Map:
			if fv.IsNil() { // an empty list that is not nil is one that Mesos prints: those of the operator's answers
				continue
			}
		default:
			if !f.required && fv.IsZero() {
				continue
			}
		}
		key(f.name)
		writeJSON(b, fv, f)
	}
	b.WriteByte('}')
}

func writeDefault(b *bytes.Buffer, t reflect.Type, f *fieldInfo) {
	switch {
	case f.enum != "":
		n, _ := strconv.Atoi(f.def)
		for name, value := range proto.EnumValueMap(f.enum) {
			if int(value) == n {
				writeString(b, name)
				return
			}
		}
		b.WriteString("null")
	case t.Kind() == reflect.Bool:
		b.WriteString(strconv.FormatBool(f.def == "1" || f.def == "true"))
	case t.Kind() == reflect.Float64:
		n, _ := strconv.ParseFloat(f.def, 64)
		b.WriteString(floatText(n))
	case t.Kind() == reflect.String:
		writeString(b, f.def)
	default:
		b.WriteString(f.def)
	}
}

func floatText(f float64) string {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return strconv.Quote(strconv.FormatFloat(f, 'g', -1, 64))
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if a := math.Abs(f); a >= 1e-4 && a < 1e17 {
		s = strconv.FormatFloat(f, 'f', -1, 64)
	}
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

func writeString(b *bytes.Buffer, s string) {
	out, _ := json.Marshal(s)
	b.Write(out)
}

// wireErrorf makes an error whose text goes on the wire as Mesos writes it, with a capital letter.
func wireErrorf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// unmarshalJSON decodes a call. The error's text is what a master answers after "Failed to ".
func unmarshalJSON(data []byte, m any) error {
	raw, err := parseJSON(data)
	if err != nil {
		return err
	}
	object, ok := raw.(map[string]any)
	if !ok {
		return errors.New("convert JSON into Call protobuf: Expecting a JSON object")
	}
	var missing []string
	if err := readObject(object, reflect.ValueOf(m).Elem(), "", &missing); err != nil {
		return fmt.Errorf("convert JSON into Call protobuf: %w", err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("convert JSON into Call protobuf: Missing required fields: %s", strings.Join(missing, ", "))
	}
	return nil
}

func parseJSON(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var raw any
	err := decoder.Decode(&raw)
	if err == nil {
		return raw, nil
	}
	at := len(data)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset > 0 && strings.HasPrefix(syntax.Error(), "invalid character") {
		at = int(syntax.Offset) - 1
	}
	line := 1 + bytes.Count(data[:at], []byte("\n"))
	rest, _, _ := bytes.Cut(data[at:], []byte("\n"))
	return nil, fmt.Errorf("parse body into JSON: syntax error at line %d near: %s", line, rest)
}

func readObject(object map[string]any, v reflect.Value, path string, missing *[]string) error {
	fields := fieldsOf(v.Type())
	for i := range fields {
		f := &fields[i]
		raw, ok := object[f.name]
		if !ok || raw == nil {
			if f.required {
				*missing = append(*missing, path+f.name)
			}
			continue
		}
		set, err := readValue(raw, v.Field(f.index), f, path+f.name, missing)
		if err != nil {
			return err
		}
		if !set && f.required {
			*missing = append(*missing, path+f.name)
		}
	}
	return nil
}

// readValue stores raw in v. It returns false for an enum name that is not known, which counts as absent.
func readValue(raw any, v reflect.Value, f *fieldInfo, path string, missing *[]string) (bool, error) {
	mismatch := func(want string) (bool, error) {
		return false, wireErrorf("Not expecting a JSON value of this type for field '%s' (expecting %s)", f.name, want)
	}
	switch v.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		set, err := readValue(raw, fresh.Elem(), f, path, missing)
		if set && err == nil {
			v.Set(fresh)
		}
		return set, err
	case reflect.Struct:
		object, ok := raw.(map[string]any)
		if !ok {
			return mismatch("an object")
		}
		return true, readObject(object, v, path+".", missing)
	case reflect.Map:
		object, ok := raw.(map[string]any)
		if !ok {
			return mismatch("an object")
		}
		out := reflect.MakeMapWithSize(v.Type(), len(object))
		for key, item := range object {
			fresh := reflect.New(v.Type().Elem()).Elem()
			if _, err := readValue(item, fresh, f, path+"["+key+"]", missing); err != nil {
				return false, err
			}
			out.SetMapIndex(reflect.ValueOf(key), fresh)
		}
		v.Set(out)
		return true, nil
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			text, ok := raw.(string)
			if !ok {
				return mismatch("a string")
			}
			decoded, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return false, wireErrorf("Failed to base64 decode bytes field '%s': %s", f.name, base64Reason(text))
			}
			v.SetBytes(decoded)
			return true, nil
		}
		items, ok := raw.([]any)
		if !ok {
			return mismatch("an array")
		}
		if len(items) == 0 {
			return false, nil
		}
		out := reflect.MakeSlice(v.Type(), 0, len(items))
		for i, item := range items {
			fresh := reflect.New(v.Type().Elem()).Elem()
			set, err := readValue(item, fresh, f, fmt.Sprintf("%s[%d]", path, i), missing)
			if err != nil {
				return false, err
			}
			if set {
				out = reflect.Append(out, fresh)
			}
		}
		v.Set(out)
		return true, nil
	case reflect.String:
		text, ok := raw.(string)
		if !ok {
			return mismatch("a string")
		}
		v.SetString(text)
	case reflect.Bool:
		value, ok := raw.(bool)
		if !ok {
			return mismatch("a boolean")
		}
		v.SetBool(value)
	case reflect.Float64, reflect.Float32:
		text, ok := numberText(raw)
		if !ok {
			return mismatch("a number")
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return mismatch("a number")
		}
		v.SetFloat(value)
	case reflect.Int32, reflect.Int64:
		if f.enum != "" {
			if name, ok := raw.(string); ok {
				value, known := proto.EnumValueMap(f.enum)[name]
				if known {
					v.SetInt(int64(value))
				}
				return known, nil
			}
		}
		text, ok := numberText(raw)
		if !ok {
			return mismatch("a number")
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return mismatch("a number")
		}
		if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
			v.SetInt(whole)
		} else {
			v.SetInt(int64(value))
		}
	case reflect.Uint32, reflect.Uint64:
		text, ok := numberText(raw)
		if !ok {
			return mismatch("a number")
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || value < 0 {
			return mismatch("a number")
		}
		if whole, err := strconv.ParseUint(text, 10, 64); err == nil {
			v.SetUint(whole)
		} else {
			v.SetUint(uint64(value))
		}
	}
	return true, nil
}

// numberText accepts numbers and, as Mesos does, numbers in strings.
func numberText(raw any) (string, bool) {
	switch n := raw.(type) {
	case json.Number:
		return n.String(), true
	case string:
		return n, true
	}
	return "", false
}

func base64Reason(text string) string {
	for _, r := range text {
		if !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=", r) {
			return fmt.Sprintf("Invalid character '%c'", r)
		}
	}
	return "Invalid length"
}
