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
longest=15m # an input that hangs a target would else hang this
while IFS=: read -r file target; do
  echo "fuzzing $target ($execs inputs) ..."
  status=0
  timeout "$longest" go test -run '^$' -fuzz "^$target\$" -fuzztime "${execs}x" -fuzzminimizetime 100x "./$(dirname "$file")" || status=$?
  if ((status == 124)); then
    echo "$target did not end within $longest: an input hangs it, or FUZZ_EXECS is too large" >&2
  fi
  ((status == 0)) || exit "$status"
done < <(git grep -oE "^func Fuzz[A-Za-z]+" -- "plugins/*_test.go" | sed "s/func //")
