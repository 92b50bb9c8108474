#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Measures throughput against stock kube-scheduler. Arguments go to the test: -workloads=basic-500,few-big-agents -pairs=5
# -logs=FOLDER (logs and CPU profiles of each run).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root=$(cd ../../.. && pwd)
source "$root/hack/lib/progress.sh"

export PATH="$root/.tools:$PATH" # etcd
with_progress "compiling scheduler_perf with the plugin (about five minutes the first time)" go test -c -o "$root/bin/throughput.test" .
# Lines come as they are measured. What else a run says is in its log.
"$root/bin/throughput.test" -test.run '^TestThroughput$' -test.v -test.timeout=90m -v=0 "$@" | grep --line-buffered -E '^(throughput|cpu):|FAIL|throughput_test.go'
