#!/usr/bin/env bash
# Trains under mpirun: losses that have the bits of one rank with as many micro-batches, weights
# that go from so many ranks to others, and what becomes of a run whose ranks differ or
# die. Where there is no mpirun, it says so.
#
#   train_ranks_test.sh STOWAGE DIGITS TEXT SUPERVISE PART...
#
# Parts are losses, preferences, shards, files, sharded, refusals, faults, signals, supervised; kills, late and stops take
# minutes. $KILLS says how many times `kills` does, $KILLS_SEED at which moments.
set -euo pipefail
stowage=$PWD/$1 digits=$PWD/$2 text=$PWD/$3 supervise=$PWD/$4
llama=$PWD/tests/goldens/pretrained/llama
shift 4
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

# same_losses RANKS NAME OPTION...: of so many ranks, and of one with as many micro-batches,
# of `train`, or of the command in $command.
same_losses() {
  local ranks=$1 name=$2 command=${command-train}
  shift 2
  "${mpi[@]}" -n "$ranks" "$stowage" "$command" "$@" --json > "$name.ranks" 2> "$name.err" ||
    fail "$name on $ranks ranks: $(cat "$name.err")"
  "$stowage" "$command" "$@" --micro-batches "$ranks" --json > "$name.micro_batches" 2> "$name.err" ||
    fail "$name in $ranks micro-batches: $(cat "$name.err")"
  losses "$name.ranks" > "$name.ranks.losses"
  losses "$name.micro_batches" > "$name.micro_batches.losses"
  [[ -s $name.ranks.losses ]] || fail "$name: no losses"
  cmp "$name.ranks.losses" "$name.micro_batches.losses" ||
    fail "$name: losses of $ranks ranks are not those of $ranks micro-batches"
}

mlp=(--model mlp --data "$digits" --batch 22 --steps 6 --device cpu)

check_losses() {
  for ranks in 2 3 4; do # 22 examples come out even among two alone
    same_losses "$ranks" "mlp$ranks" "${mlp[@]}"
  done
  same_losses 2 gpt --model gpt-nano --data "$text" --batch 2 --seq 32 --steps 3 \
    --device cpu --sample 0
}

# A model of 64 tokens, and pairs of answers.
check_preferences() {
  local token vocabulary= count=0 code
  for token in {a..z} {A..Z} $'\u0120' . th he; do
    vocabulary+="${vocabulary:+,}\"$token\":$((count++))"
  done
  cat > tokenizer.json << END
{"version":"1.0","added_tokens":[],"normalizer":null,"post_processor":null,
 "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":{"type":"ByteLevel"},
 "model":{"type":"BPE","vocab":{$vocabulary},"merges":["t h","h e"]}}
END
  for token in {a..l}; do
    echo "{\"prompt\":\"A$token \",\"chosen\":\"${token}es.\",\"rejected\":\"no $token\"}"
  done > pairs.jsonl
  local tuned=(--weights "$llama" --tokenizer tokenizer.json --data pairs.jsonl --seq 24 --batch 4
    --steps 4 --device cpu --sample 0 --full)
  for objective in dpo orpo; do
    command=finetune same_losses 2 "$objective" "${tuned[@]}" --objective "$objective"
  done
  for more in "" --dry-run; do
    code=0
    "${mpi[@]}" -n 2 "$stowage" finetune "${tuned[@]}" --objective dpo --shard weights $more \
      > out 2> err || code=$?
    [[ $code == 2 ]] || fail "dpo by --shard weights $more: exit code $code: $(cat err)"
    grep -q 'with --shard weights no rank has the weights' err || fail "--shard weights: $(cat err)"
  done
  sed 's/"chosen":\("[^"]*"\),"rejected":.*/"completion":\1,"label":true}/' pairs.jsonl > judged.jsonl
  code=0
  "${mpi[@]}" -n 2 "$stowage" finetune "${tuned[@]}" --data judged.jsonl --objective kto \
    > out 2> err || code=$?
  [[ $code == 2 ]] || fail "kto on two ranks: exit code $code: $(cat err)"
  grep -q 'a mean over its batch, which 2 ranks would divide' err || fail "kto: $(cat err)"
}

