#!/usr/bin/env bash
# Runs the command of a portable build on processors that this machine is not, by qemu: a
# Nehalem, which has SSE4.2, and a Haswell, which has AVX2. An instruction that they lack ends
# it, as it would there.
#
#   tests/using/processors.sh [BAZEL'S OPTION]...
#
# For .ci/nightly, and not a test of Bazel's: it calls Bazel, whose objects it uses.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() {
  echo "[processors] $*" >&2
  exit 1
}

options=(--config=portable --config=nocuda "$@")
bazel build "${options[@]}" //tools:stowage
stowage=$(bazel info "${options[@]}" bazel-bin 2>/dev/null)/tools/stowage

# on PROCESSOR ARGUMENT...: the command's output there.
on() {
  qemu-x86_64 -cpu "$1" "$stowage" "${@:2}" 2>/dev/null
}

# check PROCESSOR TARGET: that it runs that one, plans for it and trains by it.
check() {
  local processor=$1 target=$2 version trained
  version=$(on "$processor" --version) || fail "no version on $processor: $version"
  [[ $version == *"CPU kernels: $target ("* ]] ||
    fail "on $processor: $version; expected CPU target $target"
  trained=$(on "$processor" train --model gpt-nano --data examples/data/pride_and_prejudice.txt \
    --batch 2 --seq 16 --steps 2 --sample 0 --device cpu --threads 2 --no-plan-cache --json) ||
    fail "no training on $processor: $trained"
  echo "[processors] $processor: ${version##*$'\n'}, trained"
}

check Nehalem v2
check Haswell v3
# What it lacks is refused, and not tried.
! on Nehalem plan --model mlp --cpu-target v3 || fail "Nehalem has planned for v3"
