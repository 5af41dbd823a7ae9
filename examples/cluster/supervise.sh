#!/usr/bin/env bash
# Starts a run again until it is done, as often as it may be:
#
#   supervise.sh 20 mpirun -n 4 stowage train ... --continue run.safetensors --save-every 100
#
# What ends by itself with an answer is not started again: 0 it is done, 1 it cannot be
# (the budget is too small, training diverged), 2 its options or data are wrong, 129, 130
# and 143 a signal asked it to stop. All else, a rank that was lost (3) or killed (137),
# may go well the next time. With --continue it then goes on from its last checkpoint.
#
# SIGINT, SIGTERM and SIGHUP stop the run, which saves, and no new start follows.
set -uo pipefail
most=$1
shift
run='' stopped=''
# What runs in the background ignores SIGINT.
trap 'stopped=1; [[ ! $run ]] || kill -TERM "$run" 2> /dev/null' INT TERM HUP
for ((again = 0; ; again++)); do
  "$@" <&0 &
  run=$!
  wait "$run"
  code=$?
  while kill -0 "$run" 2> /dev/null; do # a signal has ended the wait
    wait "$run"
    code=$?
  done
  run=''
  [[ ! $stopped ]] || exit $code
  case $code in
    0 | 1 | 2 | 129 | 130 | 143) exit $code ;;
  esac
  if ((again == most)); then
    echo "supervise: ended by $code, after $most new starts" >&2
    exit $code
  fi
  echo "supervise: ended by $code; start $((again + 1)) of $most" >&2
  sleep "${SUPERVISE_PAUSE:-1}"
  [[ ! $stopped ]] || exit $code
done