check_files() {
  # What two ranks have saved, four and one go on from, as one rank in micro-batches does.
  "${mpi[@]}" -n 2 "$stowage" train "${mlp[@]}" --stop-at 3 --save two.safetensors \
    > /dev/null 2> err || fail "saving: $(cat err)"
  "$stowage" train "${mlp[@]}" --stop-at 3 --save micro_batches.safetensors --micro-batches 2 \
    > /dev/null 2> err || fail "saving in micro-batches: $(cat err)"
  cmp two.safetensors micro_batches.safetensors || fail "two ranks save other bytes than two micro-batches"
  same_losses 4 resumed4 "${mlp[@]}" --resume two.safetensors
  same_losses 1 resumed1 "${mlp[@]}" --resume two.safetensors
}

# What ranks save together, as many others and one go on from, whatever they split; the end
# is that of a run whose checkpoints are whole. Shards that no checkpoint has are gone.
check_sharded() {
  local sharding ranks code=0
  "$stowage" train "${mlp[@]}" --micro-batches 2 --save micro_batches.st > /dev/null 2> err ||
    fail "in micro-batches: $(cat err)"
  for sharding in none states weights; do
    "${mpi[@]}" -n 2 "$stowage" train "${mlp[@]}" --shard $sharding --stop-at 3 --save-every 1 \
      --save-as sharded --save $sharding.st > /dev/null 2> err ||
      fail "saving, --shard $sharding: $(cat err)"
    (($(stat -c %s $sharding.st) < 8192)) || fail "--shard $sharding: it is no index"
    # Of two ranks: the last, and the best, which may be the same.
    (($(find $sharding.st.shards -name '*.safetensors' | wc -l) <= 4)) ||
      fail "--shard $sharding: shards are left over: $(ls $sharding.st.shards)"
    "${mpi[@]}" -n 2 "$stowage" train "${mlp[@]}" --shard states --resume $sharding.st \
      --save on.st > /dev/null 2> err || fail "going on from $sharding.st: $(cat err)"
    cmp on.st micro_batches.st || fail "what goes on from $sharding.st ends elsewhere"
    "$stowage" train "${mlp[@]}" --micro-batches 2 --resume $sharding.st --save on.st \
      > /dev/null 2> err || fail "going on from $sharding.st alone: $(cat err)"
    cmp on.st micro_batches.st || fail "alone, what goes on from $sharding.st ends elsewhere"
  done
  # One file for all of it, which becomes whole with the last command.
  "${mpi[@]}" -n 4 "$stowage" train "${mlp[@]}" --shard weights --stop-at 2 --save-as sharded \
    --continue run.st > /dev/null 2> err || fail "on four ranks: $(cat err)"
  "${mpi[@]}" -n 3 "$stowage" train "${mlp[@]}" --shard states --stop-at 4 --save-as sharded \
    --continue run.st > /dev/null 2> err || fail "on three: $(cat err)"
  "$stowage" train "${mlp[@]}" --micro-batches 2 --continue run.st > /dev/null 2> err ||
    fail "alone: $(cat err)"
  [[ ! -e run.st.shards ]] || fail "the shards of a whole checkpoint are left"
  "${mpi[@]}" -n 4 "$stowage" train "${mlp[@]}" --stop-at 2 --save four.st > /dev/null 2> err
  "${mpi[@]}" -n 3 "$stowage" train "${mlp[@]}" --stop-at 4 --resume four.st --save three.st \
    > /dev/null 2> err
  "$stowage" train "${mlp[@]}" --micro-batches 2 --resume three.st --save whole.st \
    > /dev/null 2> err || fail "whole ones: $(cat err)"
  cmp run.st whole.st || fail "shards on 4, 3 and 1 ranks end elsewhere than whole files"
  # A shard that is gone is named, and by whom it is missed.
  rm states.st.shards/3.1-of-2.*
  "${mpi[@]}" -n 2 "$stowage" train "${mlp[@]}" --shard states --resume states.st > out 2> err ||
    code=$?
  [[ $code == 2 ]] || fail "a lost shard: exit code $code: $(cat err)"
  grep -q 'checkpoint\] ".*3\.1-of-2.*it is a shard of ' err || fail "a lost shard: $(cat err)"
  # Folders that only look alike: to save to, and to go on from.
  mkdir -p a b
  code=0
  "${mpi[@]}" -n 1 -wdir "$PWD/a" "$stowage" train "${mlp[@]}" --save-as sharded \
    --save run.st : -n 1 -wdir "$PWD/b" "$stowage" train "${mlp[@]}" --save-as sharded \
    --save run.st > out 2> err || code=$?
  [[ $code == 2 ]] || fail "two folders: exit code $code: $(cat err)"
  grep -q 'what rank 1 of 2 writes to .* is not to be seen from rank 0' err ||
    fail "two folders: $(cat err)"
  "${mpi[@]}" -n 2 "$stowage" train "${mlp[@]}" --save-as sharded --save both.st \
    --stop-at 3 > out 2> err || fail "saving: $(cat err)"
  cp -r both.st both.st.shards a
  "$stowage" train "${mlp[@]}" --seed 9 --save b/both.st --stop-at 2 > out 2> err
  code=0
  "${mpi[@]}" -n 1 -wdir "$PWD/a" "$stowage" train "${mlp[@]}" --resume both.st : \
    -n 1 -wdir "$PWD/b" "$stowage" train "${mlp[@]}" --resume both.st > out 2> err || code=$?
  [[ $code == 2 ]] || fail "two checkpoints: exit code $code: $(cat err)"
  grep -q "rank 1 finds a checkpoint of step 2 at .*, which is not rank 0's" err ||
    fail "two checkpoints: $(cat err)"
  code=0
  "$stowage" train "${mlp[@]}" --save-as sharded > out 2> err || code=$?
  [[ $code == 2 ]] || fail "shards to nowhere: exit code $code"
  grep -q -- '--save-as sharded needs a file' err || fail "shards to nowhere: $(cat err)"
}

