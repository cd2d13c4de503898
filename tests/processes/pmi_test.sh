#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Goal: ranks started by MPICH's own launcher exchange texts through its PMI server, over the
# inherited descriptor and over TCP. Exits 77, skipped, where the launcher is not installed.
# Timeout: 200
set -euo pipefail

launcher=$(command -v mpirun.mpich || true)
if [ -z "$launcher" ]; then
    echo "skipped: mpirun.mpich is not installed (package mpich)"
    exit 77
fi

expect_all() {
    local count=$1
    shift
    local said
    said=$("$launcher" "$@" "$TEST_BIN/tutti-pmi")
    for ((rank = 0; rank < count; rank++)); do
        grep -q "^rank $rank of $count in .*: ok$" <<<"$said" || {
            echo "rank $rank is missing from: $said"
            exit 1
        }
    done
}

expect_all 1 -n 1
expect_all 4 -n 4
# Over TCP the launcher sends the size on the wire only; the rank needs it before it connects.
expect_all 3 -n 3 -pmi-port -genv PMI_SIZE 3
