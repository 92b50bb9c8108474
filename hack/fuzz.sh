#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzz target that reads what a network peer sends, for FUZZ_SECONDS (20) each.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${FUZZ_SECONDS:-20}
while IFS=: read -r file target; do
  echo "fuzzing $target ($seconds s) ..."
  go test -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" "./$(dirname "$file")"
done < <(git grep -oE "^func Fuzz[A-Za-z]+" -- "plugins/*_test.go" | sed "s/func //")
