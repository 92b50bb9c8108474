# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the scripts of this folder.

# with_progress WHAT COMMAND...: runs a command that may take minutes and says every 20 seconds that it still runs.
with_progress() {
  local what=$1 start=$SECONDS last=$SECONDS pid
  shift
  "$@" &
  pid=$!
  # shellcheck disable=SC2064 # the process id of now
  trap "kill $pid 2>/dev/null || true" EXIT
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - last >= 20)); then
      last=$SECONDS
      echo "  still $what ($((SECONDS - start)) s) ..."
    fi
  done
  trap - EXIT
  wait "$pid"
}
