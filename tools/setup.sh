#!/usr/bin/env bash
# Installs what a build needs and this system lacks, from Debian's or Ubuntu's
# own packages; does nothing, quickly, when all is there.
#
#   tools/setup.sh            what a build needs, the optional libraries among it: what reads
#                             ONNX files, tokenizers and images, and makes the Python package
#   tools/setup.sh --tests    also what tests alone use: what runs notebooks, mpirun, and
#                             the test data of ONNX
#   tools/setup.sh --checks   also what .ci/run needs: git, clang, lld, clang-format,
#                             cmake, make and pkg-config, by which programs are built
#                             outside of Bazel, python3-venv, where the wheel is tried,
#                             chromium, in which pages are tested, and qemu-user and a
#                             compiler for AArch64, for processors that this machine is not
#   tools/setup.sh --nightly  also what .ci/nightly needs: compilers for Cortex-M, RISC-V and
#                             WebAssembly, qemu-system-arm, node, Coq and OCaml
#   tools/setup.sh --aarch64  what a build needs, and what --config=aarch64 does: the cross
#                             compiler, qemu-user, and the optional libraries for arm64, which
#                             becomes a foreign architecture of dpkg. --nightly has it, too
set -euo pipefail

missing=()

# need PACKAGE FILE...: the package, unless one of the files exists.
need() {
  local package=$1 file
  shift
  for file in "$@"; do
    [[ -e $file ]] && return
  done
  missing+=("$package")
}

# need_command PACKAGE COMMAND...: the package, unless a command is there.
need_command() {
  local package=$1 command
  shift
  for command in "$@"; do
    command -v "$command" >/dev/null && return
  done
  missing+=("$package")
}

need_command bazel-bootstrap bazel
need_command g++ g++
need_command python3 python3
need libeigen3-dev /usr/{,local/}include/eigen3/Eigen/Core /usr/{,local/}include/Eigen/Core
need doctest-dev /usr/{,local/}include/doctest/doctest.h
need libcli11-dev /usr/{,local/}include/CLI/CLI.hpp
need nlohmann-json3-dev /usr/{,local/}include/nlohmann/json.hpp
need zlib1g-dev /usr/{,local/}include/zlib.h
need libpng-dev /usr/{,local/}include/png.h
need libjpeg-dev /usr/{,local/}include/jpeglib.h
need libprotobuf-dev /usr/{,local/}include/google/protobuf/message_lite.h
need_command protobuf-compiler protoc
need libpcre2-dev /usr/{,local/}include/pcre2.h
need python3-dev /usr/include/python3*/Python.h
need pybind11-dev /usr/include/pybind11/pybind11.h
need python3-numpy /usr/lib/python3/dist-packages/numpy/__init__.py
if [[ ${1-} == --@(tests|checks|nightly) ]]; then
  need python3-nbclient /usr/lib/python3/dist-packages/nbclient/__init__.py
  need python3-ipykernel /usr/lib/python3/dist-packages/ipykernel/__init__.py
  need_command openmpi-bin mpirun
  need_command iproute2 ip
  need libonnx-testdata /usr/share/libonnx-testdata/data/node/test_abs/model.onnx
fi
if [[ ${1-} == --checks || ${1-} == --nightly ]]; then
  need_command git git
  need_command clang clang
  need libclang-rt-dev /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.asan-*.a
  need_command lld ld.lld
  need_command clang-format clang-format clang-format-14
  need python3-venv /usr/lib/python3*/ensurepip/__init__.py
  need_command cmake cmake
  need_command make make
  need_command pkgconf pkg-config
  need_command chromium chromium
  need_command qemu-user qemu-x86_64
fi
if [[ ${1-} == --nightly ]]; then
  need_command qemu-system-arm qemu-system-arm
  need_command gcc-arm-none-eabi arm-none-eabi-gcc
  need libnewlib-arm-none-eabi /usr/lib/arm-none-eabi/newlib/libm.a
  need_command gcc-riscv64-linux-gnu riscv64-linux-gnu-gcc
  need libc6-dev-riscv64-cross /usr/riscv64-linux-gnu/include/string.h
  need_command emscripten emcc
  need_command nodejs node
  need_command coq coqc
  need_command ocaml-nox ocamlopt
fi
if [[ ${1-} == --@(aarch64|checks|nightly) ]]; then
  need_command g++-aarch64-linux-gnu aarch64-linux-gnu-g++
  need_command qemu-user qemu-aarch64
fi
if [[ ${1-} == --aarch64 || ${1-} == --nightly ]]; then
  for library in zlib1g:z libpng:png16 libjpeg:jpeg libprotobuf:protobuf-lite libpcre2:pcre2-8; do
    need "${library%:*}-dev:arm64" "/usr/lib/aarch64-linux-gnu/lib${library#*:}.so"
  done
  need libpython3-dev:arm64 /usr/include/aarch64-linux-gnu/python3*/pyconfig.h
fi

[[ ${#missing[@]} == 0 ]] && exit

if ! command -v apt-get >/dev/null; then
  echo "[setup] missing: ${missing[*]}; there is no apt-get here: install what these Debian packages hold" >&2
  exit 1
fi
as_root=()
if [[ $(id -u) != 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "[setup] missing: ${missing[*]}; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
  [[ -t 0 ]] || as_root+=(-n)
fi
echo "[setup] installing ${missing[*]}" >&2
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
    -o Dpkg::Use-Pty=0 "$@" </dev/null >&2
}
if [[ ${missing[*]} == *:arm64* && $(dpkg --print-foreign-architectures) != *arm64* ]]; then
  "${as_root[@]}" dpkg --add-architecture arm64
fi
apt update || echo "[setup] apt-get update failed; trying with the lists at hand" >&2
apt install --no-install-recommends "${missing[@]}"
if ! command -v nvcc >/dev/null && [[ ! -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; then
  echo "[setup] no CUDA toolkit: GPU code will not be built; docs/guides/gpu.md says how to get one" >&2
fi
