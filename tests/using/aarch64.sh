#!/usr/bin/env bash
# Builds the command for this x86-64 machine and for AArch64, and runs both, the second by
# qemu: tests/using/aarch64.py. The last line counts what passed and failed.
#
#   tests/using/aarch64.sh [BAZEL'S OPTION]...
#
# For .ci/nightly, and not a test of Bazel's: it calls Bazel, whose objects it uses.
set -euo pipefail
cd "$(dirname "$0")/../.."

# built BAZEL'S OPTION...: the command's path. The two lie in folders of their own.
built() {
  bazel build "$@" //tools:stowage >&2
  echo "$(bazel info "$@" bazel-bin 2>/dev/null)/tools/stowage"
}

native=$(built --config=nocuda "$@")
arm=$(built --config=aarch64 "$@")
exec python3 tests/using/aarch64.py "$native" "$arm"
