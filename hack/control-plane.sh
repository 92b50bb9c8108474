#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the programs of a Kubernetes control plane (etcd, kube-apiserver, kube-controller-manager, kubectl, kwok and
# kubemark, which is the real kubelet over a fake container runtime) from Go modules into .tools/. Nothing is
# downloaded but modules. It builds only what is missing or older than hack/tools/go.sum.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out="$PWD/.tools"
mkdir -p "$out"
key="$(cat hack/tools/go.mod hack/tools/go.sum hack/control-plane.sh | sha256sum | cut -d' ' -f1) $(go env GOVERSION)"

cd hack/tools
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}
minor=${minor%%.*}
v=k8s.io/component-base/version
ldflags="-s -w -X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=$minor -X $v.gitTreeState=clean"

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
  go build -ldflags "$ldflags" -o "$out/$name" "${p#*=}"
  echo "$key" >"$out/.$name.key"
  echo "built $name in $((SECONDS - start)) s"
done

# The stages by which kwok plays a kubelet are data files of its module.
stages=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
: >"$out/kwok-stages.yaml.new"
for f in node/fast/node-initialize.yaml node/heartbeat/node-heartbeat.yaml \
  pod/general/pod-create.yaml pod/general/pod-ready.yaml pod/general/pod-complete.yaml \
  pod/general/pod-delete.yaml pod/general/pod-remove-finalizer.yaml; do
  [[ -f $stages/$f ]] || continue
  { echo '---'; cat "$stages/$f"; echo; } >>"$out/kwok-stages.yaml.new"
done
mv "$out/kwok-stages.yaml.new" "$out/kwok-stages.yaml"
