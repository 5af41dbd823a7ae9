#!/usr/bin/env bash
# Builds the wheel for each CPython that is found from 3.9 on, python3.9, python3.10, ... in
# the path or of pyenv's, or for those that are named; installs it into an environment of its
# own, beside the newest NumPy and pybind11 that PyPI has for that version, and runs the
# package's tests there.
#
#   tests/using/pythons.sh [PYTHON]... [BAZEL'S OPTION]...
#
# For .ci/nightly: every version compiles python/ once more. The last lines sum up; it ends
# with 1 where a test has failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pythons=()
while [[ ${1-} && ${1-} != -* ]]; do
  pythons+=("$1")
  shift
done
if [[ ${#pythons[@]} == 0 ]]; then
  for minor in {9..19}; do
    for python in "$(command -v "python3.$minor" || true)" ~/.pyenv/versions/3."$minor".*/bin/python3; do
      [[ -x $python ]] && "$python" -c '' 2>/dev/null && pythons+=("$python") && break
    done
  done
fi

if [[ ${#pythons[@]} == 0 ]]; then
  echo "[pythons] there is no CPython from 3.9 on in the path, or of pyenv's" >&2
  exit 1
fi

status=0
summary=()
for python in "${pythons[@]}"; do
  version=$("$python" -c 'import platform; print(platform.python_version())')
  echo "== CPython $version" >&2
  venv=$work/$version
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet numpy pybind11 mypy typing_extensions
  wheel=$(tools/build_wheel.sh --native --out "$work/dist" --python "$venv/bin/python" "$@" |
    tail -n 1)
  "$venv/bin/python" -m pip install --quiet --no-index --no-deps "$wheel"
  failed=()
  # wheels_test is of what Bazel built, and no package.
  for test in tests/python/*_test.py; do
    [[ $test == */wheels_test.py ]] && continue
    PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" "$test" >"$work/log" 2>&1 && continue
    [[ $? != 5 ]] || continue  # from 3.12 on: all of it was skipped
    failed+=("$(basename "$test" .py)")
    cat "$work/log" >&2
    status=1
  done
  with=$("$venv/bin/python" -c 'import numpy, pybind11
print("NumPy", numpy.__version__, "pybind11", pybind11.__version__)')
  summary+=("CPython $version, $with: $(stat -c %s "$wheel") bytes; failed: ${failed[*]:-none}")
done
printf '%s\n' "${summary[@]}"
exit "$status"
