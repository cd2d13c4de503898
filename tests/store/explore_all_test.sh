#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# explore_all_test.sh - three workers, four clocks, staleness up to 2 and one death, in every order;
# and the search finds planted bugs (src/base/plant.h).
# Labels: check sync
# Timeout: 900
set -u
find_bug() {
    status=0
    "$TEST_BIN/test-store-explore-planted" --bug NONE "$2" >/dev/null 2>&1 || status=$?
    if [ "$status" -ne 0 ]; then
        echo "$2 fails without a planted bug (status $status)"
        exit 1
    fi
    output=$("$TEST_BIN/test-store-explore-planted" --bug "$1" "$2" 2>&1) || status=$?
    if [ "$status" -ne 1 ]; then
        echo "$1 was not found (status $status)"
        exit 1
    fi
    echo "$1: $(grep -m 1 ERROR <<<"$output")"
}
find_bug PUSH_APPLIED_TWICE test_a_push_arrives_twice
find_bug PULL_ANSWERED_TOO_EARLY test_all_orders_of_clocks_and_pushes
find_bug CLOCK_KEEPS_THE_DEAD test_a_worker_dies
find_bug CLOCK_KEEPS_THE_DEAD test_a_worker_leaves
exec "$TEST_BIN/test_store_explore" --all
