// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"reflect"

	"github.com/gogo/protobuf/proto"
)

type marshaler interface{ Marshal() ([]byte, error) }

// encode encodes an event or an answer. The types are generated and complete, so encoding cannot fail.
func encode(media string, m any) []byte {
	if media == mediaProtobuf {
		if p, ok := m.(marshaler); ok {
			b, err := p.Marshal()
			if err != nil {
				panic("mesossim: an incomplete message: " + err.Error())
			}
			return b
		}
	}
	return marshalJSON(m)
}

// topLevelFields returns the names of the fields that stand at the top level of an encoded message.
func topLevelFields(body []byte, m any) map[string]bool {
	numbers := map[int]string{}
	t := reflect.TypeOf(m).Elem()
	for _, f := range fieldsOf(t) {
		numbers[fieldNumber(t.Field(f.index).Tag.Get("protobuf"))] = f.name
	}
	present := map[string]bool{}
	b := proto.NewBuffer(body)
	for {
		key, err := b.DecodeVarint()
		if err != nil {
			return present
		}
		present[numbers[int(key>>3)]] = true
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
			return present
		}
		if err != nil {
			return present
		}
	}
}

// fieldNumber reads the second part of a protobuf tag.
func fieldNumber(tag string) int {
	n, comma := 0, false
	for _, c := range tag {
		switch {
		case c == ',' && comma:
			return n
		case c == ',':
			comma = true
		case comma && c >= '0' && c <= '9':
			n = n*10 + int(c-'0')
		}
	}
	return n
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
