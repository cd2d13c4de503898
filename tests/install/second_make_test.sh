#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Goal: `make` builds library, command, examples and plugins, no tests; and a second `make` finds
# MPI, UCX and PMIx that were installed since the first, and drops those that were removed.
# Method: configure one folder three times; between them a stand-in for each is added and removed.
set -euo pipefail

source=${TEST_SOURCE:?}
build=${TEST_BUILD:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    printf 'second_make_test: %s\n' "$*" >&2
    exit 1
}

echo "what make builds"
ninja -C "$build" -t query all | sed 's/^ *//' >"$work/inputs"
for wanted in libtutti.so libtutti.a bin/tutti bin/tutti-conformance bin/hello bin/02_gpt; do
    grep -qx "$wanted" "$work/inputs" || fail "make does not build $wanted"
done
! grep -E '^(support|fuzz)_|bin/(test_|fuzz-|bench-|tutti-worlds)' "$work/inputs" ||
    fail "make builds tests or benchmarks"
# Not grep -q: it ends early, and under pipefail a make that still writes counts as failed.
make -C "$source" -n all | grep 'cmake --preset default' >/dev/null ||
    fail "make does not configure anew"

echo "what it finds the second time"
mkdir "$work/bin" "$work/pc"
for tool in cmake ninja cc gcc as ld ar ranlib pkg-config python3 bash sh uname; do
    ln -s "$(command -v "$tool")" "$work/bin/$tool"
done
for library in libsodium jansson; do
    cp "$(pkg-config --variable=pcfiledir "$library")/$library.pc" "$work/pc/"
done

configured() {
    env -i HOME="$HOME" PATH="$work/bin" PKG_CONFIG_LIBDIR="$work/pc" cmake -S "$source" \
        -B "$work/build" -G Ninja -DTUTTI_TESTS=OFF -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF \
        >"$work/log" 2>&1 || fail "$(tail -n 20 "$work/log")"
    ninja -C "$work/build" -t query all >"$work/all"
    grep -o 'plugins/tutti-.*\.so$' "$work/all" | sort | tr '\n' ' ' || true
}

[ "$(configured)" = "" ] || fail "plugins without their libraries"

printf '#!/bin/sh\necho gcc -I/nowhere -L/nowhere -lmpi\n' >"$work/bin/mpicc.mpich"
chmod +x "$work/bin/mpicc.mpich"
for library in ucx pmix; do
    printf 'Name: %s\nDescription: stand-in\nVersion: 9\nLibs: -l%s\n' "$library" "$library" \
        >"$work/pc/$library.pc"
done
found=$(configured)
[ "$found" = "plugins/tutti-mpi-mpich.so plugins/tutti-pmix.so plugins/tutti-ucx.so " ] ||
    fail "found only: $found"

rm "$work/bin/mpicc.mpich"
[[ "$(configured)" != *mpich* ]] || fail "MPICH is gone, its plugin is not"
