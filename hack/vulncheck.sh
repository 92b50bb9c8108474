#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Looks for known vulnerabilities in what the shipped programs call, the standard library of the Go that builds them
# included. It needs the Go vulnerability database: https://vuln.go.dev, or a mirror in $GOVULNDB (also file:///folder).
# Exit code 0: it was asked and nothing was found; 3: something was found; anything else: nothing is known.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/lib/progress.sh

govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.9.0
mapfile -t programs < <(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./cmd/... | sed '/^$/d; /mesos-sim$/d')

db=${GOVULNDB:-https://vuln.go.dev}
bin=$PWD/.run/vulncheck
GOBIN=$bin go install "$govulncheck" # `go run` would hide the exit code
rc=0
with_progress "checking for known vulnerabilities" "$bin/govulncheck" -db "$db" -show verbose "${programs[@]}" || rc=$?
case $rc in
0) echo "vulncheck: nothing found by ${govulncheck##*/} in ${#programs[@]} programs" ;;
3) echo "vulncheck: found something, see above" >&2 ;;
*) echo "vulncheck: nothing is known: the check failed, see above. The database is $db" >&2 ;;
esac
exit $rc