# refused NAME CODE TEXT COMMAND...: the run ends by CODE and prints TEXT, if any. Its output
# is in NAME.out and NAME.err.
refused() {
  local name=$1 expected=$2 text=$3 code=0
  shift 3
  "$@" > "$name.out" 2> "$name.err" || code=$?
  [[ $code == "$expected" ]] || fail "$name: exit code $code: $(cat "$name.err")"
  [[ -z $text ]] || grep -q -- "$text" "$name.err" ||
    fail "$name: $(cat "$name.err")"
}

# Runs of two ranks, side by side, since mpirun takes seconds to end one that fails.
check_refusals() {
  local run runs=() first=("${mpi[@]}" -n 1 "$stowage" train "${mlp[@]}" : -n 1 "$stowage" train)
  sed 1d "$digits" > other.csv
  mkdir one other
  echo 'eval-every = 1' > one/run.toml
  echo 'eval-every = 2' > other/run.toml
  refused data 2 'the ranks differ: the data of rank 1 is other.csv' \
    "${first[@]}" "${mlp[@]}" --data other.csv &
  runs+=($!)
  # An option is the same however it is written; an error in it is printed once.
  refused spelling 0 '' \
    "${first[@]}" --model=mlp "--data=$digits" --batch=22 --steps=6 --device=cpu &
  runs+=($!)
  refused rates 2 '"fast" is no number' "${mpi[@]}" -n 2 "$stowage" train "${mlp[@]}" --lr fast &
  runs+=($!)
  refused rate 2 'rank 1: .*"fast" is no number' "${first[@]}" "${mlp[@]}" --lr fast &
  runs+=($!)
  refused seed 2 'the ranks differ: the options of rank 1 ' "${first[@]}" "${mlp[@]}" --seed 2 &
  runs+=($!)
  refused configuration 2 'the ranks differ: the options of rank 1 ' \
    "${mpi[@]}" -n 1 "$stowage" train "${mlp[@]}" --config one/run.toml : \
    -n 1 "$stowage" train "${mlp[@]}" --config other/run.toml &
  runs+=($!)
  refused missing 2 'stowage: rank 1: .*nowhere.csv' \
    "${first[@]}" "${mlp[@]}" --data nowhere.csv &
  runs+=($!)
  refused budget 1 'budget 100.0 KB is below the' \
    "${mpi[@]}" -n 2 "$stowage" train "${mlp[@]}" --budget 100KB --json &
  runs+=($!)
  for run in "${runs[@]}"; do wait "$run"; done
  [[ $(grep -c '"fast" is no number' rates.err) == 1 ]] || fail "rates: $(cat rates.err)"
  ! grep -q 'was lost' missing.err || fail "rank 0 reports a lost rank: $(cat missing.err)"
  grep -q '"fits": *false' budget.out || fail "budget: $(cat budget.out)"
}

