#!/usr/bin/env bash
# Installs Stowage, moves it elsewhere, and builds examples/external by CMake and by
# pkg-config, each in ways that would fail if headers, library or flags were missing.
#
#   tests/using/installed.sh [BAZEL'S OPTION]...
#
# For .ci/run, and not a test of Bazel's: it calls Bazel, whose objects it uses.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "[installed] $*" >&2
  exit 1
}

tools/install.sh --prefix "$work/first" "$@"
mkdir "$work/a b"
mv "$work/first" "$work/a b/second"
prefix="$work/a b/second"

# Eigen is the kernels' own.
! grep -rn "Eigen/" "$prefix/include" || fail "public headers include Eigen"

export CMAKE_PREFIX_PATH="$prefix"
cmake -S examples/external -B "$work/cmake" -DCMAKE_BUILD_TYPE=Debug
cmake --build "$work/cmake" --parallel
(cd "$work/cmake" && ctest --output-on-failure)
sed 's/Stowage 0.1/Stowage 0.99/' examples/external/CMakeLists.txt >"$work/CMakeLists.txt"
! cmake -S "$work" -B "$work/newer" >/dev/null 2>&1 ||
  fail "0.99 was asked for and found"

export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
[[ $(pkg-config --modversion stowage) == $(sed -n 's/.*kVersion = "\(.*\)".*/\1/p' base/version.h) ]] ||
  fail "pkg-config says version $(pkg-config --modversion stowage)"
eval "flags=($(pkg-config --cflags --libs stowage))"
(cd examples/external && g++ -std=c++20 -I. main.cc snake.cc waves.cc "${flags[@]}" -o "$work/train")
"$work/train"

# What is said below C++20, and first.
echo '#include "stowage/stowage.h"' >"$work/old.cc"
! g++ -std=c++17 -fsyntax-only "$work/old.cc" "${flags[@]}" 2>"$work/errors" ||
  fail "C++17 was taken"
grep -m 1 "error" "$work/errors" | grep -q "Stowage needs C++20: compile with -std=c++20" ||
  fail "C++17 is refused with $(grep -m 1 "error" "$work/errors")"
