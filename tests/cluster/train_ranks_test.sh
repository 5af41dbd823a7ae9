#!/usr/bin/env bash
# Trains under mpirun: losses that have the bits of one rank with as many pieces, weights
# that go from so many ranks to others, and what becomes of a run whose ranks differ or
# die. Where there is no mpirun, it says so.
#
#   train_ranks_test.sh STOWAGE DIGITS TEXT [losses|files|refusals|faults]...
set -euo pipefail
stowage=$PWD/$1 digits=$PWD/$2 text=$PWD/$3
shift 3
# MPI names the memory that its ranks share by their processes' numbers, which are the
# same in other sandboxes.
export OMPI_MCA_btl_vader_backing_directory=$TEST_TMPDIR
# The options below are OpenMPI's.
if [[ $(mpirun --version 2> /dev/null || true) != *"Open MPI"* ]]; then
  echo "skipped: there is no mpirun of OpenMPI's; apt install openmpi-bin"
  exit 0
fi
export TMPDIR=${TEST_TMPDIR:-$(mktemp -d)} HOME=${HOME:-/tmp}
export XDG_CACHE_HOME=$TMPDIR
# What MPI allocates and does not free is no leak of ours.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
cd "$TMPDIR"
mpi=(mpirun --allow-run-as-root --oversubscribe)

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# losses FILE: of its steps, one a line.
losses() {
  sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$1"
}

# same_losses RANKS NAME OPTION...: of so many ranks, and of one with as many pieces.
same_losses() {
  local ranks=$1 name=$2
  shift 2
  "${mpi[@]}" -n "$ranks" "$stowage" train "$@" --json > "$name.ranks" 2> "$name.err" ||
    fail "$name on $ranks ranks: $(cat "$name.err")"
  "$stowage" train "$@" --micro-batches "$ranks" --json > "$name.pieces" 2> "$name.err" ||
    fail "$name in $ranks pieces: $(cat "$name.err")"
  losses "$name.ranks" > "$name.ranks.losses"
  losses "$name.pieces" > "$name.pieces.losses"
  [[ -s $name.ranks.losses ]] || fail "$name: no losses"
  cmp "$name.ranks.losses" "$name.pieces.losses" ||
    fail "$name: losses of $ranks ranks are not those of $ranks pieces"
}

mlp=(--model mlp --data "$digits" --batch 22 --steps 6 --device cpu)

check_losses() {
  for ranks in 2 3 4; do # 22 examples come out even among two alone
    same_losses "$ranks" "mlp$ranks" "${mlp[@]}"
  done
  same_losses 2 gpt --model gpt-nano --data "$text" --batch 2 --seq 32 --steps 3 \
    --device cpu --sample 0
}

check_files() {
  # What two ranks have saved, four and one go on from, as one rank in pieces does.
  "${mpi[@]}" -n 2 "$stowage" train "${mlp[@]}" --stop-at 3 --save two.safetensors \
    > /dev/null 2> err || fail "saving: $(cat err)"
  "$stowage" train "${mlp[@]}" --stop-at 3 --save pieces.safetensors --micro-batches 2 \
    > /dev/null 2> err || fail "saving in pieces: $(cat err)"
  cmp two.safetensors pieces.safetensors || fail "two ranks save other bytes than two pieces"
  same_losses 4 resumed4 "${mlp[@]}" --resume two.safetensors
  same_losses 1 resumed1 "${mlp[@]}" --resume two.safetensors
}

check_refusals() {
  sed 1d "$digits" > other.csv
  local code=0
  "${mpi[@]}" -n 1 "$stowage" train "${mlp[@]}" : \
    -n 1 "$stowage" train "${mlp[@]}" --data other.csv > out 2> err || code=$?
  [[ $code == 2 ]] || fail "other data: exit code $code: $(cat err)"
  grep -q 'the ranks differ: the data of rank 1 is other.csv' err ||
    fail "other data: $(cat err)"
  code=0
  "${mpi[@]}" -n 1 "$stowage" train "${mlp[@]}" : \
    -n 1 "$stowage" train "${mlp[@]}" --seed 2 > out 2> err || code=$?
  [[ $code == 2 ]] || fail "another seed: exit code $code: $(cat err)"
  grep -q 'the ranks differ: the options of rank 1 ' err || fail "another seed: $(cat err)"
  code=0
  "${mpi[@]}" -n 1 "$stowage" train "${mlp[@]}" : \
    -n 1 "$stowage" train "${mlp[@]}" --data nowhere.csv > out 2> err || code=$?
  [[ $code == 2 ]] || fail "no data: exit code $code: $(cat err)"
  grep -q 'stowage: rank 1: .*nowhere.csv' err || fail "no data: $(cat err)"
}

# Kills a rank in the middle of a run: the others name it, and end by code 3; what was
# saved is whole, and goes on to where a run ends that nobody killed.
check_faults() {
  local run=("${mlp[@]}" --steps 4000 --stop-at 4000 --save-every 20 --sample 0)
  # A rank that tells its process and, at its end, its exit code; it outlives the signal
  # by which mpirun ends what is left.
  cat > rank.sh << 'RANK'
trap '' TERM
"$@" &
echo $! > "pid.$OMPI_COMM_WORLD_RANK"
wait $! && code=0 || code=$?
echo $code > "code.$OMPI_COMM_WORLD_RANK"
RANK
  "${mpi[@]}" -n 3 "$stowage" train "${run[@]}" --save whole.safetensors > out 2> err ||
    fail "nobody was killed: $(cat err)"
  for victim in 1 0; do
    rm -f pid.* code.*
    "${mpi[@]}" -n 3 bash rank.sh "$stowage" train "${run[@]}" \
      --continue "run$victim.safetensors" > out 2> err &
    local mpirun=$!
    until [[ -e run$victim.safetensors ]]; do
      kill -0 $mpirun || fail "it ended before: $(cat err)"
      sleep 0.05
    done
    kill -9 "$(cat "pid.$victim")" || fail "it was done before"
    wait $mpirun && fail "mpirun says all went well"
    for rank in 0 1 2; do
      [[ $rank == "$victim" ]] && continue
      [[ $(cat "code.$rank") == 3 ]] ||
        fail "rank $rank ended by $(cat "code.$rank"): $(cat err)"
    done
    grep -q "rank $victim of 3, on .*, is lost" err || fail "nobody is named: $(cat err)"
    "${mpi[@]}" -n 3 "$stowage" train "${run[@]}" --continue "run$victim.safetensors" \
      > out 2> err || fail "it does not go on: $(cat err)"
    cmp "run$victim.safetensors" whole.safetensors ||
      fail "what was killed and went on is not what nobody killed"
  done
}

for part in "$@"; do "check_$part"; done
