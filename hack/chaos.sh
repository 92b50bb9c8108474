#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Proves the invariants under faults: RUNS runs (3) of test/chaos, PARALLEL at a time (4), of the seeds from SEED (1) on;
# SEED=fresh draws one. HOLLOW=1 has real kubelet code (hollow kubelets) for nodes instead of kwok.
# The scheduler, the executor and the harness run with the race detector if there is a C compiler (RACE=0: without).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/lib/progress.sh

flags=()
binaries=bin
if [[ ${RACE:-1} == 1 ]] && command -v "$(go env CC)" >/dev/null; then
  flags=(-race)
  binaries=bin/race
fi
mkdir -p "$binaries" bin/race
with_progress "building for chaos (the first build with the race detector takes some minutes)" \
  go build "${flags[@]}" -o "$binaries/" ./cmd/kube-mesos-scheduler ./cmd/kube-mesos-executor
go build "${flags[@]}" -o "bin/race/chaos" ./test/chaos/cmd
exec bin/race/chaos -runs "${RUNS:-3}" -parallel "${PARALLEL:-4}" -seed "${SEED:-1}" -hollow="${HOLLOW:-0}" -binaries "$binaries"
