#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the product's programs, all under cmd/ or those named as arguments, into bin/ or $BIN. $VERSION is what they call
# themselves, by default what git calls the last commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/lib/progress.sh

version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}
kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${kubernetes#v1.}
minor=${minor%%.*}
v=k8s.io/component-base/version
# The scheduler is a kube-scheduler of that version and says so; the build metadata says which build of ours it is.
ldflags="-s -w -X main.version=$version -X $v.gitVersion=$kubernetes+kube-mesos.$version -X $v.gitMajor=1 -X $v.gitMinor=$minor -X $v.gitCommit=$(git rev-parse HEAD 2>/dev/null || echo unknown)"

if (($# == 0)); then
  mapfile -t names < <(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./cmd/... | sed -n 's|.*/cmd/\([^/]*\)$|\1|p')
  set -- "${names[@]}"
fi
bin=${BIN:-bin}
mkdir -p "$bin"
for name in "$@"; do
  start=$SECONDS
  echo "building $name ..."
  # Static, so that they run in an empty image and, the executor, on any host.
  CGO_ENABLED=0 with_progress "building $name (the first build takes about three minutes on two cores)" \
    go build -ldflags "$ldflags" -o "$bin/$name" "./cmd/$name"
  echo "built $bin/$name $version in $((SECONDS - start)) s"
done
