// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// A shape says which fields of a protobuf message are messages themselves.
type shape struct {
	nested map[uint64]*shape
}

// maxDepth bounds how deep messages may lie in each other; those of Mesos reach about ten.
const maxDepth = 64

var (
	errTruncated = errors.New("a field reaches beyond its message")
	errGroup     = errors.New("it holds a group, which Mesos does not use")
	errDepth     = errors.New("messages lie too deep in each other")
)

// shapeOf reads the shape of a generated struct from its protobuf tags.
func shapeOf(t reflect.Type, known map[reflect.Type]*shape) *shape {
	if s := known[t]; s != nil {
		return s
	}
	s := &shape{nested: map[uint64]*shape{}}
	known[t] = s
	for i := range t.NumField() {
		field := t.Field(i)
		parts := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(parts) < 2 {
			continue
		}
		number, err := strconv.ParseUint(parts[1], 10, 29)
		if err != nil {
			continue
		}
		elem := field.Type
		for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice {
			elem = elem.Elem()
		}
		if elem.Kind() == reflect.Struct {
			s.nested[number] = shapeOf(elem, known)
		}
	}
	return s
}

// check walks a message without decoding it: every field must lie inside its message, and there must be no groups. The
// generated code skips unknown groups by recursion, so a few megabytes of "start of group" would overflow the stack,
// which cannot be recovered from.
func (s *shape) check(data []byte, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	for len(data) > 0 {
		tag, n := uvarint(data)
		if n == 0 {
			return errTruncated
		}
		data = data[n:]
		number := tag >> 3
		if number == 0 || number >= 1<<29 {
			return fmt.Errorf("the field number %d is not allowed", number)
		}
		switch tag & 7 {
		case 0:
			if _, n = uvarint(data); n == 0 {
				return errTruncated
			}
			data = data[n:]
		case 1:
			if len(data) < 8 {
				return errTruncated
			}
			data = data[8:]
		case 5:
			if len(data) < 4 {
				return errTruncated
			}
			data = data[4:]
		case 2:
			size, n := uvarint(data)
			if n == 0 || size > uint64(len(data)-n) {
				return errTruncated
			}
			if nested := s.nested[number]; nested != nil {
				if err := nested.check(data[n:n+int(size)], depth+1); err != nil {
					return err
				}
			}
			data = data[n+int(size):]
		case 3, 4:
			return errGroup
		default:
			return fmt.Errorf("the wire type %d is not known", tag&7)
		}
	}
	return nil
}

// uvarint reads a variable-length number of at most ten bytes and returns it and its length, 0 if it has no end.
func uvarint(data []byte) (uint64, int) {
	var v uint64
	for i := 0; i < len(data) && i < 10; i++ {
		b := data[i]
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
