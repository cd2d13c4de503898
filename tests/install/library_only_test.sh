#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Goal: TUTTI_LIBRARY_ONLY builds and installs the library with libsodium as the only dependency.
# Method: pkg-config finds libsodium alone; a consumer is built with the installed files.
# Labels: check packages
# Timeout: 400
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    printf 'library_only_test: %s\n' "$*" >&2
    exit 1
}

mkdir "$work/pc"
cp "$(pkg-config --variable=pcfiledir libsodium)/libsodium.pc" "$work/pc/"
export PKG_CONFIG_LIBDIR=$work/pc
{
    cmake -S "${TEST_SOURCE:?}" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
        -DTUTTI_LIBRARY_ONLY=ON &&
        cmake --build "$work/build" && cmake --install "$work/build" --prefix "$work/prefix"
} >"$work/log" 2>&1 || fail "$(tail -n 20 "$work/log")"
[ ! -e "$work/prefix/bin" ] || fail "programs were installed"

PKG_CONFIG_LIBDIR=$work/pc:$(dirname "$(find "$work/prefix" -name tutti.pc)")
read -ra flags <<<"$(pkg-config --cflags --libs tutti)"
"${CC:-cc}" "$here/consumer.c" -o "$work/consumer" "${flags[@]}" \
    -Wl,-rpath,"$(pkg-config --variable=libdir tutti)"
"$work/consumer"
