#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Goal: a user's program builds against an installed copy: pkg-config, CMake, shared, static, C and
# C++17.
# Method: install below a temporary prefix, build tests/install/consumer.c against it each way.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=${TEST_BUILD:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
    printf 'install_test: %s\n' "$*" >&2
    exit 1
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log" || {
    cat "$work/install.log"
    fail "cmake --install failed"
}
[ -f "$prefix/include/tutti/tutti.h" ] || fail "the public header is not installed"
library_dir=$(dirname "$(find "$prefix" -name libtutti.a)")
export PKG_CONFIG_PATH=$library_dir/pkgconfig
export LD_LIBRARY_PATH=$library_dir
cc=${CC:-cc}
read -ra cflags <<<"$(pkg-config --cflags tutti)"
read -ra shared <<<"$(pkg-config --libs tutti)"
read -ra static <<<"$(pkg-config --static --libs tutti | sed 's/-ltutti/-l:libtutti.a/')"
strict=(-std=c11 -Wall -Wextra -Wpedantic -Werror)

echo "shared, by pkg-config"
"$cc" "${strict[@]}" "${cflags[@]}" "$here/consumer.c" -o "$work/by_shared" "${shared[@]}"
"$work/by_shared"
soname=$(readelf -d "$work/by_shared" | sed -n 's/.*NEEDED.*\[\(libtutti[^]]*\)\]/\1/p')
version=$(pkg-config --modversion tutti)
case $version in
0.*) [ "$soname" = "libtutti.so.${version%.*}" ] ;; # any minor may be incompatible
*) [ "$soname" = "libtutti.so.${version%%.*}" ] ;;
esac || fail "version $version, and the program asks for $soname"
grep -q "^SONAME = \"$soname\"" "$here/../../python/tutti/_library.py" ||
    fail "Python asks for another library than $soname"
echo "shared, found by its run path (README.md)"
"$cc" "${cflags[@]}" "$here/consumer.c" -o "$work/by_rpath" "${shared[@]}" \
    -Wl,-rpath,"$(pkg-config --variable=libdir tutti)"
env -u LD_LIBRARY_PATH "$work/by_rpath"
for file in README.md CHANGELOG.md docs/running.md docs/clusters/mpi.md examples/README.md; do
    [ -f "$prefix/share/doc/tutti/$file" ] || fail "$file is not installed"
done

echo "static, by pkg-config"
"$cc" "${strict[@]}" "${cflags[@]}" "$here/consumer.c" -o "$work/by_static" "${static[@]}"
env -u LD_LIBRARY_PATH "$work/by_static"
! readelf -d "$work/by_static" | grep 'libtutti' >/dev/null ||
    fail "the static program needs libtutti.so"

echo "both, by CMake"
cmake -S "$here" -B "$work/consumer" -G Ninja -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake.log" || {
    cat "$work/cmake.log"
    fail "find_package(tutti CONFIG) failed"
}
cmake --build "$work/consumer" >"$work/cmake.log" || {
    cat "$work/cmake.log"
    fail "the CMake consumer does not build"
}
"$work/consumer/consumer_shared"
"$work/consumer/consumer_static"

echo "C++17"
"${CXX:-c++}" -std=c++17 -Wall -Wextra -Wpedantic -Werror "${cflags[@]}" -x c++ "$here/consumer.c" \
    -o "$work/by_cxx" -x none "${shared[@]}"
"$work/by_cxx"

echo "the example of README.md"
awk '/^```c$/ { inside = 1; next } /^```/ { if (inside) exit } inside' \
    "$here/../../README.md" >"$work/readme.c"
"$cc" "${strict[@]}" "${cflags[@]}" "$work/readme.c" -o "$work/readme" "${shared[@]}"
env -i LD_LIBRARY_PATH="$LD_LIBRARY_PATH" "$work/readme" ||
    fail "the example of README.md does not run as a job of one rank"

echo "names"
nm -D --defined-only "$library_dir/libtutti.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    sort -u >"$work/exported"
! grep -v '^tutti_' "$work/exported" || fail "libtutti.so shows names that are not tutti_*"
grep -ohE '^TUTTI_API [^;(]*\b(tutti_\w+)\(' "$prefix"/include/tutti/*.h |
    grep -oE 'tutti_\w+\($' | tr -d '(' | sort -u >"$work/declared"
[ -s "$work/declared" ] || fail "no declaration found in the public header"
missing=$(comm -13 "$work/exported" "$work/declared")
[ -z "$missing" ] || fail "declared in the header, absent from libtutti.so: ${missing//$'\n'/ }"

if [ -x "$prefix/bin/tutti" ]; then
    echo "command"
    "$prefix/bin/tutti" --help >/dev/null || fail "the installed command does not answer --help"

    echo "an engine of a stranger, checked by the installed suite"
    suite=$prefix/bin/tutti-conformance
    "$suite" --help | grep mismatch >/dev/null || fail "tutti-conformance --help"
    "$prefix/bin/tutti" run -q -n 2 "$suite" together named >"$work/suite.log" ||
        fail "the installed suite: $(cat "$work/suite.log")"
    [ "$(grep -c 'of 2: ok$' "$work/suite.log")" = 2 ] || fail "the installed suite says too little"
    engine=$(find "$prefix/share/tutti/plugins" -name zmq_engine.c)
    if "$cc" -std=c11 -D_GNU_SOURCE -shared -fPIC -fvisibility=hidden "${cflags[@]}" "$engine" \
        -o "$work/tutti-zmq.so" -lzmq 2>"$work/zmq.log"; then
        TUTTI_PLUGIN_PATH=$work ZMQ_ENGINE_ADDRESS=ipc://$work/sums TUTTI_ENGINE=zmq \
            "$prefix/bin/tutti" run -q -n 2 "$suite" together >"$work/zmq.log" 2>&1 ||
            fail "the example engine: $(cat "$work/zmq.log")"
        grep -q 'engine zmq' "$work/zmq.log" || fail "the suite did not use the engine"
    fi
    if TUTTI_PLUGIN_PATH=$work TUTTI_ENGINE=absent "$prefix/bin/tutti" run -q -n 2 "$suite" \
        together >"$work/absent.log" 2>&1; then
        fail "a missing engine is no success"
    fi
    grep -q 'no plugin tutti-absent' "$work/absent.log" || fail "$(cat "$work/absent.log")"
fi
