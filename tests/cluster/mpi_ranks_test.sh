#!/usr/bin/env bash
# Runs ranks of mpi_ranks under mpirun. Where there is none, or no MPI, it says so.
set -euo pipefail
ranks=$1
# MPI names the memory that its ranks share by their processes' numbers, which are the
# same in other sandboxes.
export OMPI_MCA_btl_vader_backing_directory=$TEST_TMPDIR
# The options below are OpenMPI's.
if [[ $(mpirun --version 2> /dev/null || true) != *"Open MPI"* ]]; then
  echo "skipped: there is no mpirun of OpenMPI's; apt install openmpi-bin"
  exit 0
fi
# Its files belong in the test's own folder; a test may run as root, on few cores.
export TMPDIR=${TEST_TMPDIR:-/tmp} HOME=${HOME:-/tmp}
# What MPI allocates and does not free is no leak of ours.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
for count in 1 2 3 4; do
  said=$(mpirun --allow-run-as-root --oversubscribe -n "$count" "$ranks")
  if [[ $said != "$count ranks agree" ]]; then
    echo "with $count ranks: $said"
    exit 1
  fi
done

# A rank that goes on when all is done, and dies before MPI has ended: another is not left
# waiting.
# --enable-recovery: mpirun does not end it.
timeout 60 mpirun --allow-run-as-root --oversubscribe --enable-recovery -n 2 \
  bash -c '"$0" late; echo $? > "$1.$OMPI_COMM_WORLD_RANK"' "$ranks" "$TMPDIR/late" || true
if [[ $(cat "$TMPDIR/late.1") != 137 || $(cat "$TMPDIR/late.0") != 5 ]]; then
  echo "late: rank 0 ended by $(cat "$TMPDIR/late.0"), rank 1 by $(cat "$TMPDIR/late.1")"
  exit 1
fi
