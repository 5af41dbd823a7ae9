#!/usr/bin/env bash
# Runs the package's tests under a sanitizer, as far as an interpreter allows that was not
# built with it.
#
#   tests/python/sanitized.sh address|thread [TEST]...      default: lifetimes_test
#
# address: the objects of python/ are instrumented, and linked with the library's own
# objects as they are released; the sanitizer's malloc serves the whole process. So every
# access of the binding's is judged, and of the library, NumPy and Python what malloc sees:
# what is freed twice, or used after it in memcpy and its like. Leaks are not: an
# interpreter ends with its memory.
# thread: the library and the binding are instrumented (--config=tsan); of Python and NumPy
# it sees the locks.
set -euo pipefail
cd "$(dirname "$0")/../.."

export STOWAGE_ALL_INSTANCES=1 STOWAGE_SANITIZED=1
case ${1-} in
  address)
    options=(--config=werror
      "--repo_env=STOWAGE_CUDA_ARCHITECTURES=${STOWAGE_CUDA_ARCHITECTURES-80}"
      '--per_file_copt=^python/.*\.cc$@-fsanitize=address' --linkopt=-fsanitize=address)
    runtime=$(g++ -print-file-name=libasan.so)
    export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1
    ;;
  thread)
    options=(--config=tsan --config=werror --config=nocuda)
    # g++'s, of the same interface: clang 14's cannot be loaded before a program.
    runtime=$(g++ -print-file-name=libtsan.so)
    # halt_on_error: a report is a failure, also of a child that is not waited for.
    export TSAN_OPTIONS=halt_on_error=1:die_after_fork=0
    ;;
  *)
    echo "usage: tests/python/sanitized.sh address|thread [TEST]..." >&2
    exit 2
    ;;
esac
shift
bazel build "${options[@]}" //python:stowage/_core.so //python:ops
bin=$(bazel info "${options[@]}" bazel-bin 2>/dev/null)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/stowage"
cp -r python/stowage/* "$bin/python/stowage/"{_core.so,ops.py} "$work/stowage/"
export PYTHONPATH="$work:$PWD/tests/python" PYTHONDONTWRITEBYTECODE=1
# The C++ library is asked for exceptions before the module brings it.
export LD_PRELOAD="$runtime $(g++ -print-file-name=libstdc++.so)"
for test in "${@:-lifetimes_test}"; do
  "${STOWAGE_PYTHON:-/usr/bin/python3}" "tests/python/$test.py"
done
