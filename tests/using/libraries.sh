#!/usr/bin/env bash
# That a library which is installed after a build is found by the next one, as one that is
# removed is missed: `./run.sh` before, `./test.sh` behind it. Hides protobuf's headers under
# an empty folder, in a mount namespace of its own, and asks Bazel whether there are tests of
# ONNX; compiles nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ ${1-} != inside ]]; then
  unshare --map-root-user --mount true || {
    echo "[libraries] not tried: there are no mount namespaces here" >&2
    exit 0
  }
  exec unshare --map-root-user --mount "$0" inside
fi

base=$(mktemp -d)
hidden=/usr/include/google
ask() { bazel --output_base="$base/out" --max_idle_secs=60 "$@"; }
trap 'ask shutdown; chmod -R u+w "$base"; rm -rf "$base"' EXIT

# expect yes|no WHEN: that there are tests of ONNX.
failed=0
expect() {
  local found=no
  ask query 'tests(//tests/onnx/...)' >"$base/tests" 2>"$base/err" || {
    cat "$base/err" >&2
    exit 1
  }
  grep -q //tests/onnx: "$base/tests" && found=yes
  [[ $found == "$1" ]] && return
  echo "[libraries] $2: tests of ONNX found: $found; expected: $1" >&2
  failed=1
}

mkdir "$base/empty"
mount --bind "$base/empty" "$hidden"
expect no "without protobuf"
umount "$hidden"
expect yes "with protobuf, installed since"
mount --bind "$base/empty" "$hidden"
expect no "with protobuf removed again"
exit "$failed"
