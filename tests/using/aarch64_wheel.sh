#!/usr/bin/env bash
# Builds the wheel for 64-bit ARM, installs it by pip of an arm64 Debian's Python, which qemu
# runs with that Debian's files and not this machine's, and plans and trains there.
#
#   tests/using/aarch64_wheel.sh [BAZEL'S OPTION]...
#
# For .ci/nightly, and not a test of Bazel's: it calls Bazel, whose objects it uses. Debian's
# packages are downloaded by apt-get and unpacked in a folder; nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
repository=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wheel=$(realpath "$(tools/build_wheel.sh --aarch64 --out "$work/dist" "$@" | tail -n 1)")
[[ $wheel == *_aarch64.whl ]] || {
  echo "[wheel] the wheel is called $wheel; expected a name that ends in _aarch64.whl" >&2
  exit 1
}

root=$work/debian
mkdir "$work/packages" "$root"
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
(cd "$work/packages" &&
  apt-get -qq download "python$version-minimal:arm64" "libpython$version-minimal:arm64" \
    "libpython$version-stdlib:arm64" python3-numpy:arm64 libblas3:arm64 liblapack3:arm64 \
    libgfortran5:arm64 libc6:arm64 libstdc++6:arm64 libgcc-s1:arm64 libexpat1:arm64 \
    zlib1g:arm64 libffi8:arm64 libssl3:arm64 python3-pip python3-setuptools python3-distutils \
    python3-pkg-resources)
for package in "$work"/packages/*.deb; do dpkg -x "$package" "$root"; done

# python ARGUMENT...: that Debian's Python.
libraries=/usr/lib/aarch64-linux-gnu
python() {
  qemu-aarch64 -L "$root" -E "LD_LIBRARY_PATH=$libraries/blas:$libraries/lapack" \
    -E "PYTHONPATH=$work/site" "$root/usr/bin/python$version" "$@"
}

python -m pip install --quiet --root-user-action=ignore --no-index --no-deps --target "$work/site" "$wheel"
cd "$work"
python - "$repository/tests/goldens/torch/resnet18.onnx.xz" <<'PYTHON'
import lzma
import platform
import sys

import numpy as np
import stowage

assert "/site/" in stowage.__file__, stowage.__file__
assert platform.machine() == "aarch64" and stowage.cpu_target() == "armv8"
whole = stowage.plan("gpt-nano", batch=8, device="cpu")
budget = whole.arena_bytes * 6 // 10
with stowage.Trainer("gpt-nano", batch=8, seq=64, budget=budget, device="cpu") as trainer:
    tokens = np.arange(512, dtype=np.int32).reshape(8, 64) % 60
    losses = [trainer.step(tokens, tokens) for _ in range(3)]
    assert trainer.arena_bytes <= budget
assert losses[-1] < losses[0], losses
with lzma.open(sys.argv[1]) as file:
    assert stowage.plan(file.read(), batch=32, device="cpu").arena_bytes > 0
try:
    stowage.plan("mlp", batch=2, cpu_target="v3")
    raise AssertionError("a target of x86-64 was taken")
except stowage.InvalidArgument as error:
    assert "v3 is for x86-64, this build for AArch64" in str(error), error
PYTHON
echo "[wheel] $(basename "$wheel"), $(stat -c %s "$wheel") bytes: installed and used"
