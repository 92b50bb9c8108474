#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Replays what was recorded of a real Mesos master and agent against the simulator, and checks what is only described.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The scenarios that differ are shown in full; those that agree only count.
go test -count=1 -timeout=30m -run '^TestConformance' -v ./test/mesossim |
  grep -vE '^ *(=== |--- PASS|PASS$|ok |[a-z_]+\.go:[0-9]+: *$)'
