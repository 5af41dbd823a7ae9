#!/usr/bin/env bash
# By which flags a workspace that uses Stowage has it compiled (tools/optimized.bzl):
# asks Bazel, compiles nothing.
set -euo pipefail
cd "$(dirname "$0")/../../examples/external"
failed=0

# expect WHAT OPTION...: that a kernel's command line, by these options of Bazel's,
# ends with these -O and -std.
expect() {
  local what=$1 line got
  shift
  line=$(bazel aquery "$@" --repo_env=STOWAGE_CUDA=0 \
    'inputs(".*/cpu/kernels/gemm.cc", mnemonic("CppCompile", deps(//:train)))' 2>/dev/null |
    tr -d "'" | grep -oE -- '-(O[0-9]|std=[a-z+0-9]+)' || true)
  got="$(grep -- -O <<<"$line" | tail -n 1) $(grep -- -std <<<"$line" | tail -n 1)"
  [[ $got == "$what" ]] && return
  echo "[flags] with \"$*\" a kernel is compiled by \"$got\"; expected \"$what\"" >&2
  failed=1
}

expect "-O3 -std=c++20"
expect "-O3 -std=c++20" --compilation_mode=opt --cxxopt=-std=c++17
expect "-O3 -std=c++23" --cxxopt=-std=c++23
expect "-O1 -std=c++20" --copt=-O1
expect " -std=c++20" --compilation_mode=dbg
exit "$failed"
