#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Goal: `make uninstall` removes the files of the last install, and no others.
# Method: the Makefile of this tree with a stand-in for CMake that installs two files.
set -euo pipefail

source=${TEST_SOURCE:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    printf 'uninstall_test: %s\n' "$*" >&2
    exit 1
}

mkdir -p "$work/tree/tools" "$work/tree/build" "$work/bin" "$work/live/bin"
cp "$source/Makefile" "$work/tree/"
cp "$source/tools/uninstall" "$work/tree/tools/"
printf '#!/bin/sh\n' >"$work/tree/tools/install-deps"
cat >"$work/bin/cmake" <<'END'
#!/bin/sh
[ "$1" = --install ] || exit 0
prefix=$4
mkdir -p "$DESTDIR$prefix/bin" "$DESTDIR$prefix/share/tutti/plugins"
touch "$DESTDIR$prefix/bin/tutti" "$DESTDIR$prefix/share/tutti/plugins/mpi.c"
printf '%s\n' "$prefix/bin/tutti" >build/install_manifest.txt
printf '%s' "$prefix/share/tutti/plugins/mpi.c" >>build/install_manifest.txt # CMake's has no end
END
chmod +x "$work/bin/cmake" "$work/tree/tools/install-deps"
export PATH=$work/bin:$PATH
unset DESTDIR PREFIX
installs() {
    make -s -C "$work/tree" install PREFIX="$work/live" "$@" >/dev/null
}
uninstalls() {
    make -s -C "$work/tree" uninstall "$@" >"$work/log"
}

installs
installs DESTDIR="$work/stage"
[ -f "$work/stage$work/live/bin/tutti" ] || fail "nothing was staged"
uninstalls
[ -f "$work/live/bin/tutti" ] || fail "uninstalling a staged copy removed the live one"
[ ! -e "$work/stage$work/live/bin/tutti" ] || fail "the staged copy is still there"

installs DESTDIR=near
uninstalls
[ ! -e "$work/tree/near$work/live/bin/tutti" ] || fail "a stage named by a relative path is kept"
[ -f "$work/live/bin/tutti" ] || fail "a relative stage removed the live copy"

installs
uninstalls
[ ! -e "$work/live/bin/tutti" ] || fail "the live copy is still there"
[ ! -e "$work/live/share/tutti" ] || fail "our folder is still there"
[ -d "$work/live/bin" ] || fail "a folder that is not ours was removed"
! uninstalls 2>/dev/null || fail "a second uninstall says nothing"
