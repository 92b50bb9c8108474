// SPDX-License-Identifier: Apache-2.0

package mesossim

import (
	"strings"
	"testing"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

func TestMarshalJSONAsMesosDoes(t *testing.T) {
	tests := []struct {
		name string
		m    any
		want string
	}{
		{"enums by name", &scheduler.Event{Type: scheduler.Event_HEARTBEAT}, `{"type":"HEARTBEAT"}`},
		{"whole doubles keep a decimal", &mesos.Value_Scalar{Value: 4}, `{"value":4.0}`},
		{"defaults are printed", &mesos.CommandInfo{Value: proto.String("x")}, `{"shell":true,"value":"x"}`},
		{"deprecated defaults are not", &mesos.Resource{Name: "cpus", Type: mesos.SCALAR.Enum()}, `{"name":"cpus","type":"SCALAR"}`},
		{"bytes in base64", &mesos.UUID{Value: []byte{0xff, 0}}, `{"value":"/wA="}`},
		{"big times are no exponents", &mesos.TaskStatus{TaskID: mesos.TaskID{Value: "t"}, State: mesos.TASK_LOST.Enum(), Timestamp: proto.Float64(1796049284.25)},
			`{"task_id":{"value":"t"},"state":"TASK_LOST","timestamp":1796049284.25}`},
		{"maps are objects", &mesos.TaskInfo{Limits: map[string]mesos.Value_Scalar{"cpus": {Value: 0.5}}},
			`{"name":"","task_id":{"value":""},"agent_id":{"value":""},"limits":{"cpus":{"value":0.5}}}`},
	}
	for _, tt := range tests {
		if got := string(marshalJSON(tt.m)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestUnmarshalJSONAsMesosDoes(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"good", `{"type":"REVIVE","framework_id":{"value":"f"},"unknown":[1,{"a":2}]}`, ""},
		{"unknown enum names count as absent", `{"type":"NO_SUCH_CALL"}`, ""},
		{"garbage", "{garbage", "parse body into JSON: syntax error at line 1 near: garbage"},
		{"second line", "{\n  x\n}", "parse body into JSON: syntax error at line 2 near: x"},
		{"array", "[]", "convert JSON into Call protobuf: Expecting a JSON object"},
		{"missing deep down", `{"type":"ACCEPT","accept":{"operations":[{"type":"LAUNCH","launch":{"task_infos":[{"name":"n","task_id":{},"agent_id":{"value":"a"}}]}}]}}`,
			"convert JSON into Call protobuf: Missing required fields: accept.operations[0].launch.task_infos[0].task_id.value"},
		{"bad base64", `{"acknowledge":{"agent_id":{"value":"a"},"task_id":{"value":"t"},"uuid":"!"}}`,
			"convert JSON into Call protobuf: Failed to base64 decode bytes field 'uuid': Invalid character '!'"},
		{"wrong kind", `{"framework_id":5}`, "convert JSON into Call protobuf: Not expecting a JSON value"},
	}
	for _, tt := range tests {
		err := unmarshalJSON([]byte(tt.text), &scheduler.Call{})
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func FuzzUnmarshalJSON(f *testing.F) {
	f.Add(`{"type":"SUBSCRIBE","subscribe":{"framework_info":{"user":"u","name":"n"}}}`)
	f.Add(`{"type":1e400,"accept":{"filters":{"refuse_seconds":"NaN"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		call := &scheduler.Call{}
		if unmarshalJSON([]byte(text), call) == nil {
			_ = marshalJSON(call)
		}
	})
}
