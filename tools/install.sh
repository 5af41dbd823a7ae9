#!/usr/bin/env bash
# Installs Stowage for builds other than Bazel's: headers, one static library, and
# what find_package(Stowage) and pkg-config read (docs/tutorials/using.md).
#
#   tools/install.sh --prefix DIR [BAZEL'S OPTION]...
#
#   DIR/include/stowage/                    replaced as a whole
#   DIR/lib/libstowage.a
#   DIR/lib/pkgconfig/stowage.pc
#   DIR/lib/cmake/Stowage/StowageConfig.cmake, StowageConfigVersion.cmake
#
# The folder can be moved afterwards. The library is made for this machine's
# processor; with --config=portable, for any x86-64 since about 2009, by kernels for the
# processor that it is on.
set -euo pipefail

if [[ ${1-} != --prefix || -z ${2-} ]]; then
  echo "[install] expected --prefix DIR, got \"$*\": tools/install.sh --prefix DIR [BAZEL'S OPTION]..." >&2
  exit 2
fi
prefix=$(realpath -m -- "$2")
shift 2
cd "$(dirname "$0")/.."

bazel build "$@" //:stowage //tools:archive
bin=$(bazel info "$@" bazel-bin 2>/dev/null)
version=$(sed -n 's/.*kVersion = "\(.*\)".*/\1/p' base/version.h)
mapfile -t linkopts <"$bin/tools/archive.linkopts"

# fill NAME FOLDER: tools/install/NAME.in, filled in.
fill() {
  sed -e "s|@VERSION@|$version|" -e "s|@LINKOPTS@|${linkopts[*]}|" \
    -e "s|@LINKOPTS_LIST@|$(IFS=';' && echo "${linkopts[*]}")|" \
    "tools/install/$1.in" >"$2/$1"
}

mkdir -p "$prefix"/{include,lib/{pkgconfig,cmake/Stowage}}
rm -rf "$prefix/include/stowage"
cp -RL "$bin/_virtual_includes/stowage/stowage" "$prefix/include/stowage"
cp "$bin/tools/libstowage.a" "$prefix/lib/"
chmod -R u+w "$prefix/include/stowage" "$prefix/lib/libstowage.a"
fill stowage.pc "$prefix/lib/pkgconfig"
fill StowageConfig.cmake "$prefix/lib/cmake/Stowage"
fill StowageConfigVersion.cmake "$prefix/lib/cmake/Stowage"
echo "[install] Stowage $version is in $prefix"
