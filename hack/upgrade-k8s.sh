#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Moves the product and the control plane of its tests to another version of Kubernetes:
#
#     hack/upgrade-k8s.sh v1.37.3
#
# k8s.io/kubernetes names its staging modules (k8s.io/api and so on) without versions, so each needs a replace line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1:-}
[[ $version =~ ^v1\.[0-9]+\.[0-9]+ ]] || { echo "usage: $0 v1.MINOR.PATCH" >&2; exit 2; }
staging=v0.${version#v1.}

for dir in $(git ls-files go.mod '*/go.mod' | xargs -n 1 dirname); do
  grep -q '^	*k8s\.io/kubernetes v' "$dir/go.mod" || continue
  echo "== $dir: k8s.io/kubernetes $version, staging modules $staging"
  (
    cd "$dir"
    gomod=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
    now=$(sed -n 's/^\t\(k8s\.io\/[a-z-]*\) => \.\/staging\/.*/\1/p' "$gomod" | sort)
    before=$(sed -n 's/^\t\(k8s\.io\/[a-z-]*\) => k8s\.io\/.*/\1/p' go.mod | sort)
    for module in $now; do
      go mod edit -replace="$module=$module@$staging"
    done
    # A module that no longer exists has no such version.
    for module in $(comm -13 <(echo "$now") <(echo "$before")); do
      go mod edit -dropreplace="$module"
    done
    go mod edit -require="k8s.io/kubernetes@$version"
    go mod tidy
  )
done
(
  cd hack/verify
  go get -tool "k8s.io/code-generator/cmd/deepcopy-gen@$staging" "k8s.io/code-generator/cmd/defaulter-gen@$staging" \
    "k8s.io/code-generator/cmd/conversion-gen@$staging"
  go mod tidy
)
hack/update-codegen.sh
echo "now run: make verify test"
