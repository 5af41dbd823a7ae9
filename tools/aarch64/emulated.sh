#!/usr/bin/env bash
# Runs a program for AArch64 by qemu: `emulated.sh PROGRAM ARGUMENT...`.
#
# The C library is arm64's where one of Debian's arm64 libraries brought it, else the cross
# compiler's. Never one's loader with the other's library: threads would not start.
prefix=()
[[ -e /lib/ld-linux-aarch64.so.1 ]] || prefix=(-L /usr/aarch64-linux-gnu)
exec qemu-aarch64 "${prefix[@]}" "$@"
