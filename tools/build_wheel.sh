#!/usr/bin/env bash
# Builds the wheel of the Python package (docs/tutorials/python.md).
#
#   tools/build_wheel.sh [--out DIR] [--native | --aarch64] [--python PYTHON]...
#       [BAZEL'S OPTION]...
#
#   --out DIR        where wheels go; default: dist/
#   --native         from the objects that tests and programs are made of, for processors
#                    like this machine's, and with CUDA where there is a toolkit. Without it
#                    the wheel runs on any x86-64 since about 2009, on the CPU, by kernels for
#                    SSE4.2, AVX2 or AVX-512 (cpu/targets.h); on a 64-bit ARM, on any of those.
#   --aarch64        for any 64-bit ARM, on another machine, with the cross compiler and the
#                    libraries that tools/setup.sh --aarch64 installs
#   --python PYTHON  the interpreter that it is for, with its headers, NumPy and pybind11;
#                    default: STOWAGE_PYTHON, else /usr/bin/python3. Of several, each gets a
#                    wheel; nothing but python/ is compiled more than once.
#
# The last lines are the paths of the wheels, one for each interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

out=dist
options=(--config=portable --config=nocuda)
[[ $(uname -m) != aarch64 ]] || options=(--config=armv8 --config=nocuda)
machine=$(uname -m)
strip=strip
pythons=()
while [[ ${1-} == --out || ${1-} == --native || ${1-} == --aarch64 || ${1-} == --python ]]; do
  case $1 in
    --native) options=() ;;
    --aarch64) options=(--config=aarch64) machine=aarch64 strip=aarch64-linux-gnu-strip ;;
    --out) out=${2:?"[wheel] --out is without a folder"} && shift ;;
    --python) pythons+=("${2:?"[wheel] --python is without an interpreter"}") && shift ;;
  esac
  shift
done
[[ ${#pythons[@]} != 0 ]] || pythons=("${STOWAGE_PYTHON:-/usr/bin/python3}")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# wheel PYTHON BAZEL'S OPTION...: builds one.
wheel() {
  local python=$1 bin
  shift
  bazel build "$@" //python:stowage/_core.so //python:ops //tools:stowage >&2 || {
    echo "[wheel] nothing was built; where there is no target _core.so, this says what is missing:" >&2
    head -n 3 "$(bazel info output_base 2>/dev/null)/external/python/defs.bzl" >&2
    return 1
  }
  bin=$(bazel info "$@" bazel-bin 2>/dev/null)
  cp -f "$bin/python/stowage/_core.so" "$bin/tools/stowage" "$work/"
  chmod u+w "$work"/*
  "$strip" "$work"/*
  "$python" python/make_wheel.py \
    --version "$(sed -n 's/.*kVersion = "\(.*\)".*/\1/p' base/version.h)" \
    --machine "$machine" --module "$work/_core.so" --command "$work/stowage" --readme README.md \
    --license LICENSE --out "$out" \
    python/stowage/*.py python/stowage/_aten/*.py python/stowage/*.pyi python/stowage/py.typed "$bin/python/stowage/ops.py"
}

for python in "${pythons[@]}"; do
  found=$(command -v "$python") || {
    echo "[wheel] there is no $python" >&2
    exit 1
  }
  # Absolute, but no link is followed: that of a virtual environment leads out of it.
  found=$(cd "$(dirname "$found")" && pwd)/$(basename "$found")
  wheel "$found" "${options[@]}" "--repo_env=STOWAGE_PYTHON=$found" "$@"
done
