// SPDX-License-Identifier: Apache-2.0

package taskinfo

import (
	"math"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

func TestReportOf(t *testing.T) {
	scalar := func(name string, v float64, change ...func(*mesos.Resource)) mesos.Resource {
		r := mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: v}}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	all := []mesos.Resource{
		scalar("cpus", 4), scalar("cpus", 2.5, func(r *mesos.Resource) {
			r.Reservations = []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: ptr.To("a")}}
		}),
		scalar("cpus", 8, func(r *mesos.Resource) { r.Revocable = &mesos.Resource_RevocableInfo{} }),
		scalar("mem", 1024), scalar("mem", math.NaN()), scalar("mem", math.Inf(1)), scalar("mem", -1),
		scalar("disk", 100), scalar("disk", 500, func(r *mesos.Resource) {
			r.Disk = &mesos.Resource_DiskInfo{Source: &mesos.Resource_DiskInfo_Source{Type: mesos.Resource_DiskInfo_Source_MOUNT}}
		}),
		scalar("gpus", 2), {Name: "ports", Type: mesos.RANGES.Enum(), Ranges: &mesos.Value_Ranges{}},
	}
	want := Report{CPUs: 6500, Mem: 1024_000, Disk: 100_000}
	got := ReportOf(all)
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if back, err := ParseReport(got.Marshal()); err != nil || back != want {
		t.Errorf("%+v, %v", back, err)
	}
	if !ReportOf(nil).IsZero() {
		t.Error("nothing is something")
	}
}

func TestParseReport(t *testing.T) {
	for _, bad := range []string{"", "{", `{"cpus":-1}`, `{"cpus":1e300}`, `{"mem":2251799813685248}`, `[]`, `{"cpus":1,"x":"` + strings.Repeat("x", maxReport) + `"}`} {
		if r, err := ParseReport([]byte(bad)); err == nil {
			t.Errorf("%.20s: %+v", bad, r)
		}
	}
}
