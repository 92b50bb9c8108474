#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Measures speed and size: the benchmarks beside the code, then the whole path under test/perf. Figures of two things
# are compared only within one run: another machine, or another minute, gives others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/lib/progress.sh

echo "machine: $(nproc) CPUs, $(go env GOVERSION), kubernetes $(go list -m -f '{{.Version}}' k8s.io/kubernetes)"
mapfile -t packages < <(git grep -lE '^func Benchmark' -- 'plugins/*_test.go' | xargs -r -n 1 dirname | sort -u | sed 's|^|./|')
if ((${#packages[@]})); then
  with_progress "measuring (compiling the first time takes some minutes)" \
    go test -run '^$' -bench . -benchmem "${packages[@]}"
fi
with_progress "measuring the simulator" go test -run '^$' -bench Scale -benchtime 1x ./test/mesossim
# kube-scheduler's own benchmark, which some of these are built on, wants etcd on the PATH.
export PATH="$PWD/.tools:$PATH"
if [[ -n $(git ls-files 'test/perf/*_test.go' ':!test/perf/throughput') ]]; then
  with_progress "measuring the whole path" go test -count=1 -timeout=60m -v ./test/perf/...
fi
if [[ -x test/perf/throughput/run.sh ]]; then
  test/perf/throughput/run.sh
fi
