#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# seeds_test.sh - seeds of workers, servers, a store and named sums, with faults; each is judged.
# Labels: sync asan
# Needs: tutti-worlds_store
# Timeout: 300
set -eu
"$TEST_BIN/tutti-worlds_store" --seeds 600
"$TEST_BIN/tutti-worlds_store" --first 20000000 --seeds 400
"$TEST_BIN/tutti-worlds_store" --sums --seeds 300
"$TEST_BIN/tutti-worlds_store" --keep --seeds 300
"$TEST_BIN/tutti-worlds_store" --keep --first 10000000 --seeds 400
