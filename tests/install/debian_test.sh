#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Goal: the Debian packages build with the dependencies of debian/control alone, and work on a
# machine that has nothing else.
# Method: a minimal system in a folder, twice: one builds the packages, the other installs them.
# $TUTTI_TEST_SYSTEM may name the archive of such a system (mmdebstrap --variant=apt) for both.
# Labels: check packages
# Timeout: 1500
set -euo pipefail

source=${TEST_SOURCE:?}
here=$source/tests/install
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

fail() {
    printf 'debian_test: %s\n' "$*" >&2
    exit 1
}

skip() {
    printf 'skipped: %s\n' "$*"
    exit 77
}

# inside SYSTEM COMMAND: run it there, with the kernel's file systems that programs need.
inside() {
    # shellcheck disable=SC2016 # the inner shell's
    unshare --mount --pid --fork bash -c '
        mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" &&
            exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
                DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 bash -euc "$2"' \
        inside "$1" "$2" >"$work/log" 2>&1 || fail "$2: $(tail -n 30 "$work/log")"
}

[ "$(id -u)" = 0 ] || skip "a system in a folder is made by root"
[ -f /etc/debian_version ] || skip "this is no Debian"
unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces for root here"
system=${TUTTI_TEST_SYSTEM:-$work/system.tar}
if [ ! -f "$system" ]; then
    command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed"
    suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    list=/etc/apt/sources.list.d/debian.sources
    [ -f "$list" ] || list=/etc/apt/sources.list
    timeout 600 mmdebstrap --variant=apt "$suite" "$system" "$list" >"$work/log" 2>&1 ||
        skip "no packages for a new system: $(tail -n 3 "$work/log")"
fi

for name in build user; do
    mkdir "$work/$name"
    tar -x -C "$work/$name" --exclude='./dev/*' -f "$system"
    cp /etc/resolv.conf "$work/$name/etc/"
done

echo "build"
mkdir "$work/build/tutti"
(cd "$source" && tar -c --exclude='./build*' --exclude=./.git .) | tar -x -C "$work/build/tutti"
install='apt-get install -q -y --no-install-recommends'
inside "$work/build" "apt-get update -q && $install dpkg-dev build-essential"
inside "$work/build" "cd /tutti && apt-get build-dep -q -y --no-install-recommends ./"
inside "$work/build" "cd /tutti && dpkg-buildpackage -b -us -uc"
! grep -a -r -l /tutti/src "$work/build/tutti/debian/libtutti0.1/usr" ||
    fail "a binary says where it was built"

echo "install"
mkdir "$work/user/debs"
cp "$work"/build/*.deb "$here/consumer.c" "$work/user/debs/"
rm "$work"/user/debs/*-dbgsym_* 2>/dev/null || true
inside "$work/user" "apt-get update -q && $install /debs/*.deb"
cp "$work/log" "$work/installed.log"

echo "command"
inside "$work/user" 'tutti --help && tutti doctor; tutti run -n 2 tutti-conformance together named'
[ -f "$work/user/usr/share/man/man1/tutti-run.1.gz" ] || fail "no manual page"
[ -f "$work/user/usr/share/doc/tutti/docs/running.md" ] ||
    [ -f "$work/user/usr/share/doc/tutti/docs/running.md.gz" ] || fail "no documents"

echo "Python"
cat >"$work/user/debs/sum.py" <<'END'
import array, importlib.metadata, tutti
with tutti.init() as job:
    values = array.array("f", [job.rank + 1.0])
    job.allreduce(values, out=values)
    assert values[0] == 3.0, values
assert importlib.metadata.version("tutti") == "0.1.0"
[found] = importlib.metadata.entry_points(group="torch.distributed.backends")
assert found.value == "tutti.torch.backend:register", found
END
inside "$work/user" 'tutti run -n 2 python3 /debs/sum.py && tutti-horovodrun --check-build'
inside "$work/user" 'tutti run --as-horovod -n 1 python3 -c "
import importlib.metadata
assert importlib.metadata.version(\"horovod\")"'

echo "development"
inside "$work/user" "$install gcc libc6-dev pkg-config && cd /debs &&
    gcc consumer.c \$(pkg-config --cflags --libs tutti) -o consumer && ./consumer &&
    gcc consumer.c \$(pkg-config --cflags tutti) -l:libtutti.a -lsodium -lm -o static && ./static"

echo "removal"
inside "$work/user" 'apt-get purge -q -y libtutti-dev libtutti0.1 python3-tutti tutti'
left=$(find "$work/user/usr" -path '*tutti*' -print -quit)
[ -z "$left" ] || fail "$left is left"
