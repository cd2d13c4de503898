#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# planted_test.sh - the simulation finds every bug that was planted on purpose (src/base/plant.h).
# Labels: check
# Timeout: 600
set -u
bugs=$(grep -oE 'X\([A-Z_]+\)' "$TUTTI_SOURCE/src/base/plant.h" | tr -d 'X()')
missed=0
if ! "$TUTTI_BIN/tutti-simulate-planted" --seeds 500 >/dev/null; then
    echo "seeds fail without a planted bug"
    exit 1
fi
for bug in $bugs; do
    # A failed check (1) or a failed assertion (134) finds it; 2 is a bug that does not exist.
    simulate="$TUTTI_BIN/tutti-simulate-planted"
    "$simulate" --named --seeds 600 --failures 1 --bug "$bug" >found.txt 2>&1
    status=$?
    if [ "$status" -eq 0 ]; then
        "$simulate" --seeds 5000 --failures 1 --bug "$bug" >found.txt 2>&1
        status=$?
    fi
    if [ "$status" -ne 1 ] && [ "$status" -ne 134 ]; then
        echo "$bug was not found (status $status)"
        missed=1
    else
        echo "$bug: $(grep -E 'failed' found.txt | head -n 1)"
    fi
done
rm -f found.txt
exit "$missed"
