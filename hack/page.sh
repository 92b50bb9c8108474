#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests the web page in a real Chromium against the demo's cluster, which must be up (`make up`). It needs chromium and npm;
# pictures go to .run/page.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ -z $chromium ]] || ! command -v npm >/dev/null; then
  echo "this test needs chromium and npm" >&2
  exit 1
fi
if [[ ! -f .run/up/greeting || ! -f .run/kubeconfig ]]; then
  echo "run \`make up\` first" >&2
  exit 1
fi
URL=$(sed -n 's|.*scheduler status: *\(http://[^/]*\)/.*|\1|p' .run/up/greeting)
root=$PWD
kubectl() { "$root/.tools/kubectl" --kubeconfig="$root/.run/kubeconfig" "$@"; }
pod() {
  kubectl run "$1" --image=registry.invalid/pause --restart=Never --overrides='{"spec":{"schedulerName":"kube-mesos-scheduler","terminationGracePeriodSeconds":0,"containers":[{"name":"main","image":"registry.invalid/pause","resources":{"requests":{"cpu":"'"$2"'","memory":"256Mi"}}}]}}' >/dev/null
}
clean() { kubectl delete pod too-large fits --ignore-not-found --wait=false >/dev/null; }
trap clean EXIT
kubectl delete pod too-large fits --ignore-not-found >/dev/null
pod fits 1500m
pod too-large 64
kubectl wait pod/fits --for=condition=Ready --timeout=60s >/dev/null

# Outside the tree, so that no folder of packages gets into it.
work=.run/page
mkdir -p $work
cp test/page/package.json test/page/page.test.mjs $work/
(cd $work && npm install --silent --no-audit --no-fund --no-package-lock)
cd $work
CHROMIUM=$chromium URL=$URL OUT=$PWD/pictures node --test page.test.mjs