# What each sharding trains with, whatever the budget leaves room for.
check_shards() {
  local sharding
  for sharding in none states gradients weights auto; do
    "${mpi[@]}" -n 2 "$stowage" train "${mlp[@]}" --shard "$sharding" --save "$sharding.st" \
      --json > "$sharding.out" 2> err || fail "--shard $sharding: $(cat err)"
    losses "$sharding.out" > "$sharding.losses"
  done
  "$stowage" train "${mlp[@]}" --micro-batches 2 --save micro_batches.st --json > micro_batches.out \
    2> err || fail "in micro-batches: $(cat err)"
  losses micro_batches.out > micro_batches.losses
  [[ $(wc -l < micro_batches.losses) == 6 ]] || fail "no losses"
  for sharding in none states gradients weights auto; do
    cmp "$sharding.losses" micro_batches.losses || fail "--shard $sharding: other losses"
    cmp "$sharding.st" micro_batches.st || fail "--shard $sharding saves something else"
  done
  # Blocks of two ranks are half as large. auto splits nothing where all fits, and where
  # nothing but split weights do, these.
  arena() { sed -n 's/.*"arena_bytes":\([0-9]*\),"budget_bytes":.*/\1/p' "$1" | tail -n 1; }
  local whole split
  whole=$(arena none.out) split=$(arena weights.out)
  ((split < whole)) || fail "weights: $split bytes, none: $whole"
  [[ $(arena auto.out) == "$whole" ]] || fail "auto without a budget splits"
  "${mpi[@]}" -n 2 "$stowage" train "${mlp[@]}" --shard auto --budget "$split" \
    --recompute none --offload none --json > tight.out 2> err ||
    fail "--shard auto within $split bytes: $(cat err)"
  [[ $(arena tight.out) == "$split" ]] || fail "auto does not split the weights"
  cmp <(losses tight.out) micro_batches.losses || fail "--shard auto: other losses"
  local code=0
  "$stowage" train "${mlp[@]}" --shard states > out 2> err || code=$?
  [[ $code == 2 ]] || fail "nothing to split among: exit code $code"
  grep -q 'ranks\] --shard states splits among ranks, and there is one' err ||
    fail "nothing to split among: $(cat err)"
  code=0
  "${mpi[@]}" -n 2 "$stowage" train "${mlp[@]}" --shard layers > out 2> err || code=$?
  [[ $code == 2 ]] || fail "no such sharding: exit code $code"
  grep -q '"layers"; expected none, states, gradients' err ||
    fail "no such sharding: $(cat err)"
}

# --- ranks that are lost -------------------------------------------------------------

# A run that ends where it is killed, or at the step that --stop-at names: the shell may be
# as late as it likes.
endless=("${mlp[@]}" --steps 100000000 --save-every 20 --sample 0)
# How far a run goes on after it was killed.
readonly further=60

# A rank that tells its process, what it says and, at its end, its exit code; it outlives
# the signal by which mpirun ends what is left. What is said then, mpirun may not read.
write_rank() {
  cat > rank.sh << 'RANK'
trap '' TERM
"$@" 2> "err.$OMPI_COMM_WORLD_RANK" &
echo $! > "pid.$OMPI_COMM_WORLD_RANK"
wait $! && code=0 || code=$?
echo $code > "code.$OMPI_COMM_WORLD_RANK"
RANK
}

# shown FILE: how many steps it shows.
shown() {
  grep -c '^{"step":' "$1" || true
}

# saved_step FILE: of which step the checkpoint is, 0 where there is none.
saved_step() {
  local step
  step=$({ head -c 65536 "$1" 2> /dev/null || true; } | grep -ao '"step":"[0-9]*"' | head -n 1 | tr -dc 0-9) ||
    true
  echo "${step:-0}"
}

