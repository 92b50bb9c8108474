// SPDX-License-Identifier: Apache-2.0

// Command test runs all tests of the repository and says how many there were.
//
// First come the unit tests with the race detector (which needs a C compiler: without one they run without it), then
// the end-to-end suite. Packages are reported as they finish, failed tests with their output. The last line is
// `tests: <n> passed, <m> failed`; the exit code is 0 only if m is 0 and n is not.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// measured are the packages of `make bench`.
const measured = "test/perf"

// endToEnd are the packages whose tests run whole systems of the built programs.
var endToEnd = []string{"test/e2e", "test/chaos"}

func main() {
	unitOnly := flag.Bool("unit", false, "run the unit tests only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *unitOnly); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, unitOnly bool) error {
	unit, e2e, err := packages(ctx)
	if err != nil {
		return err
	}
	var total tally
	args := []string{"-race"}
	if !haveCompiler(ctx) {
		fmt.Println("no C compiler here: the race detector is off")
		args = nil
	}
	fmt.Printf("unit tests of %d packages (compiling the first time takes some minutes) ...\n", len(unit))
	if err := goTest(ctx, &total, append(append(args, "-timeout=15m"), unit...), nil); err != nil {
		return err
	}
	if !unitOnly && len(e2e) > 0 {
		fmt.Println("end-to-end tests on a real API server, with a simulated Mesos cluster and real executors ...")
		// Built as the product's programs are, so that what both need is compiled once.
		if err := goTest(ctx, &total, append([]string{"-count=1", "-timeout=45m", "-p=1"}, e2e...), []string{"CGO_ENABLED=0"}); err != nil {
			return err
		}
	}
	fmt.Print(total.summary())
	if len(total.failed) > 0 || total.passed == 0 {
		return errors.New("not all tests passed")
	}
	return nil
}

// packages returns those with unit tests and those of the end-to-end suite.
func packages(ctx context.Context) (unit, e2e []string, err error) {
	format := `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}`
	out, err := exec.CommandContext(ctx, "go", "list", "-f", format, "./...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	for _, p := range strings.Fields(string(out)) {
		in := func(folder string) bool { return strings.HasSuffix(p, folder) || strings.Contains(p, folder+"/") }
		switch {
		case in(measured):
		case slices.ContainsFunc(endToEnd, in):
			e2e = append(e2e, p)
		default:
			unit = append(unit, p)
		}
	}
	return unit, e2e, nil
}

func haveCompiler(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, "go", "env", "CC").Output()
	if err != nil {
		return false
	}
	cc := strings.Fields(string(out))
	if len(cc) == 0 {
		return false
	}
	_, err = exec.LookPath(cc[0])
	return err == nil
}

// goTest runs `go test`, with more environment, and adds what it reports to total.
func goTest(ctx context.Context, total *tally, args, environment []string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stderr = os.Stderr
	// The tests' own processes must get a chance to be ended.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	events := make(chan event)
	go func() {
		defer close(events)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			if len(line) > 0 {
				events <- parse(line)
			}
			if err != nil {
				return
			}
		}
	}()
	r := newReport(os.Stdout)
	tick := time.NewTicker(20 * time.Second)
	defer tick.Stop()
	for open := true; open; {
		select {
		case e, ok := <-events:
			if open = ok; ok {
				r.add(e)
			}
		case <-tick.C:
			r.progress()
		}
	}
	err = cmd.Wait()
	total.add(r.tally)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil && len(r.tally.failed) == 0 {
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}

// event is one line of `go test -json`, see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
	// ImportPath is set instead of Package on build output.
	ImportPath  string
	FailedBuild string
}

func parse(line []byte) event {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return event{Action: "build-output", Output: string(line)} // not JSON: the go command itself speaks
	}
	return e
}
