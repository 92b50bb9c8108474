#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the images of scheduler and executor as OCI archives in .run/images, without an engine, and their bills of
# materials (SPDX). The same commit gives the
# same bits on any machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=.run/images
mkdir -p "$out/bin"
BIN=$out/bin GOFLAGS='-trimpath -buildvcs=false' hack/build.sh kube-mesos-scheduler kube-mesos-executor
tag=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
arch=$(go env GOARCH)
go run ./hack/image -name kube-mesos-scheduler -tag "$tag" -arch "$arch" -user 65532:65532 -out "$out/kube-mesos-scheduler.tar" "$out/bin/kube-mesos-scheduler"
go run ./hack/image -name kube-mesos-executor -tag "$tag" -arch "$arch" -out "$out/kube-mesos-executor.tar" "$out/bin/kube-mesos-executor"
for name in kube-mesos-scheduler kube-mesos-executor; do
  go run ./hack/sbom "$out/bin/$name" >"$out/$name.spdx.json"
done
