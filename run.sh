#!/usr/bin/env bash
# Builds the command line program and trains a small GPT on a novel inside
# 32 MiB, weights, gradients and optimizer state included; draws the plan to
# out/gpt-nano.svg and out/gpt-nano.html. Further arguments go to `stowage train`; ./run.sh --help lists
# them.
set -euo pipefail
cd "$(dirname "$0")"
tools/setup.sh
bazel build //tools:stowage
mkdir -p out
exec "$(bazel info bazel-bin 2>/dev/null)/tools/stowage" train \
  --model gpt-nano \
  --data examples/data/pride_and_prejudice.txt \
  --budget 32MiB \
  --svg out/gpt-nano.svg \
  --html out/gpt-nano.html \
  "$@"
