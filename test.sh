#!/usr/bin/env bash
# Runs every test, or those of the targets that are named; the last line says how many
# test cases passed and failed. Options go to `bazel test`.
#
#   ./test.sh [OPTION]... [//TARGET]... [-//TARGET]...
set -euo pipefail
cd "$(dirname "$0")"
options=()
targets=()
for argument; do
  if [[ $argument == ?(-)//* ]]; then targets+=("$argument"); else options+=("$argument"); fi
done
[[ ${#targets[@]} -gt 0 ]] || targets=(//...)
tools/setup.sh --tests
events=$(mktemp)
trap 'rm -f "$events"' EXIT
status=0
bazel test --keep_going --build_event_json_file="$events" "${options[@]}" \
  -- "${targets[@]}" || status=$?
python3 tools/count_tests.py "$events" "$status"
