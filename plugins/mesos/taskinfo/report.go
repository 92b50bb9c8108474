// SPDX-License-Identifier: Apache-2.0

package taskinfo

import (
	"encoding/json"
	"fmt"
	"math"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Report is what an executor tells the scheduler in a framework message: what its agent has in all, whoever uses it. The
// agent tells it to its executors when they subscribe; the scheduler itself sees only what is offered to it. Amounts are
// thousandths: of a cpu, of a MiB.
type Report struct {
	CPUs int64 `json:"cpus,omitempty"`
	Mem  int64 `json:"mem,omitempty"`
	Disk int64 `json:"disk,omitempty"`
}

// maxReport bounds a report, and most one of its amounts.
const (
	maxReport  = 4096
	mostReport = 1 << 50
)

// ReportOf counts what of an agent's resources it gives away: not what is revocable, which Mesos offers beside the rest, and of disks
// only the root disk.
func ReportOf(all []mesos.Resource) Report {
	var r Report
	for i := range all {
		p := &all[i]
		if p.Revocable != nil || p.Shared != nil || p.ProviderID != nil || p.GetDisk().GetSource() != nil {
			continue
		}
		v := p.GetScalar().GetValue()
		if math.IsNaN(v) || v <= 0 || v > mostReport/2000 {
			continue
		}
		switch amount := int64(math.Round(v * 1000)); p.Name {
		case "cpus":
			r.CPUs += amount
		case "mem":
			r.Mem += amount
		case "disk":
			r.Disk += amount
		}
	}
	return r
}

// IsZero says whether nothing is reported.
func (r Report) IsZero() bool { return r == Report{} }

// Marshal returns the wire form of r.
func (r Report) Marshal() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // integers always marshal
	}
	return b
}

// ParseReport reads a framework message of an executor.
func ParseReport(data []byte) (Report, error) {
	if len(data) > maxReport {
		return Report{}, fmt.Errorf("a report of %d bytes, at most %d are taken", len(data), maxReport)
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, fmt.Errorf("no report of an agent's resources: %w", err)
	}
	for _, amount := range []int64{r.CPUs, r.Mem, r.Disk} {
		if amount < 0 || amount > mostReport {
			return Report{}, fmt.Errorf("a report of an agent's resources with an amount of %d", amount)
		}
	}
	return r, nil
}
