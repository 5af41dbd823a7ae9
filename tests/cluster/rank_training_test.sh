#!/usr/bin/env bash
# Ranks under mpirun train as one rank in as many micro-batches does: the same losses, params and
# states, bit for bit, whatever they split. Where there is no mpirun, it says so.
#
#   rank_training_test.sh RANK_TRAINING
set -euo pipefail
training=$1
# MPI names the memory that its ranks share by their processes' numbers, which are the
# same in other sandboxes.
export OMPI_MCA_btl_vader_backing_directory=$TEST_TMPDIR
# The options below are OpenMPI's.
if [[ $(mpirun --version 2> /dev/null || true) != *"Open MPI"* ]]; then
  echo "skipped: there is no mpirun of OpenMPI's; apt install openmpi-bin"
  exit 0
fi
export TMPDIR=${TEST_TMPDIR:-/tmp} HOME=${HOME:-/tmp}
# What MPI allocates and does not free is no leak of ours.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0

# same RANKS MODEL BATCH STEPS SHARDING[:TIGHT]...
same() {
  local ranks=$1 model=$2 batch=$3 steps=$4 micro_batches joined
  shift 4
  micro_batches=$("$training" "$model" "$batch" "$steps" "$ranks")
  [[ $(wc -l <<< "$micro_batches") == $((steps + 1)) ]]
  for sharding in "$@"; do
    # shellcheck disable=SC2086
    joined=$(mpirun --allow-run-as-root --oversubscribe -n "$ranks" \
      "$training" "$model" "$batch" "$steps" ${sharding/:/ })
    if [[ $joined != "$micro_batches" ]]; then
      echo "$model, $ranks ranks, $sharding:"$'\n'"$joined"$'\n'"in micro-batches:"$'\n'"$micro_batches"
      exit 1
    fi
    echo "$model: $ranks ranks, batch $batch, $sharding: as in micro-batches, bit for bit"
  done
}

all=(none states gradients weights)
tight=(none:1.05 states:1.05 gradients:1.05 weights:1.05)
if [[ -n ${STOWAGE_ALL_INSTANCES-} ]]; then
  for ranks in 2 4; do
    same $ranks gpt-nano $((2 * ranks)) 2 "${all[@]}" "${tight[@]}"
    same $ranks cnn-small 8 3 "${all[@]}" "${tight[@]}"
  done
  exit
fi

same 2 mlp 10 4 none states gradients weights
same 3 mlp 10 4 none weights # 4, 3 and 3 examples
same 4 cnn-small 8 3 "${all[@]}" states:1.05
same 2 gpt-nano 2 2 "${all[@]}" weights:1.05
