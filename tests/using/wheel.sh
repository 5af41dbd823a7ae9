#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh environment without a compiler in sight, and
# uses it there, away from this repository.
#
#   tests/using/wheel.sh [OPTION OF tools/build_wheel.sh]... [BAZEL'S OPTION]...
#
# For .ci/run, and not a test of Bazel's: it calls Bazel, whose objects it uses.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap '/usr/bin/rm -rf "$work"' EXIT

fail() {
  echo "[wheel] $*" >&2
  exit 1
}

wheel=$(tools/build_wheel.sh --out "$work/dist" "$@" | tail -n 1)
bytes=$(stat -c %s "$wheel")
echo "[wheel] $(basename "$wheel"): $bytes bytes"

python=${STOWAGE_PYTHON:-/usr/bin/python3}
"$python" -m venv --system-site-packages "$work/venv"  # for the system's NumPy
"$work/venv/bin/python" -m pip install --quiet --no-index "$wheel"

cd "$work"
cat >use.py <<'END'
import numpy as np
import stowage

assert "site-packages" in stowage.__file__, stowage.__file__
whole = stowage.plan("gpt-nano", batch=8, device="cpu")
budget = whole.arena_bytes * 6 // 10
with stowage.Trainer("gpt-nano", batch=8, seq=64, budget=budget, device="cpu") as trainer:
    tokens = np.arange(512, dtype=np.int32).reshape(8, 64) % 60
    losses = [trainer.step(tokens, tokens) for _ in range(3)]
    assert trainer.arena_bytes <= budget
assert losses[-1] < losses[0], losses
END
export PATH=/nowhere HOME=$work
venv/bin/python use.py
venv/bin/python -m stowage models >models
[[ $(<models) == *gpt-nano* ]] || fail "python -m stowage models says $(<models)"
echo "[wheel] installed and used"
