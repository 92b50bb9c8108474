#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Generates the deep copies, defaults and conversions of the config API (zz_generated.*.go). With --verify it changes
# nothing and fails if the generated files are not up to date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

module=$(go list -m)
api=plugins/mesos/apis/config
[[ -d $api ]] || exit 0

saved=
restore() {
  find "$api" -name 'zz_generated*' -delete
  cp -Rp "$saved/before/." "$api/"
  rm -rf "$saved"
}
if [[ ${1:-} == --verify ]]; then
  saved=$(mktemp -d)
  mkdir "$saved/before" "$saved/after"
  (cd "$api" && find . -name 'zz_generated*' | tar -cf - -T -) | tar -C "$saved/before" -xf -
  trap restore EXIT
fi

# generate GENERATOR MARKER ARGS...: runs it over the packages that ask for it in a comment.
generate() {
  local generator=$1 marker=$2 bin packages
  shift 2
  mapfile -t packages < <(grep -rlE "^// \+$marker" "$api" --include=doc.go --include=register.go | xargs -r -n 1 dirname | sort -u | sed "s|^|$module/|")
  ((${#packages[@]})) || return 0
  bin=$(cd hack/verify && go tool -n "$generator")
  "$bin" --go-header-file hack/boilerplate.go.txt "$@" "${packages[@]}"
}

generate deepcopy-gen 'k8s:deepcopy-gen=' --output-file zz_generated.deepcopy.go
generate defaulter-gen 'k8s:defaulter-gen=' --output-file zz_generated.defaults.go
generate conversion-gen 'k8s:conversion-gen=' --output-file zz_generated.conversion.go

if [[ -n $saved ]]; then
  (cd "$api" && find . -name 'zz_generated*' | tar -cf - -T -) | tar -C "$saved/after" -xf -
  if ! git --no-pager diff --no-index --stat "$saved/before" "$saved/after"; then
    echo "generated code is not up to date: run hack/update-codegen.sh"
    exit 1
  fi
fi
