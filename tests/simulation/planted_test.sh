#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# planted_test.sh - the simulation, or a unit test, finds every planted bug (src/base/plant.h); as
# many bugs at once as there are cores.
# Labels: check
# Timeout: 600
set -u
worlds="$TEST_BIN/tutti-worlds-planted"
stores="$TEST_BIN/tutti-worlds_store-planted"
bugs=$(grep -oE 'X\([A-Z_]+\)' "$TEST_SOURCE/src/base/plant.h" | tr -d 'X()')
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Exit status 1 (a failed check) or 134 (a failed assertion): found; 2: there is no such bug.
search() {
    program=$worlds
    case $1 in
    PUSH_* | PULL_* | CLOCK_* | LATE_PUSH_* | UNCOUNTED_*) # stores
        program=$stores
        set -- "$1" "--seeds 4000"
        ;;
    DECISION_* | KEEPER_* | ADOPTED_*) # sums of quorums whose servers die
        program="$TEST_BIN/tutti-worlds_store-planted"
        set -- "$1" "--first 20000000 --seeds 2000"
        ;;
    BUSY_RANK_* | CHANGED_CLAIM_* | RELAY_* | HANDOVER_*) # named sums by servers
        program=$stores
        set -- "$1" "--sums --seeds 600"
        ;;
    *_NOT_KEPT) # stores that move to other owners
        program=$stores
        set -- "$1" "--keep --seeds 300"
        ;;
    OPENED_WITHOUT_*) # likewise, and processes die; one of some thousand seeds shows it
        program=$stores
        set -- "$1" "--keep --first 10001000 --seeds 900"
        ;;
    READ_COPY_*) # likewise, one of some ten thousand
        program=$stores
        set -- "$1" "--keep --first 10018800 --seeds 900"
        ;;
    OTHER_USER_TAKEN)
        accept "$1"
        return
        ;;
    CARD_* | FRAME_*) # models of a network
        unit "$1" "$TEST_BIN/test-sim-moves-planted"
        return
        ;;
    SUM_ORDER_* | DEADLINE_*) set -- "$1" "--first 3000000 --seeds 600" ;; # drawn there alone
    NAMED_DEADLINE_*) set -- "$1" "--named --first 3000000 --seeds 900" ;;
    OFFER_* | ANY_SOURCE_*) set -- "$1" "--first 5000000 --seeds 600" ;;
    HINT_* | SETTING_NOT_* | IDLE_*) # calls in rotation
        set -- "$1" "--first 6000000 --seeds 900"
        ;;
    TUNED_*) set -- "$1" "--named --first 7000000 --seeds 900" ;;
    BATCH_*) set -- "$1" "--named --first 8000000 --seeds 900" ;; # callbacks submit
    STAGE_*) # frames of a stage to come: many stages, then two
        set -- "$1" "--first 9000000 --seeds 900" "--named --seeds 900" "--seeds 5000"
        ;;
    STARVED_*) set -- "$1" "--named --first 5000000 --seeds 900" ;;
    RESIDUAL_* | OCCURRENCE_NOT_* | OWNER* | MERGE_*) # coded sums
        set -- "$1" "--named --first 10000000 --seeds 900"
        ;;
    ESTIMATE_*) set -- "$1" "--named --first 11000000 --seeds 900" ;;
    SET_RELEASED_*) set -- "$1" "--first 4000000 --seeds 3000" ;;
    FLAT_* | PLACES_* | RECIPE_*) # calls that repeat
        set -- "$1" "--first 2000000 --seeds 600"
        ;;
    *) set -- "$1" "--named --seeds 900" "--seeds 5000" ;;
    esac
    status=0
    for seeds in "${@:2}"; do
        # shellcheck disable=SC2086 # words
        [ "$status" -ne 0 ] ||
            "$program" $seeds --failures 1 --bug "$1" >"$folder/$1" 2>&1 || status=$?
    done
    if [ "$status" -ne 1 ] && [ "$status" -ne 134 ]; then
        echo "$1 was not found (status $status)"
        return 1
    fi
    echo "$1: $(grep -E 'failed' "$folder/$1" | head -n 1)"
}

# Needs root, which can connect as another user.
accept() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "$1: not tried, not root"
        return
    fi
    unit "$1" "$TEST_BIN/test-mesh-accept-planted"
}

# A unit test: its status is the number of tests that failed.
unit() {
    status=0
    "$2" >/dev/null 2>&1 || { echo "$2 fails without a planted bug" && return 1; }
    "$2" --bug "$1" >"$folder/$1" 2>&1 || status=$?
    if [ "$status" -lt 1 ] || [ "$status" -gt 100 ] || ! grep -q FAILED "$folder/$1"; then
        echo "$1 was not found (status $status)"
        return 1
    fi
    echo "$1: $(grep FAILED "$folder/$1" | head -n 1)"
}

# Otherwise a broken build would find them all.
if ! "$worlds" --seeds 500 >/dev/null || ! "$worlds" --named --seeds 900 >/dev/null ||
    ! "$worlds" --named --first 10000000 --seeds 300 >/dev/null ||
    ! "$worlds" --named --first 11000000 --seeds 300 >/dev/null ||
    ! "$stores" --seeds 600 >/dev/null || ! "$stores" --sums --seeds 300 >/dev/null ||
    ! "$stores" --keep --seeds 200 >/dev/null ||
    ! "$stores" --keep --first 10000000 --seeds 300 >/dev/null; then
    echo "seeds fail without a planted bug"
    exit 1
fi
export worlds stores folder
export -f search accept unit
# xargs exits with 123 if a search has failed.
printf '%s\n' $bugs | xargs -P "$(nproc)" -I{} bash -c 'search {}'
