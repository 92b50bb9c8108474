#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the programs of a Kubernetes control plane (etcd, kube-apiserver, kube-controller-manager, kubectl, kwok and
# kubemark, which is the real kubelet over a fake container runtime) from Go modules into .tools/. Nothing is
# downloaded but modules. It builds only what is missing or of another version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/lib/progress.sh

export CGO_ENABLED=0 # as the product's programs: what both need is compiled once

out="$PWD/.tools"
mkdir -p "$out"
if command -v flock >/dev/null; then
  exec 9>"$out/.lock"
  flock -n 9 || { echo "waiting for another build of the control plane ..."; flock 9; }
fi

cd hack/tools
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}
minor=${minor%%.*}
v=k8s.io/component-base/version
ldflags="-s -w -X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=$minor -X $v.gitTreeState=clean"
key="$(cat go.mod go.sum | git hash-object --stdin) $(go env GOVERSION) $ldflags"

programs=(
  etcd=go.etcd.io/etcd/server/v3
  kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver
  kube-controller-manager=k8s.io/kubernetes/cmd/kube-controller-manager
  kubectl=k8s.io/kubernetes/cmd/kubectl
  kwok=sigs.k8s.io/kwok/cmd/kwok
  kubemark=k8s.io/kubernetes/cmd/kubemark
)

n=0
for p in "${programs[@]}"; do
  n=$((n + 1))
  name=${p%%=*}
  if [[ -x $out/$name && -f $out/.$name.key && $(<"$out/.$name.key") == "$key" ]]; then
    continue
  fi
  echo "building $name ($n of ${#programs[@]}; the first build of all takes about ten minutes on two cores) ..."
  start=$SECONDS
  with_progress "building $name" go build -ldflags "$ldflags" -o "$out/$name" "${p#*=}"
  echo "built $name in $((SECONDS - start)) s"
  echo "$key" >"$out/.$name.key"
done

# The stages by which kwok plays a kubelet's node are data files of its module. The stages of pods are the tests' own
# (test/cluster/testdata/kwok.yaml).
stages=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
for f in node/fast/node-initialize.yaml node/heartbeat/node-heartbeat.yaml; do
  echo '---'
  cat "$stages/$f"
  echo
done >"$out/kwok-node-stages.yaml.new"
mv "$out/kwok-node-stages.yaml.new" "$out/kwok-node-stages.yaml"
