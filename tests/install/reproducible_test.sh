#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Goal: library and command are the same bytes wherever they are built, and contain no build path.
# Method: build copies of the tree in two folders and compare.
# Labels: check packages
# Timeout: 600
set -euo pipefail

source=${TEST_SOURCE:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1 # its copies come from one of the folders

fail() {
    printf 'reproducible_test: %s\n' "$*" >&2
    exit 1
}

# built FOLDER: without optimisation, which does not affect the result.
built() {
    mkdir -p "$1"
    (cd "$source" && tar -c --exclude='./build*' --exclude=./.git .) | tar -x -C "$1"
    {
        cmake -S "$1" -B "$1/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DTUTTI_TESTS=OFF &&
            cmake --build "$1/build" --target tutti_shared tutti_static tutti_cli
    } >"$work/log" 2>&1 || fail "$(tail -n 20 "$work/log")"
}

built "$work/one"
built "$work/a/longer/path"
for file in libtutti.so libtutti.a bin/tutti; do
    ! grep -a -q "$work" "$work/one/build/$file" || fail "$file says where it was built"
    cmp "$work/one/build/$file" "$work/a/longer/path/build/$file" || fail "$file differs"
done
