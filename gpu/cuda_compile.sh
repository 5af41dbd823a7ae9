#!/usr/bin/env bash
# Compiles one source with nvcc, for //gpu:cuda_library.bzl. In one call it makes
# the object, the log of ptxas (kept even where nothing is wrong, for it says how
# many registers each kernel takes), the PTX, and the list of headers that were
# offered and not read.
#
#   cuda_compile.sh HEADERS NVCC SOURCE OBJECT LOG PTX UNUSED OPTION...
set -euo pipefail
headers=$1 nvcc=$2 source=$3 object=$4 log=$5 ptx=$6 unused=$7
shift 7

# A fixed name: the names of intermediate files are in the object.
kept=$object.kept
trap 'rm -rf "$kept"' EXIT
rm -rf "$kept"
mkdir "$kept"

status=0
"$nvcc" "$@" -c "$source" -o "$object" -MD -MF "$kept/read" \
  --keep --keep-dir "$kept" 2>"$log" || status=$?
# What is left is a warning or an error.
grep -vE "^ptxas info|bytes stack frame, .*spill" "$log" >&2 || true
[[ $status == 0 ]] || exit "$status"

mv "$kept"/*.ptx "$ptx"

# The dependency file is one rule over many lines: "object : a.h \".
tr -s ' \\' '\n\n' <"$kept/read" | sed 's|^\./||' | sort -u >"$kept/names"
grep -vxFf "$kept/names" "$headers" >"$unused" || true
