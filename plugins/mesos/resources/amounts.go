// SPDX-License-Identifier: Apache-2.0

// Package resources is the arithmetic between Kubernetes and Mesos: exact amounts, sets of ports, what a pod needs, and
// which pieces of an offer a task is launched with. It does no I/O.
package resources

import (
	"math"
	"strconv"
	"strings"
)

// Mesos names of the resources that a task of ours can hold.
const (
	CPUs  = "cpus"
	Mem   = "mem"
	Disk  = "disk"
	GPUs  = "gpus"
	Ports = "ports"
)

// Amounts are scalar resources as whole thousandths of Mesos' units: cpus, MiB of memory, MiB of disk, GPUs. Mesos
// itself compares and adds scalars after rounding them to three decimals, so sums here equal the master's.
type Amounts struct {
	CPUs, Mem, Disk, GPUs int64
}

// Add returns a + b.
func (a Amounts) Add(b Amounts) Amounts {
	return Amounts{a.CPUs + b.CPUs, a.Mem + b.Mem, a.Disk + b.Disk, a.GPUs + b.GPUs}
}

// Sub returns a - b; amounts may become negative.
func (a Amounts) Sub(b Amounts) Amounts {
	return Amounts{a.CPUs - b.CPUs, a.Mem - b.Mem, a.Disk - b.Disk, a.GPUs - b.GPUs}
}

// FitsIn says whether each amount of a is no more than that of room. Zero fits everywhere, also into a deficit.
func (a Amounts) FitsIn(room Amounts) bool {
	return (a.CPUs <= room.CPUs || a.CPUs == 0) && (a.Mem <= room.Mem || a.Mem == 0) &&
		(a.Disk <= room.Disk || a.Disk == 0) && (a.GPUs <= room.GPUs || a.GPUs == 0)
}

// IsZero says whether nothing is there.
func (a Amounts) IsZero() bool { return a == Amounts{} }

// Negative says whether any amount is below zero.
func (a Amounts) Negative() bool { return a.CPUs < 0 || a.Mem < 0 || a.Disk < 0 || a.GPUs < 0 }

// Max returns the larger of a and b, resource by resource.
func (a Amounts) Max(b Amounts) Amounts {
	return Amounts{max(a.CPUs, b.CPUs), max(a.Mem, b.Mem), max(a.Disk, b.Disk), max(a.GPUs, b.GPUs)}
}

// Min returns the smaller of a and b, resource by resource.
func (a Amounts) Min(b Amounts) Amounts {
	return Amounts{min(a.CPUs, b.CPUs), min(a.Mem, b.Mem), min(a.Disk, b.Disk), min(a.GPUs, b.GPUs)}
}

func (a *Amounts) of(name string) *int64 {
	switch name {
	case CPUs:
		return &a.CPUs
	case Mem:
		return &a.Mem
	case Disk:
		return &a.Disk
	case GPUs:
		return &a.GPUs
	}
	return nil
}

// scalarNames are the scalars in the order in which they are written.
var scalarNames = [...]string{CPUs, Mem, Disk, GPUs}

// String writes the amounts that are not zero as Mesos does: `cpus:0.5;mem:128`.
func (a Amounts) String() string {
	var b strings.Builder
	for _, name := range scalarNames {
		if v := *a.of(name); v != 0 {
			if b.Len() > 0 {
				b.WriteByte(';')
			}
			b.WriteString(name + ":" + FormatMilli(v))
		}
	}
	return b.String()
}

// ParseAmounts reads what Amounts.String and Need.String write; what is no amount, such as ports, is left out.
func ParseAmounts(s string) (a Amounts, ok bool) {
	for part := range strings.SplitSeq(s, ";") {
		name, value, _ := strings.Cut(part, ":")
		to := a.of(name)
		if to == nil {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return Amounts{}, false
		}
		*to, ok = fromScalar(v), true
	}
	return a, ok
}

// FormatMilli writes thousandths as a decimal number: 1500 is `1.5`.
func FormatMilli(v int64) string {
	return strconv.FormatFloat(float64(v)/1000, 'f', -1, 64)
}

// maxMilli bounds what is believed of an offer, so that no sum of offers can overflow.
const maxMilli = int64(1) << 52

// fromScalar reads an offered scalar in thousandths, rounding down what is finer than Mesos' own three decimals.
// Values that are no amounts (negative, NaN, infinite) count as nothing.
func fromScalar(v float64) int64 {
	m := math.Floor(v*1000 + 1e-3)
	switch {
	case !(m > 0) || math.IsInf(m, 0):
		return 0
	case m > float64(maxMilli):
		return maxMilli
	}
	return int64(m)
}

func toScalar(v int64) float64 { return float64(v) / 1000 }
