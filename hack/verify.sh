#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks everything that can be checked without running the product. It runs all checks and names those that failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/lib/progress.sh

export CGO_ENABLED=0 # as the product's programs: what both need is compiled once

failed=()
# check NAME COMMAND...: a check that prints nothing passes if its command does.
check() {
  local name=$1 start=$SECONDS
  shift
  echo "checking $name ..."
  if ! with_progress "checking $name" "$@"; then
    failed+=("$name")
    echo "FAILED: $name"
  elif ((SECONDS - start >= 5)); then
    echo "  done in $((SECONDS - start)) s"
  fi
}

module=$(go list -m)

# matching ARGS...: grep, for which no match is no error.
matching() { grep "$@" || [[ $? == 1 ]]; }

# files PATTERN: tracked and new files that are there, one a line.
files() {
  git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while read -r f; do
    if [[ -f $f ]]; then echo "$f"; fi
  done
}

# none MESSAGE: fails and prints its input if there is any.
none() {
  local lines
  lines=$(cat)
  [[ -z $lines ]] && return 0
  printf '%s\n%s\n' "$1:" "$lines"
  return 1
}

format() { files '*.go' | xargs gofmt -l | none "gofmt would change"; }

headers() {
  {
    files '*.go' | while read -r f; do
      # Generators put the build constraint first.
      lines=1
      [[ $f == */zz_generated* ]] && lines=5
      head -n "$lines" "$f" | grep -qx '// SPDX-License-Identifier: Apache-2.0' || echo "$f"
    done
    files '*.sh' Makefile .ci/run | while read -r f; do
      head -n 2 "$f" | grep -q '^# SPDX-License-Identifier: Apache-2.0$' || echo "$f"
    done
  } | none "files without the SPDX header"
}

scripts() {
  local f rc=0
  while read -r f; do bash -n "$f" || rc=1; done < <(files '*.sh' .ci/run)
  return $rc
}

# modules are the folders with a go.mod of their own.
modules() { files go.mod '*/go.mod' | xargs -n 1 dirname; }

vet() {
  local dir rc=0
  while read -r dir; do
    # The modules of tools have no packages.
    (cd "$dir" && [[ -z $(find . -maxdepth 1 -name '*.go') && $dir != . ]] || go vet ./...) || rc=1
  done < <(modules)
  return $rc
}

tool() { (cd hack/verify && go tool -n "$1"); }

static() {
  local staticcheck
  staticcheck=$(tool staticcheck) || return 1
  "$staticcheck" ./...
}

logging() {
  local logcheck
  logcheck=$(tool logcheck) || return 1
  "$logcheck" -check-contextual -test=false ./plugins/... ./cmd/...
}

tidy() {
  local dir rc=0
  for dir in $(modules); do
    # The diff of go.mod is enough to see what is wrong.
    (cd "$dir" && go mod tidy -diff | sed '/^diff .*go\.sum$/,$d'; exit "${PIPESTATUS[0]}") ||
      { echo "go.mod or go.sum in $dir is not tidy"; rc=1; }
  done
  return $rc
}

generated() {
  [[ -x hack/update-codegen.sh ]] || return 0
  hack/update-codegen.sh --verify
}

# Who may import what: docs/design.md says why.
imports() {
  local rc=0
  if [[ -d cmd/kube-mesos-executor ]]; then
    go list -deps ./cmd/kube-mesos-executor | matching -E '^k8s\.io/kubernetes(/|$)' |
      none "the executor must not depend on k8s.io/kubernetes" || rc=1
  fi
  go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}' ./... |
    awk -v m="$module" 'index($2, m "/test/") == 1 && index($1, m "/test/") != 1 && $1 != m "/cmd/mesos-sim" && index($1, m "/hack/") != 1' |
    none "only cmd/mesos-sim and tests may import what is under test/" || rc=1
  if [[ -d plugins/mesos/mesosapi ]]; then
    go list -deps ./plugins/mesos/mesosapi | matching -E '^(sigs\.)?k8s\.io/' | matching -vE '^k8s\.io/(klog|utils)(/|$)' |
      none "plugins/mesos/mesosapi must know nothing of Kubernetes" || rc=1
  fi
  local pure
  for pure in resources ledger taskinfo; do
    [[ -d plugins/mesos/$pure ]] || continue
    go list -f '{{join .Imports "\n"}}' "./plugins/mesos/$pure" | matching -xE 'net|net/http|os|os/exec|k8s\.io/client-go(/.*)?' |
      none "plugins/mesos/$pure must do no I/O" || rc=1
  done
  return $rc
}

check "formatting (gofmt)" format
check "SPDX headers" headers
check "shell scripts" scripts
check "imports" imports
check "go vet" vet
check "staticcheck" static
check "contextual logging (logcheck)" logging
check "go.mod and go.sum" tidy
check "generated code" generated

if ((${#failed[@]})); then
  printf 'verify: failed: %s\n' "$(IFS=,; echo "${failed[*]}")"
  exit 1
fi
echo "verify: ok"
