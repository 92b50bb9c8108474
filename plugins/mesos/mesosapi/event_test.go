// SPDX-License-Identifier: Apache-2.0

package mesosapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"testing"

	"github.com/gogo/protobuf/jsonpb"
	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

type recording struct {
	From  string          `json:"from"`
	Event json.RawMessage `json:"event"`
}

func recordings(t testing.TB) []recording {
	t.Helper()
	file, err := os.Open("testdata/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var all []recording
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// Every event that a real master sent keeps each field on its way through protobuf and the decoder.
func TestDecodeEventKeepsWhatAMasterSends(t *testing.T) {
	all := recordings(t)
	count := map[scheduler.Event_Type]int{}
	for _, r := range all {
		// A capability of masters that the types do not name; in protobuf it travels as a number.
		r.Event = bytes.ReplaceAll(r.Event, []byte(`,{"type":"QUOTA_V2"}`), nil)
		var sent scheduler.Event
		if err := (&jsonpb.Unmarshaler{}).Unmarshal(bytes.NewReader(r.Event), &sent); err != nil {
			t.Errorf("%s: the recording %s does not fit the types: %v", r.From, r.Event, err)
			continue
		}
		data, err := sent.Marshal()
		if err != nil {
			t.Errorf("%s: %v", r.From, err)
			continue
		}
		got, err := DecodeEvent(data)
		if err != nil {
			t.Errorf("%s: %s: %v", r.From, r.Event, err)
			continue
		}
		count[got.Type]++
		text, err := (&jsonpb.Marshaler{OrigName: true, EmitDefaults: true}).MarshalToString(got)
		if err != nil {
			t.Errorf("%s: %v", r.From, err)
			continue
		}
		var want, have any
		if err := errors.Join(json.Unmarshal(r.Event, &want), json.Unmarshal([]byte(text), &have)); err != nil {
			t.Fatal(err)
		}
		if diff := missing(want, have, ""); diff != "" {
			t.Errorf("%s: %s", r.From, diff)
		}
	}
	for _, kind := range []scheduler.Event_Type{scheduler.Event_SUBSCRIBED, scheduler.Event_OFFERS, scheduler.Event_INVERSE_OFFERS,
		scheduler.Event_RESCIND, scheduler.Event_RESCIND_INVERSE_OFFER, scheduler.Event_UPDATE, scheduler.Event_UPDATE_OPERATION_STATUS,
		scheduler.Event_MESSAGE, scheduler.Event_FAILURE, scheduler.Event_ERROR} {
		if count[kind] == 0 {
			t.Errorf("No recording of %s was decoded", kind)
		}
	}
}

// missing names the first field of want that have lacks or has with another value. 64-bit numbers are text in the
// JSON of protobuf and numbers in that of Mesos.
func missing(want, have any, path string) string {
	switch want := want.(type) {
	case map[string]any:
		have, _ := have.(map[string]any)
		for key, value := range want {
			got, found := have[key]
			if list, isList := value.([]any); !found && isList && len(list) == 0 {
				continue
			}
			if !found {
				return fmt.Sprintf("%s.%s is lost (%v)", path, key, value)
			}
			if diff := missing(value, got, path+"."+key); diff != "" {
				return diff
			}
		}
		return ""
	case []any:
		have, _ := have.([]any)
		if len(have) != len(want) {
			return fmt.Sprintf("%s has %d elements, want %d", path, len(have), len(want))
		}
		for i := range want {
			if diff := missing(want[i], have[i], fmt.Sprintf("%s[%d]", path, i)); diff != "" {
				return diff
			}
		}
		return ""
	case float64:
		if text, isText := have.(string); isText {
			var number float64
			if err := json.Unmarshal([]byte(text), &number); err == nil {
				have = number
			}
		}
	}
	if !reflect.DeepEqual(want, have) {
		return fmt.Sprintf("%s = %v, want %v", path, have, want)
	}
	return ""
}

// The bytes of a real stream, to the length lines.
func TestDecodeEventOfRecordedStream(t *testing.T) {
	data, err := os.ReadFile("testdata/stream.recordio")
	if err != nil {
		t.Fatal(err)
	}
	frames, err := readFrames(bytes.NewReader(data), 0)
	if err != io.EOF {
		t.Fatal(err)
	}
	var kinds []scheduler.Event_Type
	var again []byte
	for _, f := range frames {
		ev, err := DecodeEvent(f)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, ev.Type)
		again = append(again, eventFrame(ev)...)
	}
	if diff := cmp.Diff([]scheduler.Event_Type{scheduler.Event_SUBSCRIBED, scheduler.Event_HEARTBEAT, scheduler.Event_OFFERS,
		scheduler.Event_HEARTBEAT, scheduler.Event_HEARTBEAT}, kinds); diff != "" {
		t.Errorf("Events (-want,+got):\n%s", diff)
	}
	if len(again) != len(data) {
		t.Errorf("Written again the stream has %d bytes, want %d", len(again), len(data))
	}
	offers, _ := DecodeEvent(frames[2])
	first := offers.Offers.Offers[0]
	if got := first.Resources[0].Ranges.Range[0]; len(offers.Offers.Offers) != 2 || first.Hostname != "agent-2" || got.Begin != 32000 || got.End != 32999 {
		t.Errorf("Offers = %v", offers.Offers)
	}
}

func TestDecodeEventOfOddInput(t *testing.T) {
	group := bytes.Repeat([]byte{0xa3, 0x06}, 8<<20) // "start of group" of an unknown field, eight million times
	update, err := (&scheduler.Event{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{Status: mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: "t"}, State: mesos.TASK_RUNNING.Enum()}}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		data []byte
		want scheduler.Event_Type
		bad  bool
	}{
		"empty is of type UNKNOWN":               {nil, scheduler.Event_UNKNOWN, false},
		"type 99":                                {[]byte{0x08, 99}, 99, false},
		"type -1":                                {[]byte{0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, -1, false},
		"type 12 with a message of its own":      {[]byte{0x08, 12, 0x6a, 2, 0x08, 1}, 12, false},
		"heartbeat with an unknown field":        {[]byte{0x08, 8, 0xa0, 0x06, 1}, scheduler.Event_HEARTBEAT, false},
		"update":                                 {update, scheduler.Event_UPDATE, false},
		"update cut off":                         {update[:len(update)-1], 0, true},
		"update without its message":             {[]byte{0x08, 4}, 0, true},
		"subscribed without its message":         {[]byte{0x08, 1}, 0, true},
		"subscribed without a framework id":      {[]byte{0x08, 1, 0x12, 0}, 0, true},
		"offers without its message":             {[]byte{0x08, 2}, 0, true},
		"rescind without its message":            {[]byte{0x08, 3}, 0, true},
		"message without its message":            {[]byte{0x08, 5}, 0, true},
		"failure without its message":            {[]byte{0x08, 6}, 0, true},
		"error without its message":              {[]byte{0x08, 7}, 0, true},
		"inverse offers without their message":   {[]byte{0x08, 9}, 0, true},
		"inverse rescind without its message":    {[]byte{0x08, 10}, 0, true},
		"operation update without its message":   {[]byte{0x08, 11}, 0, true},
		"groups that would overflow the stack":   {group, 0, true},
		"groups inside offers":                   {append(append([]byte{0x08, 2, 0x1a}, varint(len(group))...), group...), 0, true},
		"a length beyond the end":                {[]byte{0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 0, true},
		"a length that overflows":                {[]byte{0xa2, 0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 0, true},
		"a number without an end":                {bytes.Repeat([]byte{0xff}, 11), 0, true},
		"field number 0":                         {[]byte{0x00, 0x00}, 0, true},
		"wire type 7":                            {[]byte{0x0f}, 0, true},
		"JSON":                                   {[]byte(`{"type":"HEARTBEAT"}`), 0, true},
		"text":                                   {[]byte("<html></html>"), 0, true},
		"four bytes of a fixed64":                {[]byte{0xa1, 0x06, 1, 2, 3, 4}, 0, true},
		"three bytes of a fixed32":               {[]byte{0xa5, 0x06, 1, 2, 3}, 0, true},
		"a number where the message should be":   {[]byte{0x08, 4, 0x28, 1}, 0, true},
		"an offer that lacks all that it needs":  {[]byte{0x08, 2, 0x1a, 2, 0x0a, 0}, 0, true},
		"the end of a group that did not begin":  {[]byte{0x08, 8, 0x0c}, 0, true},
		"a fixed64 and a fixed32 of the unknown": {[]byte{0x08, 8, 0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7, 8, 0xa5, 0x06, 1, 2, 3, 4}, scheduler.Event_HEARTBEAT, false},
	} {
		t.Run(name, func(t *testing.T) {
			ev, err := DecodeEvent(tt.data)
			if tt.bad {
				if !errors.Is(err, ErrProtocol) || ev != nil {
					t.Errorf("DecodeEvent = %v, %v, want an error of kind %v", ev, err, ErrProtocol)
				}
				return
			}
			if err != nil || ev.Type != tt.want {
				t.Errorf("DecodeEvent = %v, %v, want type %v", ev, err, tt.want)
			}
		})
	}
}

func varint(n int) []byte {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func TestShapeOfMessagesInMessages(t *testing.T) {
	s := &shape{nested: map[uint64]*shape{}}
	s.nested[3] = s
	deep := []byte{}
	for range maxDepth {
		deep = append([]byte{0x1a}, append(varint(len(deep)), deep...)...)
	}
	if err := s.check(deep, 0); err != nil {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
	deep = append([]byte{0x1a}, append(varint(len(deep)), deep...)...)
	if err := s.check(deep, 0); err != errDepth {
		t.Errorf("%d levels: %v, want %v", maxDepth+1, err, errDepth)
	}
}

type panicky struct{}

func (panicky) Unmarshal([]byte) error { panic("index out of range") }

func TestUnmarshalRecovers(t *testing.T) {
	if err := unmarshal([]byte{0x08, 1}, panicky{}, eventShape()); err == nil {
		t.Error("The panic of a decoder is no error")
	}
}

func FuzzDecodeEvent(f *testing.F) {
	for i, r := range recordings(f) {
		var ev scheduler.Event
		if err := (&jsonpb.Unmarshaler{}).Unmarshal(bytes.NewReader(r.Event), &ev); err != nil || i%20 != 0 {
			continue
		}
		data, err := ev.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte{0x08, 99})
	f.Add([]byte{0xa3, 0x06, 0xa4, 0x06})
	f.Fuzz(func(t *testing.T, data []byte) {
		ev, err := DecodeEvent(data)
		if err != nil {
			if !errors.Is(err, ErrProtocol) {
				t.Fatalf("The error %v has another kind than %v", err, ErrProtocol)
			}
			return
		}
		again, err := ev.Marshal()
		if err != nil {
			t.Fatalf("%v does not encode: %v", ev, err)
		}
		if _, err := DecodeEvent(again); err != nil {
			t.Fatalf("%v does not decode again: %v", ev, err)
		}
	})
}

func BenchmarkDecodeOffers(b *testing.B) {
	data, err := bigOffers(10000, 3<<20).Marshal()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if err := eventShape().check(data, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeEvent(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
