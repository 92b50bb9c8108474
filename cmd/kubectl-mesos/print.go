// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/component-base/term"
	"sigs.k8s.io/yaml"
)

// structured prints an answer as JSON or YAML; it returns false if a table is wanted.
func (o *options) structured(answer any) (bool, error) {
	var data []byte
	var err error
	switch o.output {
	case "json":
		if data, err = json.MarshalIndent(answer, "", "  "); err == nil {
			data = append(data, '\n')
		}
	case "yaml":
		data, err = yaml.Marshal(answer)
	default:
		return false, nil
	}
	if err == nil {
		_, err = o.out.Write(data)
	}
	return true, err
}

func (o *options) wide() bool { return o.output == "wide" }

// colour is what a cell looks like on a terminal.
type colour string

const (
	plain  colour = ""
	good   colour = "\x1b[32m"
	doubt  colour = "\x1b[33m"
	bad    colour = "\x1b[31m"
	strong colour = "\x1b[1m"
	reset         = "\x1b[0m"
)

// colours says whether the output is a terminal that wants colours.
func (o *options) colours() bool {
	if _, no := os.LookupEnv("NO_COLOR"); no || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, _, err := term.TerminalSize(o.out)
	return err == nil
}

func (o *options) paint(c colour, text string) string {
	if c == plain || text == "" || !o.colours() {
		return text
	}
	return string(c) + text + reset
}

// stateColour is the colour of a state of a task or phase of a framework.
func stateColour(state string) colour {
	switch state {
	case "Running", "subscribed":
		return good
	case "Unclear", "Unreachable", "Unheld", "framework removed", "failed over", "unreachable", "ambiguous", "failing":
		return bad
	case "Claimed", "Launching", "Restored", "Starting", "connecting", "draining":
		return doubt
	}
	return plain
}

// cell is a text of a table with its colour.
type cell struct {
	text   string
	colour colour
}

func text(format string, args ...any) cell {
	return cell{text: orDash(strings.Map(printable, fmt.Sprintf(format, args...)))}
}

// printable keeps what other people have named from steering the terminal.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func state(s string) cell { return cell{orDash(s), stateColour(s)} }

// table prints rows in columns under a header.
func (o *options) table(header []string, rows [][]cell) error {
	widths := make([]int, len(header))
	for i, h := range header {
		widths[i] = len(h)
	}
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	head := make([]cell, len(header))
	for i, h := range header {
		head[i] = cell{h, strong}
	}
	var b strings.Builder
	for _, row := range append([][]cell{head}, rows...) {
		for i, c := range row {
			b.WriteString(o.paint(c.colour, c.text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+3))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(o.out, b.String())
	return err
}

// fields prints names and values in two columns.
func (o *options) fields(rows [][2]cell) error {
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0].text))
	}
	for _, r := range rows {
		if _, err := fmt.Fprintf(o.out, "%s%s  %s\n", o.paint(strong, r[0].text+":"), strings.Repeat(" ", width-len(r[0].text)), o.paint(r[1].colour, r[1].text)); err != nil {
			return err
		}
	}
	return nil
}

// age says how long ago something was, as kubectl does.
func (o *options) age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, o.now().Sub(t)))
}
