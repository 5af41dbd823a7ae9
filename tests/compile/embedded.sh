#!/usr/bin/env bash
# Trains steps in C on the host, on emulated Cortex-M and RISC-V processors and as WebAssembly,
# and compares their losses: .ci/nightly embedded. Needs what examples/embedded/Makefile names.
#
#   tests/compile/embedded.sh STOWAGE
set -euo pipefail
stowage=$(realpath "$1")
cd "$(dirname "$0")/../../examples/embedded"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

train() {  # NAME TARGET [VARIABLE=VALUE...]
  local name=$1 target=$2
  shift 2
  make --silent "$target" STOWAGE="$stowage" OUT="$out/$name" "$@"
}

train mlp compare
train cnn compare MODEL=cnn-small PIXELS=784 BATCH=2 BUDGET=2MB

# A step that leaves 512 KiB of SRAM room for its stack.
small=(MODEL=cnn-small PIXELS=784 BATCH=8 BUDGET=500KB OPTIMIZER=sgd
  "MORE=--micro-batches 8 --recompute auto --allow-batch-change --evaluate")
train small run-host "${small[@]}"
train small run-cortex-m7 "${small[@]}"
python3 compare_losses.py "$out/small/host.txt" "$out/small/cortex-m7.txt"
read -r _ data bss _ < <(arm-none-eabi-size "$out/small/cortex-m7" | tail -1)
stack=$(awk '/_STACK_BYTES/ {print $3}' "$out/small/step.h")
echo "cnn-small: data $data, .bss $bss and stack $stack bytes"
((data + bss + stack <= 512 * 1024))

# It learns handwritten digits there, and in a page of the browser: 85 % of those held out.
train small run-digits-cortex-m7 "${small[@]}"
train small run-page "${small[@]}"
read -r _ data bss _ < <(arm-none-eabi-size "$out/small/digits-cortex-m7" | tail -1)
((data + bss + stack <= 512 * 1024))
for name in digits-cortex-m7 page; do
  read -r _ _ right _ count _ < "$out/small/$name.txt"
  ((right * 100 >= count * 85))
done
