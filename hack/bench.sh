#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Measures speed and size: the benchmarks beside the code, then the whole path under test/perf, then throughput against
# stock kube-scheduler. Figures of two things are compared only within one run: another machine, or another minute, gives
# others. With the argument "scale" it measures only growth to 10,000 agents.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/lib/progress.sh

if [[ ${1:-} == scale ]]; then
  SCALE=1 go test -run '^TestScale$' -count=1 -timeout=30m -v ./test/perf | grep --line-buffered -E '^(scale:|---|FAIL|ok)|_test.go'
  exit
fi

echo "machine: $(nproc) CPUs, $(go env GOVERSION), kubernetes $(go list -m -f '{{.Version}}' k8s.io/kubernetes)"
mapfile -t packages < <(git grep -lE '^func Benchmark' -- 'plugins/*_test.go' | xargs -r -n 1 dirname | sort -u | sed 's|^|./|')
if ((${#packages[@]})); then
  with_progress "measuring (compiling the first time takes some minutes)" \
    go test -run '^$' -bench . -benchtime=100ms -benchmem "${packages[@]}"
fi
with_progress "measuring the simulator" go test -run '^$' -bench Scale -benchtime 1x ./test/mesossim
# kube-scheduler's own benchmark, which some of these are built on, wants etcd on the PATH.
export PATH="$PWD/.tools:$PATH"
if [[ -n $(git ls-files 'test/perf/*_test.go' ':!test/perf/throughput') ]]; then
  # The simulator's and the plugin's own log would hide the figures.
  go test -count=1 -timeout=60m -v ./test/perf 2>/dev/null | grep --line-buffered -vE '^[IWE][0-9]{4} |^=== '
fi
if [[ -x test/perf/throughput/run.sh ]]; then
  test/perf/throughput/run.sh
fi
