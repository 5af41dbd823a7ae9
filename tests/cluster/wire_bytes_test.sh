#!/usr/bin/env bash
# What goes through the cable between two hosts in a step is what the plan says, within a
# percent, and losses are those of one rank in two micro-batches. Where there are no two hosts to
# be had (root, ip, mpirun), it says so.
#
#   wire_bytes_test.sh TWO_HOSTS STOWAGE TEXT [SHARDING]...
#
# The interface counts packets with their headers: 14 bytes of Ethernet, 20 of IPv4, and 32
# of TCP with its time stamps, of each packet, however large. Less these are left: the
# values, and MPI's own headers, some tens of bytes for a message or a part of one, and a
# beat a second of the lifeline. Two runs of different lengths tell what a step sends, for
# what a run sends beside its steps is the same in both.
set -euo pipefail
two_hosts=$PWD/$1 stowage=$PWD/$2 text=$PWD/$3
shift 3
readonly headers=$((14 + 20 + 32)) short=3 long=13
export TMPDIR=${TEST_TMPDIR:-$(mktemp -d)} HOME=${HOME:-/tmp}
export XDG_CACHE_HOME=$TMPDIR
# What MPI allocates and does not free is no leak of ours.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
cd "$TMPDIR"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

number() {  # FIELD: of the last line of JSON that has it
  grep -o "\"$1\":[0-9]*" | tail -n 1 | cut -d: -f2
}

losses() {
  sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$1"
}

model=(--model gpt-nano --batch 2 --seq 32)
for sharding in "${@:-none}"; do
  train=("$stowage" train "${model[@]}" --data "$text" --device cpu --sample 0 --threads 1
    --steps 100 --shard "$sharding" --json)
  sent=()
  for steps in $short $long; do
    code=0
    LINK_COUNTS=$PWD/counts.$steps timeout 120 "$two_hosts" \
      "${train[@]}" --stop-at "$steps" > "run.$steps" 2> err || code=$?
    if [[ $code == 77 ]] || grep -q "Operation not permitted" err; then
      echo "skipped: $(tail -n 1 err)"
      exit 0
    fi
    [[ $code == 0 ]] || fail "$sharding: exit code $code: $(cat err)"
    # Way by way.
    sent+=("$(awk -v h=$headers '{ printf "%d ", $1 - h * $2 }' "counts.$steps")")
  done
  "$stowage" train "${model[@]}" --data "$text" --device cpu --sample 0 --threads 1 \
    --steps 100 --stop-at $long --micro-batches 2 --json > micro_batches 2> err ||
    fail "in micro-batches: $(cat err)"
  cmp <(losses "run.$long") <(losses micro_batches) ||
    fail "$sharding: losses of two hosts are not those of two micro-batches"
  planned=$("$stowage" plan "${model[@]}" --device cpu --ranks 2 --shard "$sharding" \
    --json | number wire_bytes_per_step)
  counted=$(number bytes_sent_per_step < "run.$long")
  read -r -a few <<< "${sent[0]}"
  read -r -a many <<< "${sent[1]}"
  for way in 0 1; do
    measured=$(((many[way] - few[way]) / (long - short)))
    echo "$sharding: planned $planned bytes a step, counted $counted," \
      "on the cable $measured ($([[ $way == 0 ]] && echo sent || echo received))"
    ((100 * measured >= 99 * planned && 100 * measured <= 101 * planned)) ||
      fail "$sharding: $measured bytes a step on the cable, $planned planned"
  done
done
