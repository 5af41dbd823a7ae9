#!/usr/bin/env bash
# Runs the tests of from_torch where torch is: in an environment of its own, with the newest
# torch and transformers that PyPI has, or in one that is named.
#
#   tests/using/torch.sh [BAZEL'S OPTION]...
#   STOWAGE_TORCH_PYTHON=PYTHON tests/using/torch.sh
#
# For .ci/nightly: torch is some gigabytes. The last line says how many tests passed and failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python=${STOWAGE_TORCH_PYTHON-}
if [[ -z $python ]]; then
  /usr/bin/python3 -m venv "$work/venv"
  python=$work/venv/bin/python
  "$python" -m pip install --quiet torch numpy transformers
fi
bazel build "$@" //python:stowage/_core.so //python:ops >&2
mkdir "$work/package"
cp -r python/stowage "$work/package/"
bin=$(bazel info "$@" bazel-bin 2>/dev/null)
cp "$bin/python/stowage/_core.so" "$bin/python/stowage/ops.py" "$work/package/stowage/"

passed=0 failed=0
for test in tests/python/torch*_test.py; do
  if PYTHONPATH=$work/package:tests/python PYTHONDONTWRITEBYTECODE=1 \
    "$python" -W ignore "$test" -v >"$work/log" 2>&1; then :; fi
  grep -E '^(ERROR|FAIL):' -A 40 "$work/log" || true
  ran=$(sed -n 's/^Ran \([0-9]*\) tests\{0,1\} .*/\1/p' "$work/log")
  wrong=$(grep -cE '\.\.\. (FAIL|ERROR|skipped)' "$work/log" || true)
  [[ -n $ran && $ran != 0 ]] || ran=1 wrong=1
  grep -q '^OK' "$work/log" || [[ $wrong != 0 ]] || wrong=1
  passed=$((passed + ran - wrong)) failed=$((failed + wrong))
done
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
