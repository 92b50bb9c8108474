#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the images of scheduler and executor as OCI archives in .run/images, without an engine, and their bills of
# materials (SPDX), and starts each image's program with nothing but the image. The same commit gives the same bits on any
# machine: with the argument `reproduce` it builds the last commit twice, in two folders with a build cache of their own
# each, and compares.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ${1:-} == reproduce ]]; then
  commit=$(git rev-parse HEAD)
  work=$(mktemp -d)
  trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
  for build in one another-folder; do
    git clone --quiet . "$work/$build"
    git -C "$work/$build" checkout --quiet "$commit"
    (cd "$work/$build" && GOCACHE=$work/cache-$build hack/images.sh)
  done
  for archive in "$work"/one/.run/images/*.tar; do
    cmp "$archive" "$work/another-folder/.run/images/${archive##*/}"
    echo "reproduced: $(sha256sum <"$archive" | cut -c 1-64) ${archive##*/}"
  done
  exit
fi

out=.run/images
mkdir -p "$out/bin"
tag=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
export VERSION=$tag
BIN=$out/bin GOFLAGS='-trimpath -buildvcs=false' hack/build.sh kube-mesos-scheduler kube-mesos-executor
arch=$(go env GOARCH)
go run ./hack/image -name kube-mesos-scheduler -tag "$tag" -arch "$arch" -user 65532:65532 -out "$out/kube-mesos-scheduler.tar" "$out/bin/kube-mesos-scheduler"
go run ./hack/image -name kube-mesos-executor -tag "$tag" -arch "$arch" -out "$out/kube-mesos-executor.tar" "$out/bin/kube-mesos-executor"
for name in kube-mesos-scheduler kube-mesos-executor; do
  go run ./hack/sbom "$out/bin/$name" >"$out/$name.spdx.json"
  version=$(go run ./hack/image -run "$out/$name.tar" -- --version)
  go run ./hack/image -run "$out/$name.tar" -- --help >"$out/$name.help.txt" 2>&1
  grep -q -- --v "$out/$name.help.txt"
  echo "started from its image: $version"
done
