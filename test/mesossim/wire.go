// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/gogo/protobuf/proto"
)

// marshaler is what all generated types are.
type marshaler interface {
	Size() int
	MarshalTo([]byte) (int, error)
}

// encode encodes an event or an answer.
func encode(media string, m any) []byte {
	if p, ok := m.(marshaler); ok && media == mediaProtobuf {
		return appendProto(nil, p, p.Size())
	}
	return marshalJSON(m)
}

// appendProto appends a message of a size. The types are generated and complete, so encoding cannot fail.
func appendProto(buf []byte, m marshaler, size int) []byte {
	buf = slices.Grow(buf, size)
	n, err := m.MarshalTo(buf[len(buf) : len(buf)+size])
	if err != nil {
		panic("mesossim: an incomplete message: " + err.Error())
	}
	return buf[:len(buf)+n]
}

// appendRecord appends a frame of RecordIO.
func appendRecord(buf []byte, media string, m any) []byte {
	if p, ok := m.(marshaler); ok && media == mediaProtobuf {
		size := p.Size()
		buf = append(strconv.AppendInt(buf, int64(size), 10), '\n')
		return appendProto(buf, p, size)
	}
	record := marshalJSON(m)
	buf = append(strconv.AppendInt(buf, int64(len(record)), 10), '\n')
	return append(buf, record...)
}

// hasField says whether a field stands at the top level of an encoded message.
func hasField(body []byte, m any, name string) bool {
	number := 0
	for _, f := range fieldsOf(reflect.TypeOf(m).Elem()) {
		if f.name == name {
			number = f.number
		}
	}
	b := proto.NewBuffer(body)
	for {
		key, err := b.DecodeVarint()
		if err != nil {
			return false
		}
		if int(key>>3) == number {
			return true
		}
		switch key & 7 {
		case proto.WireVarint:
			_, err = b.DecodeVarint()
		case proto.WireFixed64:
			_, err = b.DecodeFixed64()
		case proto.WireFixed32:
			_, err = b.DecodeFixed32()
		case proto.WireBytes:
			_, err = b.DecodeRawBytes(false)
		default:
			return false
		}
		if err != nil {
			return false
		}
	}
}

// knownEnum says whether the message's field "type" has a value of that name.
func knownEnum(m any, name string) bool {
	for _, f := range fieldsOf(reflect.TypeOf(m).Elem()) {
		if f.name == "type" {
			_, ok := proto.EnumValueMap(f.enum)[name]
			return ok
		}
	}
	return false
}
