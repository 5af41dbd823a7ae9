#!/usr/bin/env bash
# Builds the wheel of the Python package (docs/python.md).
#
#   tools/build_wheel.sh [--out DIR] [--native] [BAZEL'S OPTION]...
#
#   --out DIR   where the wheel goes; default: dist/
#   --native    from the objects that tests and programs are made of, for processors like
#               this machine's, and with CUDA where there is a toolkit. Without it the
#               wheel runs on any x86-64 since about 2009, on the CPU.
#
# It is for the interpreter that STOWAGE_PYTHON names, else /usr/bin/python3. The last line
# is the wheel's path.
set -euo pipefail
cd "$(dirname "$0")/.."

out=dist
options=(--config=portable --config=nocuda)
while [[ ${1-} == --out || ${1-} == --native ]]; do
  if [[ $1 == --out ]]; then
    out=${2:?"[wheel] --out is without a folder"}
    shift
  else
    options=()
  fi
  shift
done

python=${STOWAGE_PYTHON:-/usr/bin/python3}
options+=(--repo_env=STOWAGE_PYTHON="$python" "$@")
bazel build "${options[@]}" //python:stowage/_core.so //python:ops //tools:stowage >&2 || {
  echo "[wheel] nothing was built; where there is no target _core.so, this says what is missing:" >&2
  head -n 3 "$(bazel info output_base 2>/dev/null)/external/python/defs.bzl" >&2
  exit 1
}
bin=$(bazel info "${options[@]}" bazel-bin 2>/dev/null)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$bin/python/stowage/_core.so" "$bin/tools/stowage" "$work/"
chmod u+w "$work"/*
strip "$work"/*
"$python" python/make_wheel.py \
  --version "$(sed -n 's/.*kVersion = "\(.*\)".*/\1/p' base/version.h)" \
  --module "$work/_core.so" --command "$work/stowage" --readme README.md \
  --license LICENSE --out "$out" \
  python/stowage/*.py python/stowage/*.pyi python/stowage/py.typed "$bin/python/stowage/ops.py"
