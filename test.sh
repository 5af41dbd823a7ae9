#!/usr/bin/env bash
# Runs every test; the last line says how many test cases passed and failed.
# Further arguments go to `bazel test`, for example --config=asan.
set -euo pipefail
cd "$(dirname "$0")"
tools/setup.sh --tests
events=$(mktemp)
trap 'rm -f "$events"' EXIT
status=0
bazel test --keep_going --build_event_json_file="$events" "$@" //... || status=$?
python3 tools/count_tests.py "$events" "$status"