# lose RANKS VICTIM SIGNAL STEP FILE: a run that goes on from FILE, of which a rank gets
# the signal after so many steps or a few more; the others name it, and end by code 3
# within 30 s.
lose() {
  local ranks=$1 victim=$2 signal=$3 step=$4 file=$5 mpirun rank began
  rm -f pid.* code.* err.*
  : > out # which the run before has filled, and this one has not opened yet
  # A second after it asks them to end, mpirun would kill those that have not, and what
  # was to write down their exit codes.
  "${mpi[@]}" --mca odls_base_sigkill_timeout 40 -n "$ranks" bash rank.sh "$stowage" train "${endless[@]}" --json \
    --continue "$file" > out 2> err &
  mpirun=$!
  until (($(shown out) >= step)); do
    kill -0 $mpirun 2> /dev/null || fail "it ended before step $step: $(cat err err.*)"
    sleep 0.01
  done
  kill "-$signal" "$(cat "pid.$victim")" || fail "it was done before"
  began=$SECONDS
  for ((rank = 0; rank < ranks; ++rank)); do
    [[ $rank == "$victim" ]] && continue
    until [[ -s code.$rank ]]; do
      ((SECONDS - began <= 30)) || fail "rank $rank goes on after 30 s"
      sleep 0.05
    done
    [[ $(cat "code.$rank") == 3 ]] ||
      fail "rank $rank ended by $(cat "code.$rank"): $(cat err err.*)"
  done
  grep -q "rank $victim of $ranks, on .*, is lost" err.* || fail "nobody is named: $(cat err err.*)"
  kill -KILL "$(cat "pid.$victim")" 2> /dev/null || true
  # It waits for its time to pass, though all ranks have ended.
  kill -KILL $mpirun
  wait $mpirun 2> /dev/null || true
}

# finish RANKS Micro-batches FILE STEP: goes on from FILE to STEP.
finish() {
  "${mpi[@]}" -n "$1" "$stowage" train "${endless[@]}" --micro-batches "$2" \
    --stop-at "$4" --continue "$3" > out 2> err || fail "it does not go on: $(cat err)"
}

# whole RANKS STEP: the run that nobody cuts off, to STEP, in whole.RANKS.
whole() {
  "${mpi[@]}" -n "$1" "$stowage" train "${endless[@]}" --stop-at "$2" --save "whole.$1" \
    > out 2> err || fail "nobody was killed: $(cat err)"
}

# Kills a rank in the middle of a run: what was saved is whole, and goes on to where a
# run ends that nobody killed.
check_faults() {
  local end
  write_rank
  lose 3 1 KILL 25 killed
  end=$(($(saved_step killed) + further))
  finish 3 1 killed $end
  whole 3 $end
  cmp killed whole.3 || fail "what was killed and went on is not what nobody killed"
  # So it is where each rank saves its shard, rank 0 the index too.
  endless+=(--shard states --save-as sharded)
  lose 3 0 KILL 25 sharded
  end=$(($(saved_step sharded) + further))
  finish 3 1 sharded $end
  whole 3 $end
  for each in sharded whole.3; do
    "$stowage" train "${mlp[@]}" --steps $end --micro-batches 3 --save-weights "$each.weights" \
      --continue "$each" > out 2> err || fail "the end: $(cat err)"
  done
  cmp sharded.weights whole.3.weights || fail "shards that were cut off go on elsewhere"
}

# The same $KILLS times at random moments, and what was saved goes on on four ranks, on
# one, in four micro-batches, and on two: there, where a run ends that changes to two after as
# many steps.
check_kills() {
  local kill victim step file saved count last=4000
  RANDOM=${KILLS_SEED:-1}
  write_rank
  whole 4 $last
  endless+=(--stop-at $last)
  for ((kill = 1; kill <= ${KILLS:-20}; ++kill)); do
    victim=$((RANDOM % 4)) step=$((RANDOM % (last - 1000) + 1)) file=kill$kill
    lose 4 $victim KILL $step "$file"
    saved=$(saved_step "$file")
    if ((saved > 0)); then
      for count in 1 2; do cp "$file" "$file.$count"; done
    fi
    finish 4 1 "$file" $last
    finish 1 4 "$file.1" $last
    for each in "$file" "$file.1"; do
      cmp "$each" whole.4 || fail "kill $kill: $each is not what nobody killed"
    done
    if ((saved > 0)); then
      "${mpi[@]}" -n 4 "$stowage" train "${endless[@]}" --stop-at "$saved" \
        --save "stopped$kill" > out 2> err || fail "stopping: $(cat err)"
      finish 2 1 "$file.2" $last
      finish 2 1 "stopped$kill" $last
      cmp "$file.2" "stopped$kill" || fail "kill $kill: two ranks go on elsewhere"
    fi
    echo "kill $kill: rank $victim after step $step, saved $saved: goes on on 4, 2 and 1"
    rm -f "$file" "$file".[12] "stopped$kill"
  done
}

