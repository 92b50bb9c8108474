#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzz target that reads what a network peer sends, with FUZZ_EXECS (50000) inputs each.
#
# Inputs are counted, not seconds: at the end of its time go test sometimes takes its own deadline for a failure of the target
# ("context deadline exceeded", go.dev/issue/75804; mended in Go 1.27). What is found to be interesting is made small by a
# count as well: by default that may take a minute for each, in which nothing else is tried.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

execs=${FUZZ_EXECS:-50000}
if [[ ! $execs =~ ^[1-9][0-9]*$ ]]; then
  echo "FUZZ_EXECS=$execs: want a number of inputs, as in FUZZ_EXECS=50000" >&2
  exit 2
fi
longest=15m # an input that hangs a target would else hang this
# A target is no part of the terminal's group (timeout makes one of its own), so that ^C does not reach it.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
while IFS=: read -r file target; do
  echo "fuzzing $target ($execs inputs) ..."
  status=0
  timeout "$longest" go test -run '^$' -fuzz "^$target\$" -fuzztime "${execs}x" -fuzzminimizetime 100x "./$(dirname "$file")" &
  wait $! || status=$?
  if ((status == 124)); then
    echo "$target did not end within $longest: an input hangs it, or FUZZ_EXECS is too large" >&2
  fi
  ((status == 0)) || exit "$status"
done < <(git grep -oE "^func Fuzz[A-Za-z]+" -- "plugins/*_test.go" | sed "s/func //")
