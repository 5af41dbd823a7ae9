#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh environment without a compiler in sight and
# without the system's copies of the libraries that it brings, and uses it there, away from
# this repository. Then has pip build and install it from this source tree, and uses that.
#
#   tests/using/wheel.sh [OPTION OF tools/build_wheel.sh]... [BAZEL'S OPTION]...
#
# For .ci/run, and not a test of Bazel's: it calls Bazel, whose objects it uses.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
trap '/usr/bin/rm -rf "$work"' EXIT

fail() {
  echo "[wheel] $*" >&2
  exit 1
}

# hidden FILE... -- COMMAND...: runs the command where the files have no content. Where this
# system allows no such thing, it says so, and the files are there.
hidden() {
  local files=()
  while [[ $1 != -- ]]; do
    files+=("$1")
    shift
  done
  shift
  local alone=(/usr/bin/unshare --mount)
  [[ $(/usr/bin/id -u) == 0 ]] || alone+=(--map-root-user)
  if ! "${alone[@]}" /usr/bin/true 2>"$work/unshare"; then
    echo "[wheel] the system's libraries are not hidden: $(<"$work/unshare")"
    "$@"
    return
  fi
  # By Python, as the program `mount` may need what it hides.
  "${alone[@]}" "$python" -c '
import ctypes, os, sys
MS_BIND = 4096
libc = ctypes.CDLL(None, use_errno=True)
end = sys.argv.index("--")
for file in sys.argv[1:end]:
    if libc.mount(b"/dev/null", os.fsencode(file), None, MS_BIND, None):
        sys.exit(f"[wheel] {file} is not hidden: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[end + 1], sys.argv[end + 1:])' "${files[@]}" -- "$@"
}

# use VENV [FILE...]: uses the package that is installed there, while the files are hidden.
use() {
  local venv=$1
  shift
  rm -rf "$work/use"
  mkdir "$work/use"
  (
    cd "$work/use"
    cp "$root/tests/using/use_wheel.py" .
    export PATH=/nowhere HOME=$work/use
    hidden "$@" -- "$venv/bin/python" use_wheel.py "$root/tests/goldens/torch/resnet18.onnx.xz"
  )
}

python=${STOWAGE_PYTHON:-/usr/bin/python3}
wheel=$(tools/build_wheel.sh --out "$work/dist" "$@" | tail -n 1)
bytes=$(stat -c %s "$wheel")
echo "[wheel] $(basename "$wheel"): $bytes bytes"
[[ " $* " == *" --native "* ]] || ((bytes <= 20000000)) ||
  fail "the wheel has $bytes bytes; expected at most 20,000,000"

"$python" -m venv --system-site-packages "$work/venv"  # for this Python's NumPy
"$work/venv/bin/python" -m pip install --quiet --no-index "$wheel"
package=$(cd "$work" && venv/bin/python -c 'import stowage; print(stowage.__path__[0])')
# What Python itself needs stays. Its modules of other architectures may lie beside its own.
modules=$("$python" -c 'import sysconfig
print(sysconfig.get_path("platstdlib"), "lib-dynload/*" + sysconfig.get_config_var("EXT_SUFFIX"),
      sep="/")')
kept=$(ldd "$python" $modules)
files=()
for library in "$package"/libs/*; do
  name=$(basename "$library")
  file=$(ldconfig -p | sed -n "s|.*$name (libc6,x86-64) => ||p" | head -n 1)
  [[ $file && $kept != *"$name"* ]] && files+=("$(realpath "$file")")
done
use "$work/venv" "${files[@]}"
echo "[wheel] installed and used, without ${files[*]##*/}"

"$python" -m venv --system-site-packages "$work/built"
STOWAGE_WHEEL_OPTIONS="$*" "$work/built/bin/python" -m pip install --quiet --no-index \
  --no-build-isolation --no-deps "$root"
use "$work/built"
echo "[wheel] built by pip, installed and used"