# A rank that is stopped, and not dead.
check_stops() {
  write_rank
  lose 3 2 STOP 25 stopped
  grep -q "rank 2 of 3, on .*, is lost: nothing was heard of it for 20 s" err.* ||
    fail "it is not said how: $(cat err err.*)"
}

# One dies before the others can know it: they end all the same.
check_late() {
  cat > late.sh << 'RANK'
[[ $OMPI_COMM_WORLD_RANK == 1 ]] && exit 0
"$@" 2> "err.$OMPI_COMM_WORLD_RANK"
echo $? > "code.$OMPI_COMM_WORLD_RANK"
RANK
  "${mpi[@]}" --enable-recovery -n 2 bash late.sh "$stowage" train "${mlp[@]}" > out 2> err || true
  [[ $(cat code.0) == 3 ]] || fail "rank 0 ended by $(cat code.0): $(cat err err.0)"
  grep -q "not all of 2 ranks have joined" err.0 || fail "it is not said why: $(cat err.0)"
}
# mpirun, asked to stop, hands it on and reads no more of what its ranks print: they save
# all the same.
check_signals() {
  local signal mpirun
  for signal in TERM INT; do
    : > out # which the run before has filled, and this one has not opened yet
    set -m # without job control what runs in the background ignores SIGINT
    "${mpi[@]}" --mca odls_base_sigkill_timeout 5 -n 2 "$stowage" train "${mlp[@]}" --steps 100000000 --json \
      --save "asked.$signal" > out 2> err &
    mpirun=$!
    set +m
    until (($(shown out) >= 25)); do
      kill -0 $mpirun 2> /dev/null || fail "it ended before: $(cat err)"
      sleep 0.01
    done
    kill "-$signal" $mpirun
    wait $mpirun && fail "SIG$signal: mpirun says all went well"
    [[ -s asked.$signal ]] || fail "SIG$signal: nothing was saved: $(cat err)"
  done
}
# A supervisor starts a run again as often as it is killed. The start after the last kill
# goes some steps further, and ends.
check_supervised() {
  local starts supervisor before code=0
  : > out
  cat > rank.sh << 'RANK'
echo $$ > "pid.$OMPI_COMM_WORLD_RANK"
[[ ! -s end ]] || set -- "$@" --stop-at "$(cat end)"
exec "$@"
RANK
  # shellcheck disable=SC2016
  SUPERVISE_PAUSE=0 "$supervise" 5 bash -c '
    saved=$(grep -ao "\"step\":\"[0-9]*\"" run 2> /dev/null | head -n 1 | tr -dc 0-9)
    [[ ! -e last ]] || echo $((saved + '$further')) > end
    exec "$@"' start "${mpi[@]}" -n 2 bash rank.sh \
    "$stowage" train "${endless[@]}" --json --continue run > out 2> err &
  supervisor=$!
  for starts in 1 2; do
    before=$(shown out)
    until (($(shown out) >= before + 25)) && [[ -s pid.1 ]]; do
      kill -0 $supervisor 2> /dev/null || fail "it ended before: $(cat err)"
      sleep 0.01
    done
    [[ $starts == 1 ]] || : > last
    kill -KILL "$(cat pid.1)" || fail "it was done before"
    until grep -q "supervise: ended by .*; start $starts of 5" err; do
      kill -0 $supervisor 2> /dev/null || fail "it is not started again: $(cat err)"
      sleep 0.05
    done
  done
  wait $supervisor || code=$?
  [[ $code == 0 ]] || fail "supervised: exit code $code: $(cat err)"
  whole 2 "$(cat end)"
  cmp run whole.2 || fail "what was started again is not what nobody killed"
  # A signal to the supervisor stops the run, which saves and is not started again.
  : > out
  "$supervise" 5 "$stowage" train "${endless[@]}" --json --save stopped > out 2> err &
  supervisor=$!
  until (($(shown out) >= 25)); do
    kill -0 $supervisor 2> /dev/null || fail "it ended before: $(cat err)"
    sleep 0.01
  done
  kill -TERM $supervisor
  code=0
  wait $supervisor || code=$?
  [[ $code == 143 ]] || fail "stopped: exit code $code: $(cat err)"
  (($(saved_step stopped) >= 25)) || fail "stopped: nothing was saved: $(cat err)"
}

for part in "$@"; do "check_$part"; done
