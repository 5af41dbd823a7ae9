#!/usr/bin/env bash
# Trains steps in C on the host, on emulated Cortex-M and RISC-V processors and as WebAssembly,
# and compares their losses: .ci/nightly embedded. Needs what examples/embedded/Makefile names.
#
#   tests/compile/embedded.sh STOWAGE WRITE_MOBILENET WRITE_ADAPTERS PACKAGES
#
# PACKAGES is a folder that has the Python package stowage.
set -euo pipefail
stowage=$(realpath "$1") write_mobilenet=$(realpath "$2") write_adapters=$(realpath "$3")
packages=$(realpath "$4")
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

# Recurrent nets, language models and nets of PyTorch, on random inputs.
goldens=../../tests/goldens
train_step() {  # NAME INPUT=LIMIT...: of the step that is written
  local name=$1
  shift
  python3 ../../tests/compile/fill_inputs.py "$out/$name/step.h" "$@" > "$out/$name/inputs.h"
  train "$name" compare MAIN=../../tests/compile/random_inputs.c
}
compile_step() {  # NAME OPTION...: for boards with 4 MiB of SSRAM and 16 MiB of PSRAM
  local name=$1
  shift
  mkdir "$out/$name"
  "$stowage" compile "$@" --region sram=3.5MB --region psram=16MB --no-plan-cache \
    -o "$out/$name/step.c"
}
compile_step lstm --model lstm-char --batch 1 --seq 8
train_step lstm tokens=64 targets=64
compile_step gpt --model gpt-nano --batch 1 --seq 8
train_step gpt tokens=96 targets=96
compile_net() {  # NAME OPTION...
  local name=$1
  shift
  compile_step "$name" --onnx "$goldens/onnx/${name}_script.onnx" --loss cross_entropy \
    --optimizer momentum "$@"
}
compile_net images --dim batch=2
train_step images labels=5
compile_net recurrent
train_step recurrent labels=5
compile_net bert
train_step bert x=16 labels=5
mkdir "$out/adapters"
"$write_adapters" "$goldens/pretrained/llama.gguf" "$out/adapters/step.c"
train_step adapters tokens=32 targets=32

# In vectors of 16 bytes, on processors without them, too; on the Cortex-M55 as Helium instructions.
train vectors compare MORE="--simd 16"
helium=$(arm-none-eabi-objdump -d "$out/vectors/cortex-m55" | grep -c 'vmul.f32.*q')
echo "mlp: $helium multiplications of vectors on a Cortex-M55"
((helium > 0))
compile_step vectors-images --onnx "$goldens/onnx/images_script.onnx" --loss cross_entropy \
  --optimizer momentum --dim batch=2 --simd 16
train_step vectors-images labels=5

# Buffers in the SSRAM and the PSRAM of both boards give the same losses.
regions=(MODEL=cnn-small PIXELS=784 BATCH=4 BUDGET=8MB
  "MORE=--region sram=200KB --region psram=8MB")
train regions run-host "${regions[@]}"
train regions run-cortex-m4 "${regions[@]}"
train regions run-cortex-m7 "${regions[@]}"
python3 compare_losses.py "$out"/regions/{host,cortex-m4,cortex-m7}.txt
bytes_of() { awk -v name="$1" '$2 == name {print $3}' "$out/regions/step.h"; }
sram=$(bytes_of STEP_REGION_SRAM_BYTES) psram=$(bytes_of STEP_REGION_PSRAM_BYTES)
echo "cnn-small: $sram bytes of SSRAM and $psram of PSRAM"
((sram > 0 && sram <= 200000))
for board in cortex-m4 cortex-m7; do
  placed=$(arm-none-eabi-size -A "$out/regions/$board" | awk '$1 == ".psram" {print $2}')
  ((placed == psram))
done

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

# The last layer of a classifier learns a motion there.
PYTHONPATH=$packages train motions run-motions-host PYTHON=/usr/bin/python3
PYTHONPATH=$packages train motions run-motions-cortex-m7 PYTHON=/usr/bin/python3
cmp "$out/motions/motions-host.txt" "$out/motions/motions-cortex-m7.txt"
awk '/before/ {before = $2} /after/ {after = $2; count = $4}
  END {exit !(before <= 0.75 * count && after >= 0.9 * count)}' "$out/motions/motions-cortex-m7.txt"

# The last block of a MobileNetV2 trains in 1 MB of RAM, with the layers before it in flash.
"$write_mobilenet" "$out/mobilenet.onnx"
frozen=$(printf -- "--freeze 'features.%s.*' " {0..16} 18)
mobilenet=(MAIN=../../tests/compile/last_block.c PIXELS=27648 OPTIMIZER=sgd BUDGET=1MB
  "SUBJECT=--onnx $out/mobilenet.onnx --loss cross_entropy $frozen")
train mobilenet run-host "${mobilenet[@]}"
train mobilenet run-cortex-m7 "${mobilenet[@]}"
python3 compare_losses.py "$out/mobilenet/host.txt" "$out/mobilenet/cortex-m7.txt"
awk 'NR == 1 {first = $2} {last = $2} END {exit !(last < 0.8 * first)}' \
  "$out/mobilenet/cortex-m7.txt"
read -r text data bss _ < <(arm-none-eabi-size "$out/mobilenet/cortex-m7" | tail -1)
echo "mobilenet: code and constants $text, data $data and .bss $bss bytes"
((data + bss <= 1000000))
